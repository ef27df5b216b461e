"""Creating: idempotent by id, also for a while after the task has gone."""

from andon.contract.limits import MAX_BATCH
from andon.contract.optional import TakesMany
from andon.contract.outcomes import CreateKind
from andon.lifecycle.commands import Cancel, Complete, Delete
from andon.model.words import Event, State

from .kit import Kit


async def test_a_created_task_is_read_as_it_was_submitted(kit: Kit) -> None:
    task = await kit.submit(
        args=b'{"a":1}', tags=("x", "y"), headers={"h": "v"}, priority=3, key="k", version=2
    )
    read = await kit.there(task.id)
    assert read.definition == task.definition
    assert read.status == task.status
    assert read.cell is None
    assert read.result is None


async def test_the_submit_event_is_written_with_the_record(kit: Kit) -> None:
    task = await kit.submit()
    (event,) = (await kit.store.history(task.id)).events
    assert (event.event, event.target, event.revision) == (Event.SUBMIT, State.PENDING, 1)


async def test_a_repeated_submit_stores_nothing_and_tells_what_is_there(kit: Kit) -> None:
    task = await kit.submit(digest="d1")
    end = await kit.store.events_end()
    (again,) = await kit.create(kit.record(task.id, digest="d2"))
    assert (again.kind, again.digest, again.state) == (CreateKind.EXISTS, "d1", State.PENDING)
    assert (await kit.read_events(end)).events == ()
    assert (await kit.stats()).counts == {"pending": 1}


async def test_as_many_are_created_in_one_call_as_the_store_says_it_takes(kit: Kit) -> None:
    most = kit.store.most_created if isinstance(kit.store, TakesMany) else MAX_BATCH
    alike = [kit.record(write_id="together") for _ in range(most)]
    mixed = [alike[0], *(kit.record(run_at=kit.store.now() + 60_000 + i) for i in range(1, most))]
    end = await kit.store.events_end()
    assert {o.kind for o in await kit.create(*alike)} == {CreateKind.CREATED}
    kinds = [o.kind for o in await kit.create(*mixed)]
    assert kinds == [CreateKind.EXISTS, *[CreateKind.CREATED] * (most - 1)]
    names = {task.id for task in (*alike, *mixed)}
    assert len(names) == 2 * most - 1
    assert {event.task for event in (await kit.read_events(end)).events} == names
    assert (await kit.stats()).counts == {State.PENDING: most, State.SCHEDULED: most - 1}
    for task in (alike[0], alike[-1], mixed[-1]):
        read = await kit.there(task.id)
        assert (read.definition, read.status) == (task.definition, task.status)


async def test_tasks_of_one_write_are_each_their_own(kit: Kit) -> None:
    end = await kit.store.events_end()
    names = [f"{'longer ' * (i % 3 > 1)}name{i}".replace(" ", "-") for i in range(6)]
    queues = ["default", "other"] * 3
    tasks = [
        kit.record(name, queue=queue, write_id="together")
        for name, queue in zip(names, queues, strict=True)
    ]
    assert {o.kind for o in await kit.create(*tasks[:2], *tasks[3:5])} == {CreateKind.CREATED}
    assert {o.kind for o in await kit.create(tasks[2], tasks[5])} == {CreateKind.CREATED}
    again = await kit.create(*tasks)
    assert {o.kind for o in again} == {CreateKind.EXISTS}

    ended = await kit.moved(tasks[0], Cancel())
    for task in tasks[1:]:
        read = await kit.there(task.id)
        assert (read.definition, read.status) == (task.definition, task.status)
    assert (await kit.there(tasks[0].id)).status == ended.status
    (repeated,) = await kit.create(tasks[0])
    assert (repeated.kind, repeated.state) == (CreateKind.EXISTS, State.CANCELLED)
    for task in tasks:
        first = (await kit.store.history(task.id)).events[0]
        assert (first.event, first.write_id, first.revision) == (Event.SUBMIT, "together", 1)
    events = (await kit.read_events(end)).events
    submitted = sorted(event.task for event in events if event.event is Event.SUBMIT)
    assert submitted == sorted(names)


async def test_an_id_repeated_within_a_batch_is_stored_once(kit: Kit) -> None:
    outcomes = await kit.create(kit.record("same"), kit.record("same"))
    assert [o.kind for o in outcomes] == [CreateKind.CREATED, CreateKind.EXISTS]


async def test_each_creation_of_a_batch_stands_alone(kit: Kit) -> None:
    await kit.submit("taken")
    outcomes = await kit.create(kit.record("a"), kit.record("taken"), kit.record("b"))
    assert [o.kind for o in outcomes] == [
        CreateKind.CREATED,
        CreateKind.EXISTS,
        CreateKind.CREATED,
    ]


async def test_a_repeated_submit_tells_the_state_the_task_has_reached(kit: Kit) -> None:
    task = await kit.active()
    (again,) = await kit.create(kit.record(task.id))
    assert again.state is State.ACTIVE


async def test_a_deleted_task_is_not_created_again_by_a_repeated_submit(kit: Kit) -> None:
    task = await kit.submit(digest="d1")
    ended = await kit.moved(task, Cancel())
    await kit.move(ended, Delete())
    (again,) = await kit.create(kit.record(task.id))
    assert (again.kind, again.digest, again.state) == (CreateKind.EXISTS, "d1", State.CANCELLED)
    assert await kit.get(task.id) is None
    assert await kit.claim() == []


async def test_a_discarded_task_is_not_run_twice_by_a_repeated_submit(kit: Kit) -> None:
    task = await kit.active(policy={"discard_states": ("completed",)})
    assert await kit.move(task, Complete()) is None
    (again,) = await kit.create(kit.record(task.id))
    assert (again.kind, again.state) == (CreateKind.EXISTS, State.COMPLETED)


async def test_an_invalid_submission_may_be_recorded_as_failed(kit: Kit) -> None:
    from andon.lifecycle.admission import admit_invalid

    definition = kit.record().definition
    task = admit_invalid(definition, kit.store.now(), kit.fresh(), "no such thing")
    await kit.create(task)
    assert await kit.claim() == []
    assert await kit.state(task.id) is State.FAILED


async def test_blocked_and_scheduled_tasks_are_not_claimable(kit: Kit) -> None:
    await kit.submit("parent-less", dependencies=("absent",))
    await kit.submit("later", run_at=kit.store.now() + 60_000)
    assert await kit.claim(limit=10) == []
    assert (await kit.stats()).counts == {"blocked": 1, "scheduled": 1}


async def test_an_id_refused_for_its_key_may_come_again_in_the_same_batch(kit: Kit) -> None:
    holder = await kit.submit(unique_key="k")
    outcomes = await kit.create(kit.record("a", unique_key="k"), kit.record("a"))
    assert [(o.kind, o.holder) for o in outcomes] == [
        (CreateKind.KEY_HELD, holder.id),
        (CreateKind.CREATED, ""),
    ]
