"""A worker runs what it has code for, and what it has no code for waits for another
(docs/rulings.md, R32)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from andon.lifecycle.waiting import Why
from andon.model.code import Code
from andon.model.errors import InvalidSubmission
from andon.model.words import Reason, State
from andon.worker.calls import Call
from andon.worker.config import WorkerConfig
from andon.worker.registry import Registry, TaskType
from andon.worker.worker import Worker

from .kit import Faults, Kit, result_of, until


def application(name: str, *versions: int, **settings: Any) -> Registry:
    """An application with one task, which says which application and version ran it."""
    registry = Registry()
    for version in versions or (0,):
        register(registry, name, version, **settings)
    return registry


def register(registry: Registry, name: str, version: int = 0, **settings: Any) -> None:
    async def run() -> str:
        return f"{name} v{version}"

    registry.add(TaskType(name=name, version=version, codec=Call(run), handler=run, **settings))


async def start(kit: Kit, registry: Registry, **settings: Any) -> tuple[Worker, Faults]:
    """A worker of another application on the kit's store, and what it asks of its engine."""
    engine = Faults(kit.local)
    config = WorkerConfig(**{"queues": ("default",), **settings})
    worker = Worker(cast("Any", engine), registry, config)
    await worker.start()
    kit.workers.append(worker)
    return worker, engine


