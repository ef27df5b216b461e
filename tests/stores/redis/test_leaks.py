"""After a task has gone, nothing of it remains: every key that its life made goes with it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from conformance.kit import Kit, ids
from servers.redis import RedisServer

from andon.contract.edges import Link, Settlement
from andon.contract.outcomes import ChangeKind
from andon.contract.requests import Snapshot
from andon.lifecycle.commands import (
    Cancel,
    Complete,
    Delete,
    Evict,
    Fail,
    Lose,
    Release,
    Reprioritise,
    RequestCancel,
    Rerun,
    Reschedule,
    RunNow,
    Snooze,
    Stop,
    Unblock,
)
from andon.model.code import Code
from andon.model.task import Task, TaskError

from .conftest import OpenKit

NO = TaskError(message="no")
LASTING = {"meta", "queues", "configs", "log", "days"}
"""What a namespace has however empty it is: how it was set up, its queues, its event log, and the
days of its history, each with a hash of counts that housekeeping deletes after 90 days."""

FULL: dict[str, Any] = {"unique_key": "u", "key": "k", "group": "g", "tags": ("t",)}

Life = Callable[[Kit], Awaitable[list[Task]]]


async def cancelled(kit: Kit) -> list[Task]:
    return [await kit.moved(await kit.submit(**FULL), Cancel())]


async def completed(kit: Kit) -> list[Task]:
    task = await kit.active(**FULL)
    await kit.renew(task, progress=5, message="m")
    return [await kit.moved(task, Complete(result=b"1"))]


async def asked_to_stop(kit: Kit) -> list[Task]:
    task = await kit.moved(await kit.active(**FULL), RequestCancel())
    return [await kit.moved(task, Stop())]


async def lost(kit: Kit) -> list[Task]:
    task = await kit.active(lease_ms=1, policy={"on_lost": "stall"}, **FULL)
    assert task.cell is not None
    await kit.try_move(task, Lose(), seen_lease=task.cell.lease_until)
    return [await kit.there(task.id)]


async def retried_and_rerun(kit: Kit) -> list[Task]:
    task = await kit.active(policy={"retry_delay": 60.0}, **FULL)
    task = await kit.moved(task, Fail(error=NO))
    task = await kit.moved(task, RunNow())
    (task,) = await kit.claim()
    task = await kit.moved(task, Fail(error=NO, retryable=False))
    task = await kit.moved(task, Rerun())
    (task,) = await kit.claim()
    return [await kit.moved(task, Complete())]


async def of_a_long_life(kit: Kit) -> list[Task]:
    task = await kit.submit(**FULL)
    for i in range(20):
        task = await kit.moved(task, Reprioritise(priority=i % 3))
    return [await kit.moved(task, Cancel())]


async def snoozed_and_released(kit: Kit) -> list[Task]:
    task = await kit.moved(await kit.active(**FULL), Release())
    (task,) = await kit.claim()
    task = await kit.moved(task, Snooze(delay=60_000))
    task = await kit.moved(task, Reschedule(run_at=kit.store.now() + 90_000))
    return [await kit.moved(task, Cancel())]


async def parked(kit: Kit) -> list[Task]:
    await kit.configure(max_concurrent_per_key=1)
    first, second, third = await kit.submit_many(3, key="k")
    await kit.move(second, Cancel())
    (claimed,) = await kit.claim(limit=5)
    ended = await kit.moved(claimed, Complete())
    (claimed,) = await kit.claim(limit=5)
    done = await kit.moved(claimed, Complete())
    assert {first.id, third.id} == {ended.id, done.id}
    return [ended, done, await kit.there(second.id)]


async def evicted(kit: Kit) -> list[Task]:
    await kit.configure(max_size=1, on_full="discard-old")
    task = await kit.submit(**FULL)
    return [await kit.moved(task, Evict())]


async def rate_limited(kit: Kit) -> list[Task]:
    await kit.configure(rate_limit=1_000)
    return await completed(kit)


async def parent_and_children(kit: Kit) -> list[Task]:
    parent = await kit.active(**FULL)
    loading = await kit.submit(dependencies=(parent.id,), load_dependencies=True)
    other = await kit.submit(dependencies=(parent.id, "absent"))
    await kit.store.link([Link(loading.id, (parent.id,), loads=True)])
    await kit.store.link([Link(other.id, (parent.id, "absent"))])
    ended = await kit.moved(parent, Complete())
    for child in (loading, other):
        await kit.store.settle([Settlement(child.id, parent.id, satisfied=True)])
    freed = await kit.moved(loading, Unblock())
    return [
        await kit.moved(other, Cancel()),
        await kit.moved(freed, Cancel()),
        ended,
    ]


async def child_gone_before_its_parent(kit: Kit) -> list[Task]:
    parent = await kit.active()
    child = await kit.submit(dependencies=(parent.id,))
    await kit.store.link([Link(child.id, (parent.id,), loads=True)])
    await kit.move(await kit.moved(child, Cancel()), Delete())
    assert await kit.store.dependents(parent.id) == []
    return [await kit.moved(parent, Complete())]


async def of_many_kinds(kit: Kit) -> list[Task]:
    code = Code.of([("type-3", 0), ("type-4", 0)])
    tasks = [kit.record(name=f"type-{i}", version=i % 2) for i in range(40)]
    await kit.create(*tasks)
    (claimed,) = await kit.claim(code=code)
    await kit.moved(claimed, Complete())
    rest = [await kit.there(task.id) for task in tasks if task.id != claimed.id]
    return [await kit.there(claimed.id), *[await kit.moved(task, Cancel()) for task in rest]]


async def restored(kit: Kit) -> list[Task]:
    task = kit.record(**FULL)
    assert await kit.store.restore([Snapshot(task=task, history=task.status.events)]) == [True]
    (claimed,) = await kit.claim()
    return [await kit.moved(claimed, Complete())]


LIVES = [
    cancelled,
    completed,
    asked_to_stop,
    lost,
    retried_and_rerun,
    of_a_long_life,
    snoozed_and_released,
    parked,
    evicted,
    rate_limited,
    parent_and_children,
    child_gone_before_its_parent,
    of_many_kinds,
    restored,
]


@pytest.mark.parametrize("live", LIVES, ids=lambda live: live.__name__)
async def test_a_deleted_task_leaves_nothing_that_does_not_expire(
    shared: RedisServer, open_kit: OpenKit, live: Life
) -> None:
    kit = await open_kit(shared.url(f"leak-{live.__name__}"[:32].replace("_", "-")))
    tasks = await live(kit)
    assert left_behind(shared, kit) != set(), "or this test sees nothing"
    for task in tasks:
        assert (await kit.try_move(task, Delete())).kind is ChangeKind.APPLIED
    assert left_behind(shared, kit) == set()


async def test_a_discarded_task_leaves_nothing_that_does_not_expire(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("leak-discard"))
    policy = {"discard_states": ("completed",), "unique_states": ("pending", "completed")}
    task = await kit.active(policy=policy, **FULL)
    assert await kit.move(task, Complete(result=b"1")) is None
    assert left_behind(shared, kit) == set()


async def test_many_that_come_and_go_leave_nothing(shared: RedisServer, open_kit: OpenKit) -> None:
    kit = await open_kit(shared.url("leak-many"))
    tasks = await kit.submit_many(50, key="k", group="g", policy={"retry_delay": None})
    claimed = await kit.claim(limit=100)
    assert sorted(ids(claimed)) == sorted(ids(tasks))
    changes = [kit.change(task, Complete()) for task in claimed]
    assert {c.kind for c in await kit.store.commit(changes)} == {ChangeKind.APPLIED}
    for task in await kit.store.get(ids(tasks)):
        assert task is not None
        await kit.move(task, Delete())
    assert left_behind(shared, kit) == set()


def left_behind(server: RedisServer, kit: Kit) -> set[str]:
    """Keys that stay for ever, but for those that every namespace has or a queue's settings are."""
    namespace = kit.store.url.partition("namespace=")[2]
    keys = {key for key in server.keys(namespace) if server.ask("TTL", key) == -1}
    names = {key.partition("}:")[2] for key in keys}
    return {
        name
        for name in names
        if name not in LASTING and not name.startswith(("limits:", "bucket:", "daily:"))
    }
