"""Plain tasks are created by a shorter way, which comes out where the longer one does."""

from collections.abc import Awaitable, Sequence
from typing import Any

import pytest
from conformance.kit import PATIENCE_S, Kit, StoreFactory, ids
from servers.redis import RedisServer

from andon.contract.edges import Link
from andon.contract.outcomes import ChangeKind, Created, CreateKind
from andon.contract.queries import Query
from andon.contract.store import Store
from andon.contract.topics import EVENTS_TOPIC, ready_topic, task_topic
from andon.lifecycle.commands import (
    Cancel,
    Complete,
    Delete,
    Fail,
    Release,
    RequestCancel,
    Rerun,
    Snooze,
)
from andon.model.task import TaskError
from andon.model.words import State
from andon.stores.redis import partitions, scripts
from andon.stores.redis.store import RedisStore

from .conftest import OpenKit, Start

CREATED, EXISTS, FULL = CreateKind.CREATED, CreateKind.EXISTS, CreateKind.FULL


def dump(server: RedisServer, namespace: str) -> dict[str, Any]:
    """Every key of a namespace with what it holds, but for the mark of its log."""
    readers = {
        b"hash": ("HGETALL", ()),
        b"zset": ("ZRANGE", (0, -1, "WITHSCORES")),
        b"set": ("SMEMBERS", ()),
        b"list": ("LRANGE", (0, -1)),
        b"string": ("GET", ()),
    }
    found: dict[str, Any] = {}
    prefix = f"{{{namespace}:0}}:"
    for key in server.ask("KEYS", prefix + "*"):
        command, words = readers[server.ask("TYPE", key)]
        held = server.ask(command, key, *words)
        if command == "HGETALL":
            held = dict(zip(held[::2], held[1::2], strict=True))
            held.pop(b"id", None)
        found[key.decode().removeprefix(prefix)] = sorted(held) if command == "SMEMBERS" else held
    return found


async def commands_of(server: RedisServer, doing: Awaitable[object]) -> int:
    """How many commands the server runs meanwhile, those within scripts and the script counted."""
    server.ask("CONFIG", "RESETSTAT")
    await doing
    lines = server.ask("INFO", "commandstats").decode().splitlines()
    counted = [line.partition(":calls=")[2].partition(",")[0] for line in lines]
    return sum(int(count) for count in counted if count) - 1  # the reset


def kinds(created: Sequence[Created]) -> list[CreateKind]:
    return [one.kind for one in created]


async def pending(kit: Kit) -> list[str]:
    return ids((await kit.store.find(Query(queue="default"))).tasks)


NOW = 1_800_000_000_000


class Standing(StoreFactory):
    """Stores for which time stands still, so that two do the same."""

    def make(self, **options: int) -> Store:
        assert not options
        return RedisStore(self.url, clock=lambda: NOW)