async def eventually(look: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what workers tell of themselves."""
    async with asyncio.timeout(20):
        while not await look():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def is_busy(kit: Kit, task_id: str) -> bool:
    """Whether a task waits for a worker to have room."""
    return await why(kit, task_id) is Why.BUSY


async def why(kit: Kit, task_id: str) -> Why | None:
    wait = await kit.local.wait_of(await kit.get(task_id))
    return None if wait is None else wait.why


async def said(kit: Kit, task_id: str) -> str:
    """What a task waits for, once the worker that asks its queue has told of itself."""
    async with asyncio.timeout(20):
        while True:
            wait = await kit.local.wait_of(await kit.get(task_id))
            if wait is not None and wait.why is not Why.NO_WORKER:
                return wait.text
            await asyncio.sleep(0.01)


async def test_two_applications_share_a_queue_and_each_task_takes_one_try(kit: Kit):
    await start(kit, application("shop.charge"))
    await start(kit, application("mail.send"))
    names = ["shop.charge", "mail.send"] * 100
    ids = [await kit.submit(name, id=f"{n}", options={}) for n, name in enumerate(names)]
    for name, task_id in zip(names, ids, strict=True):
        task = await kit.end(task_id)
        assert result_of(task) == f"{name} v0"
        assert (task.status.tries, len(task.status.runs)) == (1, 1)


async def test_a_task_that_nobody_has_code_for_waits_at_no_cost_and_says_for_what(kit: Kit):
    await start(kit, application("mail.send"))
    waiting = await kit.submit("shop.charge", version=2, options={})
    before = await kit.get(waiting)
    result_of(await kit.run("mail.send"))  # what came after it was not held up
    assert await said(kit, waiting) == "waits for a worker that has shop.charge v2"
    assert await kit.get(waiting) == before
    [wait] = await kit.local.waits()
    assert (wait.queue, wait.kind, wait.why) == ("default", "shop.charge@2", Why.NO_CODE)

    await start(kit, application("shop.charge", 2))
    task = await kit.end(waiting)
    assert result_of(task) == "shop.charge v2"
    assert (task.status.tries, len(task.status.runs)) == (1, 1)
    assert await kit.local.waits() == []


async def test_a_type_registered_while_the_worker_runs_is_looked_for_at_once(kit: Kit):
    registry = application("mail.send")
    _, engine = await start(kit, registry)
    waiting = await kit.submit("shop.charge", options={})
    result_of(await kit.run("mail.send"))
    assert (await kit.get(waiting)).state is State.PENDING
    register(registry, "shop.charge")
    assert result_of(await kit.end(waiting)) == "shop.charge v0"
    last: Any = engine.called("claim")[-1][0]
    assert last.code == Code.of([("mail.send", 0), ("shop.charge", 0)])


async def test_the_queue_of_a_type_registered_later_is_asked_too(kit: Kit):
    registry = application("mail.send")
    await start(kit, registry, queues=())
    result_of(await kit.run("mail.send"))
    register(registry, "shop.charge", queue="shop")
    assert result_of(await kit.run("shop.charge", queue="shop")) == "shop.charge v0"


async def test_a_limit_of_a_type_registered_later_holds(kit: Kit):
    registry = application("mail.send")
    await start(kit, registry)
    result_of(await kit.run("mail.send"))
    running: list[int] = [0, 0]

    async def one_at_a_time() -> None:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0.01)
        running[0] -= 1

    registry.add(
        TaskType(name="one", codec=Call(one_at_a_time), handler=one_at_a_time, max_concurrent=1)
    )
    ids = [await kit.submit("one") for _ in range(5)]
    for task_id in ids:
        await kit.end(task_id)
    assert running == [0, 1]


async def test_types_registered_while_the_store_is_away_are_served_when_it_is_back(kit: Kit):
    registry = application("mail.send")
    _, engine = await start(kit, registry)
    result_of(await kit.run("mail.send"))
    engine.failing["publish_types"] = 2
    register(registry, "shop.charge")
    assert result_of(await kit.run("shop.charge")) == "shop.charge v0"
    assert engine.failing["publish_types"] < 0


async def test_versions_stand_side_by_side_each_run_by_its_own_code(kit: Kit):
    ids = {v: await kit.submit("job", version=v, options={}) for v in (1, 2, 3)}
    await start(kit, application("job", 1, 2))
    for version in (1, 2):
        assert result_of(await kit.end(ids[version])) == f"job v{version}"
    assert await said(kit, ids[3]) == "waits for a worker that has job v3"
    await start(kit, application("job", 3))
    assert result_of(await kit.end(ids[3])) == "job v3"


async def test_a_deploy_that_takes_a_type_away_leaves_its_tasks_pending_and_named(kit: Kit):
    old, _ = await start(kit, application("job", 1))
    result_of(await kit.run("job", version=1))
    await old.stop()
    await start(kit, application("job", 2))
    task_id = await kit.submit("job", version=1, options={})
    result_of(await kit.run("job", version=2))
    assert await said(kit, task_id) == "waits for a worker that has job v1"
    await kit.local.cancel([task_id])
    assert (await kit.end(task_id)).state is State.CANCELLED
    assert await kit.local.waits() == []


@pytest.mark.parametrize(("on_unknown", "state"), [("drop", State.DROPPED), ("fail", State.FAILED)])
async def test_a_task_whose_policy_says_so_ends_where_nobody_has_code(
    kit: Kit, on_unknown: str, state: State
):
    await start(kit, application("mail.send"))
    task = await kit.run("shop.charge", on_unknown=on_unknown)
    assert (task.state, task.status.reason) == (state, Reason.UNKNOWN_TASK)


async def test_commands_and_patterns_are_code_as_well(kit: Kit):
    registry = Registry()
    registry.add(
        TaskType(name="echo", kind="command", argv=("cat",), codec=Call(None), handler=None)
    )

    async def anything() -> str:
        return "caught"

    registry.add(TaskType(name="team.*", codec=Call(anything), handler=anything))
    _, engine = await start(kit, registry)
    hidden = await kit.submit("other", options={})
    assert result_of(await kit.run("team.job")) == "caught"
    assert (await kit.run("echo")).state is State.COMPLETED
    assert (await kit.get(hidden)).state is State.PENDING
    last: Any = engine.called("claim")[-1][0]
    assert last.code == Code.of([("echo", 0), ("team.*", 0)])


async def test_the_same_code_has_the_same_name_whoever_registered_it_first(kit: Kit):
    one, other = application("a"), application("b")
    register(one, "b")
    register(other, "a")
    await start(kit, one)
    await start(kit, other)

    async def both() -> bool:
        return len(await kit.local.workers()) == 2

    await eventually(both)
    assert {worker.code for worker in await kit.local.workers()} == {
        Code.of([("a", 0), ("b", 0)]).digest
    }


async def test_a_worker_whose_list_is_too_long_to_keep_still_works(kit: Kit):
    """Nothing but the names of what others wait for is lost with it."""
    registry = application("mail.send")
    _, engine = await start(kit, registry)
    result_of(await kit.run("mail.send"))
    engine.raising["keep_code"] = [InvalidSubmission("too long")]
    register(registry, "shop.charge")
    assert result_of(await kit.run("shop.charge")) == "shop.charge v0"


async def test_tasks_of_others_do_not_keep_a_worker_asking(kit: Kit):
    """Each of them wakes it; it looks now and then, not once for each."""
    _, others = await start(kit, application("mail.send"))
    await start(kit, application("shop.charge"))
    result_of(await kit.run("mail.send"))
    before = len(others.called("claim"))
    tasks = [await kit.submit("shop.charge") for _ in range(300)]
    for task_id in tasks:
        await kit.end(task_id)
    assert len(others.called("claim")) - before < len(tasks)
    result_of(await kit.run("mail.send"))  # and it still hears of its own


async def test_a_worker_without_types_gets_only_what_anybody_may_run(kit: Kit):
    await start(kit, Registry())
    waiting = await kit.submit("shop.charge", options={})
    assert (await kit.run("shop.refund", on_unknown="drop")).state is State.DROPPED
    assert (await kit.get(waiting)).state is State.PENDING


async def test_a_full_or_quiet_worker_is_said_to_be_so(kit: Kit):
    registry = Registry()
    held = asyncio.Event()

    async def hold() -> None:
        await held.wait()

    registry.add(TaskType(name="hold", codec=Call(hold), handler=hold))
    worker, _ = await start(kit, registry, concurrency=1)
    first = await kit.submit("hold")
    await until(lambda: worker.active == 1)
    second = await kit.submit("hold")
    worker._presence.changed()
    await eventually(lambda: is_busy(kit, second))
    held.set()
    await kit.end(first)
    await kit.end(second)
    worker.set_quiet(True)
    third = await kit.submit("hold")
    await eventually(lambda: is_busy(kit, third))


async def test_a_paused_queue_is_the_reason_before_all_others(kit: Kit):
    task_id = await kit.submit("shop.charge", options={})
    assert await why(kit, task_id) is Why.NO_WORKER
    await kit.local.configure_queue("default", {"paused": True})
    assert await why(kit, task_id) is Why.PAUSED
    [wait] = await kit.local.waits(["default"])
    assert wait.why is Why.PAUSED
    assert await kit.local.waits(["never"]) == []


async def test_only_pending_tasks_wait_for_a_worker(kit: Kit):
    task_id = await kit.submit("shop.charge", delay=3600.0, options={})
    assert await kit.local.wait_of(await kit.get(task_id)) is None
    await kit.local.cancel([task_id])
    assert await kit.local.wait_of(await kit.get(task_id)) is None
