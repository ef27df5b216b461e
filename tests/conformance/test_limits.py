"""What a queue holds back: paused, full, or as much at once as it may."""

from andon.contract.outcomes import ChangeKind, CreateKind
from andon.lifecycle.commands import Cancel, Complete, Due, Evict, Fail, Release, Snooze
from andon.model.task import TaskError
from andon.model.words import State

from .kit import Kit, ids


async def test_a_paused_queue_hands_out_nothing_and_takes_everything(kit: Kit) -> None:
    await kit.configure(paused=True)
    task = await kit.submit()
    assert await kit.claim() == []
    await kit.configure(paused=False)
    assert ids(await kit.claim()) == [task.id]


async def test_a_paused_queue_does_not_stop_others(kit: Kit) -> None:
    await kit.configure(paused=True)
    await kit.submit()
    other = await kit.submit(queue="other")
    assert ids(await kit.claim(limit=5, queues=("default", "other"))) == [other.id]


# --- max_concurrent ---


async def test_no_more_runs_at_once_than_the_queue_allows(kit: Kit) -> None:
    await kit.configure(max_concurrent=2)
    await kit.submit_many(5)
    first, _ = await kit.claim(limit=5)
    assert await kit.claim(limit=5) == []
    await kit.move(first, Complete())
    assert len(await kit.claim(limit=5)) == 1


async def test_every_way_out_of_active_makes_room(kit: Kit) -> None:
    await kit.configure(max_concurrent=1)
    await kit.submit_many(4, policy={"retry_delay": 60.0})
    ways = [
        Snooze(delay=60_000),
        Fail(error=TaskError(message="no")),
        Cancel(force=True),
        Complete(),
    ]
    for way in ways:
        (task,) = await kit.claim(limit=5)
        await kit.move(task, way)


async def test_a_new_limit_takes_effect_at_once(kit: Kit) -> None:
    await kit.configure(max_concurrent=1)
    await kit.submit_many(3)
    assert len(await kit.claim(limit=5)) == 1
    await kit.configure(max_concurrent=None)
    assert len(await kit.claim(limit=5)) == 2


# --- max_concurrent_per_key ---


async def test_no_more_runs_of_a_key_at_once_than_the_queue_allows(kit: Kit) -> None:
    await kit.configure(max_concurrent_per_key=1)
    busy = await kit.submit_many(3, key="busy")
    calm = await kit.submit(key="calm")
    keyless = await kit.submit_many(2)
    claimed = await kit.claim(limit=10)
    assert sorted(ids(claimed)) == sorted([busy[0].id, calm.id, *ids(keyless)])
    assert (await kit.stats()).parked == 2


async def test_the_next_of_a_key_is_let_through_when_a_run_ends(kit: Kit) -> None:
    await kit.configure(max_concurrent_per_key=1)
    tasks = await kit.submit_many(3, key="k")
    for task in tasks:
        (claimed,) = await kit.claim(limit=10)
        assert claimed.id == task.id
        assert await kit.claim(limit=10) == []
        await kit.move(claimed, Complete())
    assert (await kit.stats()).parked == 0


async def test_every_way_out_lets_the_next_of_a_key_through(kit: Kit) -> None:
    await kit.configure(max_concurrent_per_key=1)
    await kit.submit_many(3, key="k", policy={"discard_states": ("completed",)})
    (first,) = await kit.claim(limit=10)
    await kit.move(first, Snooze(delay=60_000))
    (second,) = await kit.claim(limit=10)
    await kit.move(second, Complete())
    (third,) = await kit.claim(limit=10)
    await kit.move(third, Release())
    assert ids(await kit.claim(limit=10)) == [third.id]


async def test_a_ready_task_that_is_cancelled_lets_the_next_of_its_key_through(kit: Kit) -> None:
    await kit.configure(max_concurrent_per_key=1)
    first, second = await kit.submit_many(2, key="k")
    await kit.move(first, Cancel())
    assert ids(await kit.claim(limit=10)) == [second.id]


async def test_a_parked_task_can_be_cancelled(kit: Kit) -> None:
    await kit.configure(max_concurrent_per_key=1)
    first, second, third = await kit.submit_many(3, key="k")
    await kit.move(second, Cancel())
    (claimed,) = await kit.claim(limit=10)
    assert claimed.id == first.id
    await kit.move(claimed, Complete())
    assert ids(await kit.claim(limit=10)) == [third.id]


async def test_keys_of_different_queues_do_not_count_together(kit: Kit) -> None:
    for queue in ("a", "b"):
        await kit.configure(name=queue, max_concurrent_per_key=1)
        await kit.submit(queue=queue, key="k")
    assert len(await kit.claim(limit=10, queues=("a", "b"))) == 2


async def test_a_keyed_task_that_comes_by_its_timer_leaves_nothing_behind(kit: Kit) -> None:
    await kit.configure(max_concurrent_per_key=1)
    later = kit.store.now() + 3_600_000
    for on_unknown in ("wait", "fail"):  # only with the latter its kind is not its name
        task = await kit.submit(key="k", run_at=later, policy={"on_unknown": on_unknown})
        await kit.moved(await kit.moved(task, Due()), Cancel())
        assert await kit.claim() == []
        assert await kit.state(task.id) is State.CANCELLED


