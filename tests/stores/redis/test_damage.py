"""What is damaged on the server fails alone, be it first in its call, in the middle or last."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from conformance.kit import PATIENCE_S, Kit, ids
from servers.redis import RedisServer

from andon.contract.edges import Link, Settlement
from andon.contract.outcomes import ChangeKind, CreateKind, Verdict
from andon.contract.requests import Renewal
from andon.lifecycle.commands import Complete
from andon.model.task import Task
from andon.model.words import State

from .conftest import OpenKit

PLACES = (0, 2, 4)
"""First, in the middle and last of five."""


def key_of(kit: Kit, task: Task, kind: str = "task") -> str:
    namespace = kit.store.url.partition("namespace=")[2]
    return f"{{{namespace}:0}}:{kind}:{task.id}"


Spoil = Callable[[RedisServer, str], Any]

SPOILT: dict[str, Spoil] = {
    "entry": lambda server, key: server.ask("HSET", key, "x", "\xc1 no entry"),
    "entry of another kind": lambda server, key: server.ask("HSET", key, "x", b"\x05"),
    "entry cut short": lambda server, key: server.ask(
        "HSET", key, "x", server.ask("HGET", key, "x")[:9]
    ),
    "no entry": lambda server, key: server.ask("HDEL", key, "x"),
    "version": lambda server, key: server.ask("HSET", key, "v", "one"),
    "no version": lambda server, key: server.ask("HDEL", key, "v"),
    "definition": lambda server, key: server.ask("HSET", key, "d", "no"),
    "status": lambda server, key: server.ask("HSET", key, "s", b"\x81\xa1a"),
    "gone": lambda server, key: server.ask("DEL", key),
    "of another type": lambda server, key: (server.ask("DEL", key), server.ask("SET", key, "x")),
}


@pytest.mark.parametrize("damage", SPOILT)
@pytest.mark.parametrize("fields", [{}, {"key": "k"}], ids=["plain", "keyed"])
async def test_a_damaged_record_does_not_stop_claims(
    shared: RedisServer, open_kit: OpenKit, damage: str, fields: dict[str, Any]
) -> None:
    kit = await open_kit(shared.url(f"spoilt-{len(fields)}-{list(SPOILT).index(damage)}"))
    for place in PLACES:
        tasks = await kit.submit_many(5, **fields)
        SPOILT[damage](shared, key_of(kit, tasks[place]))
        good = [task.id for i, task in enumerate(tasks) if i != place]
        claimed = ids(await kit.claim(2)) + ids(await kit.claim(5))
        assert claimed == good
        assert await kit.claim(5) == []
        if damage not in ("gone", "of another type"):
            assert await kit.state(tasks[place].id) is State.UNKNOWN


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_damaged_cell_is_not_renewed_and_the_others_are(
    shared: RedisServer, open_kit: OpenKit, *, blocking: bool
) -> None:
    kit = await open_kit(shared.url(f"cell-{blocking}".lower()))
    for place in PLACES:
        tasks = [await kit.active() for _ in range(5)]
        shared.ask("HSET", key_of(kit, tasks[place]), "c", b"\x9a\x01")
        renewals = [Renewal(task=t.id, run=t.status.run, lease_ms=60_000) for t in tasks]
        if blocking:
            verdicts = await asyncio.to_thread(kit.store.renew_blocking, renewals)
        else:
            verdicts = await kit.store.renew(renewals)
        assert verdicts.pop(place) is Verdict.INVALID
        assert verdicts == [Verdict.OK] * 4


async def test_a_damaged_cell_does_not_hold_up_other_timers(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("cell-due"))
    tasks = [await kit.active(lease_ms=1) for _ in range(5)]
    shared.ask("HSET", key_of(kit, tasks[2]), "c", "no cell")
    await asyncio.sleep(0.005)
    due = await kit.store.take_due(0, 10, 60_000)
    assert sorted(ids(due.tasks)) == sorted(task.id for i, task in enumerate(tasks) if i != 2)
    assert await kit.state(tasks[2].id) is State.UNKNOWN


@pytest.mark.parametrize("damage", ["entry", "version", "no entry", "of another type"])
@pytest.mark.parametrize("fields", [{}, {"key": "k"}], ids=["plain", "keyed"])
async def test_a_damaged_record_is_not_committed_and_the_others_are(
    shared: RedisServer, open_kit: OpenKit, damage: str, fields: dict[str, Any]
) -> None:
    kit = await open_kit(shared.url(f"commit-{len(fields)}-{list(SPOILT).index(damage)}"))
    for place in PLACES:
        tasks = [await kit.active(**fields) for _ in range(5)]
        changes = [kit.change(task, Complete()) for task in tasks]
        SPOILT[damage](shared, key_of(kit, tasks[place]))
        outcomes = await kit.store.commit(changes)
        own = outcomes.pop(place)
        assert [changed.kind for changed in outcomes] == [ChangeKind.APPLIED] * 4
        if own.kind is ChangeKind.APPLIED:  # it needed nothing of what is damaged, and mended it
            assert await kit.state(tasks[place].id) is State.COMPLETED
        if own.kind is ChangeKind.INVALID:
            assert "another application" in own.why


@pytest.mark.parametrize("fields", [{}, {"key": "k"}], ids=["plain", "keyed"])
async def test_a_record_whose_key_is_taken_by_others_is_refused_alone(
    shared: RedisServer, open_kit: OpenKit, fields: dict[str, Any]
) -> None:
    kit = await open_kit(shared.url(f"theirs-{len(fields)}"))
    for place in PLACES:
        records = [kit.record(**fields) for _ in range(5)]
        shared.ask("SET", key_of(kit, records[place]), "x")
        outcomes = await kit.create(*records)
        own = outcomes.pop(place)
        assert own.kind is CreateKind.INVALID
        assert "another application" in own.why
        assert [created.kind for created in outcomes] == [CreateKind.CREATED] * 4


async def test_a_damaged_parent_or_child_leaves_other_edges_alone(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("edges"))
    for place in PLACES:
        parents = [await kit.active() for _ in range(5)]
        children = [await kit.submit(dependencies=(one.id, "more")) for one in parents]
        shared.ask("SET", key_of(kit, parents[place]).replace(":task:", ":flags:"), "x")
        pairs = list(zip(children, parents, strict=True))
        ended = await kit.store.link([Link(child.id, (parent.id,)) for child, parent in pairs])
        assert ended == []
        shared.ask("HSET", key_of(kit, children[place]), "x", "no entry")
        told = [
            Settlement(child.id, parent.id, satisfied=True)
            for i, (child, parent) in enumerate(pairs)
            if i != place
        ]
        assert await kit.store.settle(told) == [1] * 4
        for i, (child, parent) in enumerate(pairs):
            if i != place:
                assert [e.child for e in await kit.store.dependents(parent.id)] == [child.id]


async def test_a_damaged_task_that_waits_for_its_key_holds_up_nobody(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("parked"))
    await kit.configure(max_concurrent_per_key=1)
    first, second, third = await kit.submit_many(3, key="k")
    shared.ask("HSET", key_of(kit, second), "x", "no entry")
    (claimed,) = await kit.claim(5)
    assert claimed.id == first.id
    await kit.moved(claimed, Complete())
    assert ids(await kit.claim(5)) == [third.id]


OF_EDGES: dict[str, tuple[str, Spoil]] = {
    "flags of another type": ("flags", SPOILT["of another type"]),
    "flags that are no number": ("flags", lambda server, key: None),
    "untold of another type": ("untold", SPOILT["of another type"]),
}


async def _families(kit: Kit) -> tuple[list[Task], list[Task]]:
    """Five running parents, and a child of each."""
    parents = [await kit.active() for _ in range(5)]
    children = [await kit.submit(dependencies=(one.id, "more")) for one in parents]
    pairs = zip(children, parents, strict=True)
    assert await kit.store.link([Link(child.id, (parent.id,)) for child, parent in pairs]) == []
    return parents, children


@pytest.mark.parametrize("damage", OF_EDGES)
async def test_an_edge_that_cannot_be_marked_as_told_is_named_and_the_others_are_marked(
    shared: RedisServer, open_kit: OpenKit, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    kit = await open_kit(shared.url(f"tell-{list(OF_EDGES).index(damage)}"))
    kind, spoil = OF_EDGES[damage]
    for place in PLACES:
        parents, children = await _families(kit)
        key = key_of(kit, parents[place], kind)
        if "number" in damage:
            shared.ask("HSET", key, children[place].id, "no number")
        spoil(shared, key)
        pairs = list(zip(children, parents, strict=True))
        caplog.clear()
        told = [Settlement(child.id, parent.id, satisfied=True) for child, parent in pairs]
        assert await kit.store.settle(told) == [1] * 5, "each child is counted off"
        assert [children[place].id in line for line in caplog.messages] == [True]
        for child, parent in pairs[:place] + pairs[place + 1 :]:
            [edge] = await kit.store.dependents(parent.id)
            assert (edge.child, edge.settled) == (child.id, True)


@pytest.mark.parametrize("kind", ["edges", "flags", "untold", "loading"])
async def test_an_edge_that_cannot_be_forgotten_is_named_and_the_others_are_forgotten(
    shared: RedisServer, open_kit: OpenKit, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    kit = await open_kit(shared.url(f"unlink-{kind}"))
    for place in PLACES:
        parents, children = await _families(kit)
        SPOILT["of another type"](shared, key_of(kit, parents[place], kind))
        pairs = [(parent.id, child.id) for child, parent in zip(children, parents, strict=True)]
        caplog.clear()
        await kit.store.unlink(pairs)
        assert [children[place].id in line for line in caplog.messages] == [True]
        for parent, _ in pairs[:place] + pairs[place + 1 :]:
            assert await kit.store.dependents(parent) == []


async def test_timers_that_cannot_be_set_are_named_and_those_of_other_partitions_are_set(
    shared: RedisServer, open_kit: OpenKit, caplog: pytest.LogCaptureFixture
) -> None:
    kit = await open_kit(shared.url("rearm") + "&partitions=2")
    tasks = [await kit.submit(dependencies=("parent",)) for _ in range(12)]
    held: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(held) < len(tasks):
            for partition in range(2):
                held += ids((await kit.store.take_due(partition, 50, 600_000)).tasks)
            await asyncio.sleep(0.05)
    namespace = kit.store.url.partition("namespace=")[2].partition("&")[0]
    timers = f"{{{namespace}:0}}:timers"
    shared.ask("RENAME", timers, f"{timers}:aside")
    shared.ask("SET", timers, "x")
    here = {task.id for task in tasks if kit.store.partition_of(task.id) == 0}
    assert 0 < len(here) < len(tasks)
    now = kit.store.now()
    await kit.store.rearm([(task.id, now) for task in tasks])
    assert {i for i in here for line in caplog.messages if i in line} == here
    assert len(caplog.messages) == len(here)
    due = await kit.store.take_due(1, 50, 600_000)
    assert {*ids(due.tasks)} == {task.id for task in tasks} - here
