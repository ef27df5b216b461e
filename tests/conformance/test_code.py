"""A worker is given only what it has code for, and what it has no code for hides nothing
(docs/rulings.md, R32)."""

import asyncio
import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from andon.contract.requests import Snapshot
from andon.lifecycle.commands import Cancel, Complete, Fail, Release, Reprioritise, Snooze
from andon.lifecycle.routing import kind_of
from andon.model.code import Code
from andon.model.task import Task, TaskError
from andon.model.words import State

from .kit import Kit, ids, needs, needs_one_line

LONG_LINE = 3_000
"""Tasks that nobody has code for, in front of one that can start."""

MANY_KINDS = 100
"""Types of tasks in one queue: as many as every store promises to be quick with."""


def code(*types: str | tuple[str, int]) -> Code:
    """Code for these types; those without a version have version 0."""
    return Code.of((one, 0) if isinstance(one, str) else one for one in types)


async def submit_kinds(kit: Kit, *kinds: tuple[str, int]) -> dict[tuple[str, int], str]:
    """A task of each name and version; their ids."""
    tasks = [kit.record(name=name, version=version) for name, version in kinds]
    await kit.create(*tasks)
    return {kind: task.id for kind, task in zip(kinds, tasks, strict=True)}


# --- which kinds a worker gets ---

NAMES = ("email", "email:send", "email:send:now", "emailer", "shop.charge", "shop.refund")


@pytest.mark.parametrize(
    ("types", "gets"),
    [
        (("shop.charge",), {"shop.charge"}),
        (("shop.charge", "emailer"), {"shop.charge", "emailer"}),
        (("email",), {"email", "email:send", "email:send:now"}),
        (("email:send",), {"email:send", "email:send:now"}),
        (("email:*",), {"email:send", "email:send:now"}),
        (("shop*",), {"shop.charge", "shop.refund"}),
        (("shop",), {"shop.charge", "shop.refund"}),
        (("*",), set(NAMES)),
        (("nothing",), set[str]()),
        ((), set[str]()),
    ],
    ids=lambda value: ",".join(sorted(value)) or "none",
)
async def test_a_worker_gets_the_names_it_has_code_for(
    kit: Kit, types: tuple[str, ...], gets: set[str]
) -> None:
    await submit_kinds(kit, *((name, 0) for name in NAMES))
    claimed = await kit.claim(limit=50, code=code(*types))
    assert {task.definition.name for task in claimed} == gets
    assert len(await kit.claim(limit=50)) == len(NAMES) - len(gets)


@pytest.mark.parametrize(
    ("types", "gets"),
    [
        ((("job", 0),), {("job", 0)}),
        ((("job", 1),), {("job", 1)}),
        ((("job", 2),), {("job", 2), ("job.part", 2)}),
        ((("job", 0), ("job", 1)), {("job", 0), ("job", 1)}),
        ((("job*", 2),), {("job", 0), ("job", 1), ("job", 2), ("job.part", 2)}),
        ((("*", 0),), {("job", 0), ("job", 1), ("job", 2), ("job.part", 2)}),
        ((("job", 3),), set[tuple[str, int]]()),
    ],
    ids=lambda value: ",".join(f"{name}@{version}" for name, version in sorted(value)) or "none",
)
async def test_a_worker_gets_the_versions_it_has_code_for(
    kit: Kit, types: tuple[tuple[str, int], ...], gets: set[tuple[str, int]]
) -> None:
    await submit_kinds(kit, ("job", 0), ("job", 1), ("job", 2), ("job.part", 2))
    claimed = await kit.claim(limit=50, code=code(*types))
    assert {(task.definition.name, task.definition.version) for task in claimed} == gets


async def test_a_worker_that_names_no_types_gets_everything(kit: Kit) -> None:
    tasks = await submit_kinds(kit, ("one", 0), ("two", 7), ("three.part", 0))
    claimed = await kit.claim(limit=50, code=None)
    assert {task.id for task in claimed} == set(tasks.values())


@pytest.mark.parametrize("on_unknown", ["retry", "drop", "fail"])
async def test_a_task_whose_policy_knows_what_to_do_without_code_goes_to_anybody(
    kit: Kit, on_unknown: str
) -> None:
    await kit.submit("closed", name="unheard-of")
    for version in (0, 2):
        await kit.submit(name="unheard-of", version=version, policy={"on_unknown": on_unknown})
    claimed = await kit.claim(limit=50, code=code("other"))
    assert sorted(task.definition.version for task in claimed) == [0, 2]
    assert await kit.state("closed") is State.PENDING