async def lives(kit: Kit) -> None:
    """What is plain, in several queues and types, in batches and alone."""
    for queue in ("default", "other"):
        await kit.submit(queue=queue)
    tasks = [
        kit.record(
            queue=("default", "other")[i % 2],
            name=("job", "work", "chore")[i % 3],
            priority=(0, 5)[i // 4 % 2],
            digest=f"digest {i}",
            policy={"retry_delay": (0.1, 60.0)[i // 7 % 2]},
        )
        for i in range(36)
    ]
    assert set(kinds(await kit.create(*tasks))) == {CREATED}
    for length in (1, 40):
        names = [f"together-{length}-{'x' * (length * i)}" for i in (1, 1, 0)]
        names[1] = names[1].replace("x", "y")
        together = [
            kit.record(name, queue=queue, name=kind, write_id=f"together {length}")
            for name, queue, kind in zip(
                names, ("default", "default", "other"), ("job", "work", "job"), strict=True
            )
        ]
        assert set(kinds(await kit.create(*together[:2]))) == {CREATED}
        assert kinds(await kit.create(*together)) == [EXISTS, EXISTS, CREATED]
    for i in range(24):  # one by one, of one millisecond and one write
        alone = kit.record(
            f"alone-{i}",
            queue=("default", "other")[i % 2],
            name=("job", "work")[i // 2 % 2],
            priority=(0, 5)[i // 4 % 2],
            key="a key" if i in (7, 8) else None,
            policy={"retry_delay": (0.1, 60.0)[i // 6 % 2]},
            write_id="alone",
        )
        assert kinds(await kit.create(alone)) == [CREATED]
        assert kinds(await kit.create(alone)) == [EXISTS]
    for task_id in ("short", "l" * 60, "longer"):  # the ids of events are packed with their lengths
        assert kinds(await kit.create(kit.record(task_id, write_id="alone"))) == [CREATED]
    ends = [
        Complete(result=b"1"),
        Complete(),
        Fail(error=TaskError(message="no")),
        Fail(error=TaskError(message="no"), retryable=False),
        Snooze(delay=60_000),
    ]
    claimed = await kit.claim(limit=30, queues=("default", "other"))
    changes = [kit.change(task, ends[i % 5]) for i, task in enumerate(claimed)]
    applied = await kit.store.commit(changes[:20])
    applied += [await kit.commit(change) for change in changes[20:]]
    assert {one.kind for one in applied} == {ChangeKind.APPLIED}

    policy = {"retry_delay": None, "timeout": 1.0}
    for queue in ("left", "right", "empty"):
        await kit.submit_many(3, queue=queue, policy={"retry_delay": None})
        await kit.submit_many(3, queue=queue, policy=policy, priority=2)
        await kit.claim(limit=2, queues=(queue,))
    await kit.claim(limit=9, queues=("empty",))
    some = await kit.claim(limit=6, queues=("left", "empty", "right"), lease_ms=3_000)
    assert [task.definition.queue for task in some] == ["left"] * 4 + ["right"] * 2
    for task in some:
        await kit.moved(task, Fail(error=TaskError(message="no")))
    (again,) = await kit.claim(limit=1, queues=("left",))
    await kit.moved(again, Release())
    assert len(await kit.claim(limit=3, queues=("left",), token="t", worker="w" * 40)) == 3


async def test_both_ways_leave_the_same_behind(
    shared: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[dict[str, Any]] = []
    for namespace in ("short-way", "long-way"):
        if namespace == "long-way":
            monkeypatch.setattr(scripts, "FIRST", {})
            monkeypatch.setattr(partitions, "SCRIPTS", scripts.Scripts())
            monkeypatch.setattr(partitions, "MOST_IN_PARTS", 0)
            monkeypatch.setattr("andon.stores.redis.creating._is_plain", lambda _: False)
        kit = Kit(Standing(shared.url(namespace), shared=True, durable=True))
        await kit.open()
        try:
            await lives(kit)
        finally:
            await kit.close()
        found.append(dump(shared, namespace))
    short, long = found
    states = {name.partition("|")[2] for name in short if name.startswith("state:")}
    assert states == {"pending", "active", "completed", "failed", "retry", "scheduled"}
    assert short == long


async def test_a_plain_task_takes_few_commands(start: Start, open_kit: OpenKit) -> None:
    server = start()
    kit = await open_kit(server.url("few"))
    await kit.submit()
    assert await commands_of(server, kit.submit()) <= 12


async def test_a_taken_id_among_plain_tasks_is_told_and_the_others_are_stored(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("some-taken"))
    first = await kit.submit()
    again, fresh = kit.record(first.id), kit.record()
    repeated, created = await kit.create(again, fresh)
    assert (repeated.kind, repeated.digest, created.kind) == (EXISTS, "digest", CREATED)
    assert await pending(kit) == [first.id, fresh.id]


@pytest.mark.parametrize("is_told", [True, False])
async def test_a_task_deleted_a_moment_ago_is_known_among_plain_ones(
    shared: RedisServer, open_kit: OpenKit, *, is_told: bool
) -> None:
    namespace = f"stubs-{'told' if is_told else 'not-told'}"
    kit = await open_kit(shared.url(namespace))
    gone = await kit.submit()
    await kit.move(await kit.moved(gone, Cancel()), Delete())
    told = shared.ask("HGET", f"{{{namespace}:0}}:meta", "stubs")
    assert int(told) > kit.store.now()
    if not is_told:  # a namespace from before there was such a field
        shared.ask("HDEL", f"{{{namespace}:0}}:meta", "stubs")
    repeated, created = await kit.create(kit.record(gone.id), kit.record())
    assert (repeated.kind, repeated.state, created.kind) == (EXISTS, State.CANCELLED, CREATED)
    (alone,) = await kit.create(kit.record(gone.id))
    assert (alone.kind, alone.state) == (EXISTS, State.CANCELLED)


async def test_an_id_that_comes_twice_is_stored_once_also_in_a_known_queue(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("twice"))
    await kit.submit()
    task = kit.record()
    assert kinds(await kit.create(task, task)) == [CREATED, EXISTS]


async def test_a_queue_is_bounded_from_the_moment_its_size_is_set_until_it_is_not(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("sized-later"))
    await kit.submit()
    await kit.configure(max_size=2)
    assert kinds(await kit.create(kit.record(), kit.record())) == [CREATED, FULL]
    await kit.configure()
    assert kinds(await kit.create(kit.record())) == [CREATED]


async def test_a_queue_sized_before_its_first_task_is_bounded(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("sized-first"))
    await kit.configure(max_size=1)
    assert kinds(await kit.create(kit.record(), kit.record())) == [CREATED, FULL]


async def test_plain_tasks_wake_who_follows_events(shared: RedisServer, open_kit: OpenKit) -> None:
    kit = await open_kit(shared.url("woken"))
    await kit.submit()
    with kit.store.listen([EVENTS_TOPIC]) as events:
        await kit.claim()
        await events.wait(0)
        await kit.submit()
        assert await events.wait(PATIENCE_S)


async def test_the_first_task_of_an_emptied_lane_is_found(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("emptied"))
    for _ in range(3):
        task = await kit.submit()
        assert ids(await kit.claim(limit=5)) == [task.id]


async def test_a_run_that_ends_takes_few_commands(start: Start, open_kit: OpenKit) -> None:
    server = start()
    kit = await open_kit(server.url("few"))
    await kit.moved(await kit.active(), Complete(result=b"1"))
    task = await kit.active()
    assert await commands_of(server, kit.moved(task, Complete(result=b"1"))) <= 16


async def test_of_two_decisions_on_a_run_one_is_written(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("decided-twice"))
    other, task = await kit.active(), await kit.active()
    await kit.moved(task, RequestCancel())
    changes = [kit.change(one, Complete(result=b"1")) for one in (other, task)]
    applied, conflict = await kit.store.commit(changes)
    assert (applied.kind, conflict.kind) == (ChangeKind.APPLIED, ChangeKind.CONFLICT)
    assert conflict.current == await kit.there(task.id)
    (again,) = await kit.store.commit(changes[:1])
    assert again.kind is ChangeKind.APPLIED  # written already, as its event tells


async def test_two_changes_of_one_task_in_a_batch_are_told_apart(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("changed-twice"))
    task = await kit.active()
    ends = [kit.change(task, Complete(result=b"1")), kit.change(task, Complete(result=b"2"))]
    outcomes = await kit.store.commit(ends)
    assert [one.kind for one in outcomes] == [ChangeKind.APPLIED, ChangeKind.CONFLICT]
    assert (await kit.there(task.id)).result == b"1"


async def test_an_end_makes_room_in_a_queue_limited_since(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("limited-since"))
    task = await kit.active()
    await kit.configure(max_concurrent=1)
    await kit.submit()
    assert await kit.claim() == []
    with kit.store.listen([ready_topic("default")]) as ready:
        await kit.claim()
        await ready.wait(0)
        await kit.moved(task, Complete())
        assert await ready.wait(PATIENCE_S)
    assert len(await kit.claim()) == 1


async def test_a_run_that_ends_wakes_who_waits_for_it(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("awaited"))
    task, other = await kit.active(), await kit.active()
    topics = ([task_topic(task.id)], [EVENTS_TOPIC], [task_topic(other.id)])
    one, every, none = (kit.store.listen(of) for of in topics)
    with one, every, none:
        await kit.claim()
        await kit.moved(task, Complete(result=b"1"))
        assert await one.wait(PATIENCE_S)
        assert await every.wait(PATIENCE_S)
        assert not await none.wait(0)


async def test_a_result_of_an_earlier_run_goes_when_the_next_has_none(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("result-gone"))
    task = await kit.moved(await kit.active(), Complete(result=b"1"))
    await kit.moved(task, Rerun())
    (task,) = await kit.claim()
    await kit.moved(task, Complete())
    assert (await kit.there(task.id)).result is None


async def test_who_depends_on_a_run_that_ends_is_told_of(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("depended-on"))
    parent, plain = await kit.active(), await kit.active()
    child = await kit.submit(dependencies=(parent.id,))
    await kit.store.link([Link(child.id, (parent.id,))])
    changes = [kit.change(task, Complete(result=b"1")) for task in (plain, parent)]
    outcomes = await kit.store.commit(changes)
    assert [one.has_dependents for one in outcomes] == [False, True]
    assert await kit.store.take_unsettled(5) == [(parent.id, State.COMPLETED)]


async def test_a_claim_takes_few_commands(start: Start, open_kit: OpenKit) -> None:
    server = start()
    kit = await open_kit(server.url("few"))
    await kit.submit_many(3)
    await kit.claim()
    assert await commands_of(server, kit.claim()) <= 19
    await kit.claim()
    assert await commands_of(server, kit.claim()) <= 5  # nothing is there


async def test_a_queue_asked_twice_gives_each_task_once(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("asked-twice"))
    tasks = await kit.submit_many(2)
    assert ids(await kit.claim(limit=5, queues=("default", "default"))) == ids(tasks)


async def test_a_repeated_claim_gets_what_it_got(shared: RedisServer, open_kit: OpenKit) -> None:
    kit = await open_kit(shared.url("repeated"))
    await kit.submit_many(5)
    first = await kit.claim(limit=2, token="once")
    assert await kit.claim(limit=4, token="once") == first