async def test_a_limit_per_key_set_later_holds_for_what_is_there(kit: Kit) -> None:
    await kit.submit_many(4, key="k")
    assert len(await kit.claim(limit=1)) == 1
    await kit.configure(max_concurrent_per_key=2)
    assert len(await kit.claim(limit=10)) == 1
    await kit.configure(max_concurrent_per_key=None)
    assert len(await kit.claim(limit=10)) == 2
    assert (await kit.stats()).parked == 0


async def test_a_repeated_claim_is_answered_at_the_limit_too(kit: Kit) -> None:
    await kit.configure(max_concurrent=1, max_concurrent_per_key=1)
    await kit.submit(key="k")
    first = await kit.claim(token="t")
    assert await kit.claim(token="t") == first


# --- rate_limit ---


async def test_no_more_claims_than_the_bucket_holds(kit: Kit) -> None:
    await kit.configure(rate_limit=0.001, rate_burst=3)
    await kit.submit_many(5)
    assert len(await kit.claim(limit=2)) == 2
    assert len(await kit.claim(limit=5)) == 1
    assert await kit.claim(limit=5) == []


async def test_the_bucket_fills_with_time_up_to_its_burst(kit: Kit) -> None:
    await kit.configure(rate_limit=50, rate_burst=2)
    await kit.submit_many(8)
    for _ in range(2):
        before = kit.store.now()
        claimed = len(await kit.claim(limit=8))
        filled_meanwhile = (kit.store.now() - before) * 50 // 1000 + 1
        assert 2 <= claimed <= (2 if kit.store.partitions == 1 else 2 + filled_meanwhile)
        await kit.pass_time(100)


async def test_an_empty_queue_costs_no_tokens(kit: Kit) -> None:
    await kit.configure(rate_limit=0.001, rate_burst=1)
    assert await kit.claim(limit=8) == []
    await kit.submit()
    assert len(await kit.claim(limit=8)) == 1


async def test_a_rate_below_one_a_second_lets_one_through(kit: Kit) -> None:
    await kit.configure(rate_limit=0.01)
    await kit.submit_many(2)
    assert len(await kit.claim(limit=8)) == 1


# --- max_size ---


async def test_a_full_queue_refuses(kit: Kit) -> None:
    await kit.configure(max_size=2)
    outcomes = await kit.create(*[kit.record() for _ in range(3)])
    assert [o.kind for o in outcomes] == [CreateKind.CREATED, CreateKind.CREATED, CreateKind.FULL]
    assert (await kit.stats()).counts == {"pending": 2}


async def test_the_last_places_of_a_full_queue_are_given_in_the_order_of_the_batch(
    kit: Kit,
) -> None:
    await kit.configure(max_size=2)
    outcomes = await kit.create(
        kit.record(unique_key="z"), kit.record(), kit.record(unique_key="a"), kit.record()
    )
    created, full = CreateKind.CREATED, CreateKind.FULL
    assert [o.kind for o in outcomes] == [created, created, full, full]


async def test_a_unique_key_is_free_for_the_next_of_the_batch_if_the_first_found_no_place(
    kit: Kit,
) -> None:
    await kit.configure(max_size=1)
    first, refused = kit.record(), kit.record(unique_key="k")
    elsewhere, held = (kit.record(unique_key="k", queue="other") for _ in range(2))
    outcomes = await kit.create(first, refused, elsewhere, held)
    kinds = [CreateKind.CREATED, CreateKind.FULL, CreateKind.CREATED, CreateKind.KEY_HELD]
    assert [o.kind for o in outcomes] == kinds
    assert outcomes[3].holder == elsewhere.id
    (again,) = await kit.create(kit.record(unique_key="k", queue="other"))
    assert again.holder == elsewhere.id


async def test_only_pending_tasks_count_against_the_size(kit: Kit) -> None:
    await kit.configure(max_size=1)
    await kit.submit(run_at=kit.store.now() + 60_000)
    await kit.active()
    await kit.submit()
    await kit.submit(run_at=kit.store.now() + 60_000)
    (full,) = await kit.create(kit.record())
    assert full.kind is CreateKind.FULL


async def test_a_repeated_submit_is_no_matter_of_size(kit: Kit) -> None:
    await kit.configure(max_size=1)
    task = await kit.submit()
    (again,) = await kit.create(kit.record(task.id))
    assert again.kind is CreateKind.EXISTS


async def test_a_full_queue_that_discards_names_its_oldest(kit: Kit) -> None:
    await kit.configure(max_size=2, on_full="discard-old")
    oldest = await kit.submit()
    await kit.pass_time(2)
    await kit.submit()
    (full,) = await kit.create(kit.record())
    assert full.oldest[0] == oldest
    assert (await kit.try_move(full.oldest[0], Evict())).kind is ChangeKind.APPLIED
    await kit.submit()
    assert (await kit.stats()).counts == {"pending": 2, "cancelled": 1}