async def test_what_a_task_keeps_while_nobody_has_code_for_it(kit: Kit) -> None:
    before = await kit.submit(name="unheard-of")
    for _ in range(5):
        assert await kit.claim(limit=50, code=code("other")) == []
    assert await kit.there(before.id) == before
    assert (await kit.stats()).counts == {"pending": 1}
    (task,) = await kit.claim(code=code("unheard-of"))
    assert (task.id, task.status.tries, task.status.runs[-1].number) == (before.id, 0, 0)


# --- nothing waits behind what cannot run ---


async def test_a_long_line_that_nobody_has_code_for_hides_nothing(kit: Kit) -> None:
    for _ in range(LONG_LINE // 500):
        await kit.submit_many(500, name="unheard-of")
    known = await kit.submit(name="known")
    assert ids(await kit.claim(limit=5, code=code("known"))) == [known.id]
    assert await kit.claim(limit=5, code=code("known")) == []
    late = await kit.submit(name="known")
    assert ids(await kit.claim(limit=5, code=code("known"))) == [late.id]


async def test_a_line_of_higher_priority_that_nobody_has_code_for_hides_nothing(kit: Kit) -> None:
    await kit.submit_many(500, name="unheard-of", priority=9)
    known = await kit.submit(name="known", priority=-9)
    assert ids(await kit.claim(limit=5, code=code("known"))) == [known.id]


async def test_a_long_line_without_code_and_one_without_room_hide_nothing(kit: Kit) -> None:
    await kit.submit_many(500, name="unheard-of")
    await kit.submit_many(500, name="full")
    known = await kit.submit(name="known")
    claimed = await kit.claim(limit=5, code=code("full", "known"), room={"full": 0, "known": 3})
    assert ids(claimed) == [known.id]


async def test_many_types_that_nobody_has_code_for_hide_nothing(kit: Kit) -> None:
    kinds = [(f"team{n}.job", n % 3) for n in range(MANY_KINDS)]
    for _ in range(3):
        await submit_kinds(kit, *kinds)
    for name, version in random.Random(5).sample(kinds, 10):
        claimed = await kit.claim(limit=50, code=code((name, version)))
        found = [(task.definition.name, task.definition.version) for task in claimed]
        assert found == [(name, version)] * 3


async def test_a_queue_without_anything_to_run_does_not_hide_the_next(kit: Kit) -> None:
    await kit.submit_many(500, name="unheard-of", queue="first")
    task = await kit.submit(name="known", queue="second")
    claimed = await kit.claim(limit=5, code=code("known"), queues=("first", "second"))
    assert ids(claimed) == [task.id]


async def test_open_tasks_behind_a_line_nobody_has_code_for_are_found(kit: Kit) -> None:
    await kit.submit_many(500, name="unheard-of")
    task = await kit.submit(name="unheard-of", policy={"on_unknown": "fail"})
    assert ids(await kit.claim(limit=5, code=code("other"))) == [task.id]


# --- order ---


async def test_tasks_of_many_kinds_are_handed_out_in_one_order(kit: Kit) -> None:
    needs_one_line(kit)
    dice = random.Random(32)
    kinds = [("a", 0), ("a", 1), ("a.b", 0), ("c", 0), ("hidden", 0)]
    expected: list[tuple[int, int, str]] = []
    for n in range(120):
        (name, version), priority = dice.choice(kinds), dice.choice([-2, 0, 0, 5])
        task = await kit.submit(name=name, version=version, priority=priority)
        if name != "hidden":
            expected.append((-priority, n, task.id))
    claimed: list[Task] = []
    has = code("a", ("a", 1), "c")
    while got := await kit.claim(limit=dice.choice([1, 3, 10]), code=has):
        claimed += got
    assert ids(claimed) == [task_id for _, _, task_id in sorted(expected)]


async def test_a_task_given_a_new_priority_moves_among_those_of_other_kinds(kit: Kit) -> None:
    needs_one_line(kit)
    tasks = [await kit.submit(name=name) for name in ("a", "b", "c", "hidden")]
    await kit.move(tasks[2], Reprioritise(priority=3))
    await kit.move(tasks[3], Reprioritise(priority=4))
    claimed = await kit.claim(limit=10, code=code("a", "b", "c"))
    assert ids(claimed) == [tasks[2].id, tasks[0].id, tasks[1].id]


async def test_a_released_task_keeps_its_place_among_other_kinds(kit: Kit) -> None:
    needs_one_line(kit)
    first, second = await kit.submit(name="a"), await kit.submit(name="b")
    (claimed,) = await kit.claim(code=code("a", "b"))
    await kit.move(claimed, Release())
    assert ids(await kit.claim(limit=5, code=code("a", "b"))) == [first.id, second.id]


# --- with the worker's room and the limits of queues ---


async def test_room_is_counted_by_name_and_code_by_kind(kit: Kit) -> None:
    for version in (0, 1, 2):
        await kit.submit_many(3, name="job", version=version)
    await kit.submit(name="job", version=1, policy={"on_unknown": "retry"})
    room = {"job": 4}
    claimed = await kit.claim(limit=50, code=code(("job", 1)), room=room)
    assert [task.definition.version for task in claimed] == [1] * 4
    assert await kit.claim(limit=50, code=code(("job", 1)), room={"job": 0}) == []
    claimed = await kit.claim(limit=50, code=code("job", ("job", 2)), room=room)
    assert Counter(task.definition.version for task in claimed).total() == 4
    assert {task.definition.version for task in claimed} <= {0, 2}


async def test_a_claim_takes_no_more_than_its_limit_over_all_kinds(kit: Kit) -> None:
    for name in ("a", "b", "hidden"):
        await kit.submit_many(4, name=name)
    claimed = await kit.claim(limit=5, code=code("a", "b"))
    assert len(claimed) == 5
    assert len(await kit.claim(limit=5, code=code("a", "b"))) == 3


async def test_tasks_nobody_has_code_for_use_up_no_limit_of_the_queue(kit: Kit) -> None:
    await kit.configure(max_concurrent=2)
    await kit.submit_many(5, name="unheard-of")
    known = await kit.submit_many(3, name="known")
    first = await kit.claim(limit=10, code=code("known"))
    assert len(first) == 2
    assert await kit.claim(limit=10, code=code("known")) == []
    await kit.move(first[0], Complete())
    last = await kit.claim(limit=10, code=code("known"))
    assert sorted(ids([*first, *last])) == sorted(ids(known))


async def test_a_claim_that_finds_nothing_it_may_run_costs_no_tokens(kit: Kit) -> None:
    await kit.configure(rate_limit=0.001, rate_burst=1)
    await kit.submit(name="unheard-of")
    for _ in range(3):
        assert await kit.claim(limit=10, code=code("known")) == []
    await kit.submit(name="known")
    assert len(await kit.claim(limit=10, code=code("known"))) == 1
    assert await kit.claim(limit=10, code=code("known")) == []


async def test_a_paused_queue_hands_out_nothing_to_whoever_has_code(kit: Kit) -> None:
    await kit.configure(paused=True)
    await kit.submit(name="known")
    assert await kit.claim(limit=5, code=code("known")) == []
    await kit.configure(paused=False)
    assert len(await kit.claim(limit=5, code=code("known"))) == 1


async def test_keys_limit_what_a_worker_has_code_for(kit: Kit) -> None:
    await kit.configure(max_concurrent_per_key=1)
    await kit.submit_many(3, name="unheard-of", key="theirs")
    await kit.submit_many(3, name="known", key="ours")
    free = await kit.submit(name="known")
    (first, second) = await kit.claim(limit=10, code=code("known"))
    keyed = first if first.definition.key else second
    assert {first.definition.key, second.definition.key} == {"ours", None}
    assert free.id in ids([first, second])
    assert await kit.claim(limit=10, code=code("known")) == []
    await kit.move(keyed, Complete())
    assert [t.definition.key for t in await kit.claim(limit=10, code=code("known"))] == ["ours"]
    assert [t.definition.key for t in await kit.claim(limit=10, code=code("unheard-of"))] == [
        "theirs"
    ]


async def test_what_is_let_through_by_its_key_goes_to_whoever_has_code(kit: Kit) -> None:
    needs_one_line(kit)
    await kit.configure(max_concurrent_per_key=1)
    await kit.submit(name="a", key="k")
    await kit.submit(name="b", key="k")
    (first,) = await kit.claim(limit=10, code=code("a"))
    assert await kit.claim(limit=10, code=code("b")) == []
    await kit.move(first, Complete())
    assert await kit.claim(limit=10, code=code("a")) == []
    (second,) = await kit.claim(limit=10, code=code("b"))
    assert second.definition.name == "b"


# --- repeats, many workers, and code that changes ---


async def test_a_repeat_with_the_token_gets_what_the_first_got(kit: Kit) -> None:
    await kit.submit_many(2, name="known")
    await kit.submit_many(2, name="other")
    first = await kit.claim(limit=10, token="t", code=code("known"))
    assert len(first) == 2
    again = await kit.claim(limit=10, token="t", code=code("known"))
    assert sorted(ids(again)) == sorted(ids(first))


async def test_a_repeat_gets_what_the_first_got_whatever_the_worker_has_code_for_by_now(
    kit: Kit,
) -> None:
    needs_one_line(kit)
    known, _ = await kit.submit(name="known"), await kit.submit(name="other")
    assert ids(await kit.claim(limit=10, token="t", code=code("known"))) == [known.id]
    assert ids(await kit.claim(limit=10, token="t", code=code("other"))) == [known.id]


async def test_a_worker_that_learns_more_gets_more(kit: Kit) -> None:
    old, new = await kit.submit(name="old"), await kit.submit(name="new")
    assert ids(await kit.claim(limit=10, code=code("old"))) == [old.id]
    assert ids(await kit.claim(limit=10, code=code("old", "new"))) == [new.id]


async def test_workers_with_different_code_share_a_queue(kit: Kit) -> None:
    names = [f"app{n}.job" for n in range(12)]
    for name in names:
        await kit.submit_many(3, name=name)
    other = await kit.again()
    stores = [kit.store, other]
    for _ in range(2):  # their first claims, and one that knows them already
        claims = [
            kit.claim_from(stores[n % 2], 2, worker=f"w{n}", code=code(name))
            for n, name in enumerate(names)
        ]
        for name, claimed in zip(names, await asyncio.gather(*claims), strict=True):
            assert {task.definition.name for task in claimed} == {name}
    assert await kit.claim(limit=50) == []


async def test_a_kind_that_turns_up_later_is_known_at_once(kit: Kit) -> None:
    has = code("known", "team.*")
    assert await kit.claim(limit=10, code=has) == []
    for name, gets in (("team.a", 1), ("unheard-of", 0), ("team.b", 1), ("known", 1)):
        await kit.submit(name=name)
        assert len(await kit.claim(limit=10, code=has)) == gets
        assert await kit.claim(limit=10, code=has) == []


async def test_many_different_codes_one_after_the_other_get_their_own(kit: Kit) -> None:
    for n in range(60):
        await kit.submit(name="unheard-of")
        task = await kit.submit(name=f"job{n}")
        assert ids(await kit.claim(limit=5, code=code(f"job{n}", f"never{n}"))) == [task.id]
    task = await kit.submit(name="job0")
    assert ids(await kit.claim(limit=5, code=code("job0", "never0"))) == [task.id]


async def test_code_and_kinds_are_known_when_the_store_is_opened_again(kit: Kit) -> None:
    needs(condition=kit.factory.durable, why="this store keeps nothing")
    await kit.submit(name="known")
    waiting = await kit.submit(name="known")
    await kit.submit(name="unheard-of")
    assert len(await kit.claim(limit=1, code=code("known"))) == 1
    await kit.replace()
    assert len(await kit.claim(limit=10, code=code("known"))) == 1
    assert await kit.claim(limit=10, code=code("known")) == []
    assert waiting.definition.name == "known"


async def test_every_way_back_to_pending_leads_back_to_its_kind(kit: Kit) -> None:
    await kit.submit(name="hidden")
    task = await kit.submit(name="job", version=2, policy={"retry_delay": None, "max_retries": 9})
    has = code(("job", 2))
    for way in (Release(), Fail(error=TaskError(message="no")), Release()):
        (claimed,) = await kit.claim(limit=5, code=has)
        assert claimed.id == task.id
        await kit.move(claimed, way)
        assert await kit.claim(limit=5, code=code("job")) == []
    (claimed,) = await kit.claim(limit=5, code=has)
    assert claimed.id == task.id


async def test_a_restored_task_goes_to_whoever_has_code(kit: Kit) -> None:
    needs(condition=kit.store.partitions == 1, why="one snapshot is enough")
    task = kit.record(name="known", version=3)
    other = kit.record(name="unheard-of")
    snapshots = [Snapshot(task=one, history=one.status.events) for one in (other, task)]
    assert await kit.store.restore(snapshots) == [True, True]
    assert ids(await kit.claim(limit=5, code=code(("known", 3)))) == [task.id]


# --- what a queue has ready ---


async def ready(kit: Kit, *queues: str) -> set[tuple[str, str]]:
    """Queue and kind of what is ready; each comes once."""
    found = await kit.store.ready_kinds(queues)
    listed = [(one.queue, one.kind) for one in found]
    assert len(listed) == len(set(listed))
    return set(listed)


async def test_the_kinds_that_queues_have_ready_are_listed(kit: Kit) -> None:
    assert await ready(kit) == set()
    for _ in range(3):
        await kit.submit(name="job")
        await kit.submit(name="job", version=2)
        await kit.submit(name="job", version=2, policy={"on_unknown": "drop"})
        await kit.submit(name="job", policy={"on_unknown": "retry"})
        await kit.submit(name="part.of:it/all", queue="other")
    of_default = {("default", kind) for kind in ("job", "job@2", "job@2?", "job?")}
    of_other = {("other", "part.of:it/all")}
    assert await ready(kit) == of_default | of_other
    assert await ready(kit, "other") == of_other
    assert await ready(kit, "default") == of_default
    assert await ready(kit, "default", "other", "never") == of_default | of_other
    assert await ready(kit, "never") == set()


async def test_a_kind_is_listed_as_the_lifecycle_writes_it(kit: Kit) -> None:
    task = await kit.submit(name="shop.charge", version=12)
    assert await ready(kit) == {("default", kind_of(task.definition, task.policy))}


async def test_only_what_is_ready_is_listed(kit: Kit) -> None:
    await kit.submit(name="scheduled", run_at=kit.store.now() + 3_600_000)
    await kit.submit(name="blocked", dependencies=("never",))
    await kit.submit(name="taken")
    await kit.claim(limit=5)
    cancelled = await kit.submit(name="cancelled")
    await kit.move(cancelled, Cancel())
    assert await ready(kit) == set()


async def test_what_is_ready_follows_every_move(kit: Kit) -> None:
    policy: dict[str, Any] = {"retry_delay": None, "max_retries": 9}
    first, second = await kit.submit_many(2, name="job", policy=policy)
    listed = {("default", "job")}
    await kit.move(second, Cancel())
    assert await ready(kit) == listed
    for way in (Release(), Fail(error=TaskError(message="no"))):
        (claimed,) = await kit.claim(limit=5, code=code("job"))
        assert await ready(kit) == set()
        await kit.move(claimed, way)
        assert await ready(kit) == listed
    (claimed,) = await kit.claim(limit=5)
    assert claimed.id == first.id
    await kit.move(claimed, Snooze(delay=3_600_000))
    assert await ready(kit) == set()


async def test_parked_tasks_are_not_listed_as_ready(kit: Kit) -> None:
    needs_one_line(kit)
    await kit.configure(max_concurrent_per_key=1)
    first = await kit.submit(name="first", key="k")
    await kit.submit(name="second", key="k")
    assert await ready(kit) == {("default", "first")}
    (claimed,) = await kit.claim(limit=5)
    assert claimed.id == first.id
    assert await ready(kit) == set()
    await kit.move(claimed, Complete())
    assert await ready(kit) == {("default", "second")}


async def test_a_paused_queue_still_lists_what_it_has_ready(kit: Kit) -> None:
    await kit.submit(name="job")
    await kit.configure(paused=True)
    assert await ready(kit) == {("default", "job")}


async def test_where_a_store_knows_it_says_since_when_a_kind_waits(kit: Kit) -> None:
    before = kit.store.now()
    await kit.submit(name="job")
    await kit.pass_time(3)
    await kit.submit_many(2, name="job")
    (found,) = await kit.store.ready_kinds()
    assert found.oldest_at is None or before <= found.oldest_at <= kit.store.now()


async def test_what_is_ready_is_listed_by_every_instance_and_after_reopening(kit: Kit) -> None:
    await kit.submit(name="job", version=4)
    other = await kit.again()
    assert [(one.queue, one.kind) for one in await other.ready_kinds()] == [("default", "job@4")]
    needs(condition=kit.factory.durable, why="this store keeps nothing")
    await kit.replace()
    assert await ready(kit) == {("default", "job@4")}


async def test_many_kinds_are_all_listed(kit: Kit) -> None:
    for queue in ("left", "right"):
        tasks = [kit.record(name=f"job{n}", queue=queue) for n in range(MANY_KINDS)]
        await kit.create(*tasks)
    assert len(await ready(kit)) == 2 * MANY_KINDS
    assert await ready(kit, "left") == {("left", f"job{n}") for n in range(MANY_KINDS)}


async def test_a_claim_keeps_its_code_when_it_is_encoded(kit: Kit) -> None:
    """A request that goes over HTTP says the same on the other side."""
    request = kit.request(code=code("a", ("b", 2)))
    again = msgspec.json.decode(msgspec.json.encode(request), type=type(request))
    assert again == request
    assert again.code is not None
    assert request.code is not None
    assert again.code.digest == request.code.digest
