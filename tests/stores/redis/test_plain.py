"""Plain tasks are created by a shorter way, which comes out where the longer one does."""

from collections.abc import Sequence
from typing import Any

import pytest
from conformance.kit import PATIENCE_S, Kit, ids
from servers.redis import RedisServer

from andon.model.task import Task
from andon.stores.base import CONFIG_TOPIC, EVENTS_TOPIC, Created, CreateKind, Query
from andon.stores.redis import creating

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


def kinds(created: Sequence[Created]) -> list[CreateKind]:
    return [one.kind for one in created]


async def pending(kit: Kit) -> list[str]:
    return ids((await kit.store.find(Query(queue="default"))).tasks)


def assorted(kit: Kit) -> list[Task]:
    """Tasks of several queues, types and priorities, mixed."""
    return [
        kit.record(
            queue=("default", "other")[i % 2],
            name=("job", "work", "chore")[i % 3],
            priority=(0, 5)[i // 4 % 2],
            digest=f"digest {i}",
        )
        for i in range(24)
    ]


async def test_both_ways_leave_the_same_behind(
    shared: RedisServer, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, long = await open_kit(shared.url("short-way")), await open_kit(shared.url("long-way"))
    known = [short.record(queue=queue) for queue in ("default", "other")]
    tasks = assorted(short)
    for kit, most in ((short, creating.MOST_PLAIN), (long, 0)):
        monkeypatch.setattr(creating, "MOST_PLAIN", most)
        assert set(kinds(await kit.create(*known))) == {CREATED}
        assert set(kinds(await kit.create(*tasks))) == {CREATED}
    found = dump(shared, "short-way")
    assert f"task:{tasks[0].id}" in found
    assert found == dump(shared, "long-way")


async def test_a_plain_task_takes_few_commands(start: Start, open_kit: OpenKit) -> None:
    server = start()
    kit = await open_kit(server.url("few"))
    await kit.submit()
    server.ask("CONFIG", "RESETSTAT")
    await kit.submit()
    lines = server.ask("INFO", "commandstats").decode().splitlines()
    counted = [line.partition(":calls=")[2].partition(",")[0] for line in lines]
    assert sum(int(count) for count in counted if count) <= 13  # with RESETSTAT and the script


async def test_a_taken_id_among_plain_tasks_is_told_and_the_others_are_stored(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("some-taken"))
    first = await kit.submit()
    again, fresh = kit.record(first.id), kit.record()
    repeated, created = await kit.create(again, fresh)
    assert (repeated.kind, repeated.digest, created.kind) == (EXISTS, "digest", CREATED)
    assert await pending(kit) == [first.id, fresh.id]


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


async def test_plain_tasks_wake_who_follows_events_and_no_one_else(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("woken"))
    await kit.submit()
    with kit.store.listen([EVENTS_TOPIC]) as events, kit.store.listen([CONFIG_TOPIC]) as config:
        await kit.submit()
        assert await events.wait(PATIENCE_S)
        assert not await config.wait(0)


async def test_the_first_task_of_an_emptied_lane_is_found(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("emptied"))
    for _ in range(3):
        task = await kit.submit()
        assert ids(await kit.claim(limit=5)) == [task.id]
