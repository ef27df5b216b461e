"""asynq, "Life of a Task": each arrow of its diagram, and what its page says beside it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from andon import TaskHandle
from andon.contract.queries import Query
from andon.model.words import Reason, State

from .apps.asynq import deliver, hold, resize
from .stage import GONE, Arrow, Scene, each, missing

APP = "scenarios.apps.asynq:app"

DIAGRAM = (
    "new -> scheduled: enqueued for later",
    "new -> pending: enqueued for now",
    "scheduled -> pending: its time has come",
    "pending -> active: a free worker takes it up",
    "active -> completed: success, with a retention",
    "active -> retry: the handler returned an error",
    "active -> retry: the handler panicked",
    "retry -> pending: its retry time has come",
    "active -> archived: it failed, and the retries are exhausted",
    "completed -> gone: its retention has passed",
)

Handle = TaskHandle[Any]
SOON = 0.05  # seconds
KEPT = 3600.0

# asynq's own delays begin at 15 s; tests of arrows make them short.
kept = deliver.options(retention=KEPT)
prompt = kept.options(backoff="constant", retry_delay=SOON)


async def enqueue_for_later(scene: Scene) -> Handle:
    return await kept.submit_in(SOON, 0)


async def enqueue(scene: Scene) -> Handle:
    return await kept.submit(0)


async def return_an_error(scene: Scene) -> Handle:
    return await prompt.submit(1)


async def panic(scene: Scene) -> Handle:
    panics = resize.options(retention=KEPT, backoff="constant", retry_delay=SOON)
    return await panics.submit(1)


async def exhaust_the_retries(scene: Scene) -> Handle:
    return await prompt.options(max_retries=1).submit(9)


async def outlive_the_retention(scene: Scene) -> Handle:
    return await deliver.options(retention=0.2).submit(0)


FIRST = ("pending", "active")
AGAIN = ("retry", "pending", "active")

ARROWS = (
    Arrow(
        "new -> scheduled: enqueued for later",
        enqueue_for_later,
        *("scheduled", *FIRST, "completed"),
    ),
    Arrow("new -> pending: enqueued for now", enqueue, *FIRST, "completed"),
    Arrow(
        "scheduled -> pending: its time has come",
        enqueue_for_later,
        *("scheduled", *FIRST, "completed"),
    ),
    Arrow("pending -> active: a free worker takes it up", enqueue, *FIRST, "completed"),
    Arrow("active -> completed: success, with a retention", enqueue, *FIRST, "completed"),
    Arrow(
        "active -> retry: the handler returned an error",
        return_an_error,
        *(*FIRST, *AGAIN, "completed"),
    ),
    Arrow("active -> retry: the handler panicked", panic, *FIRST, *AGAIN, "completed"),
    Arrow(
        "retry -> pending: its retry time has come",
        return_an_error,
        *(*FIRST, *AGAIN, "completed"),
    ),
    Arrow(
        "active -> archived: it failed, and the retries are exhausted",
        exhaust_the_retries,
        *(*FIRST, *AGAIN, "archived"),
    ),
    Arrow(
        "completed -> gone: its retention has passed",
        outlive_the_retention,
        *(*FIRST, "completed", GONE),
    ),
)


def test_the_table_has_every_arrow_of_the_diagram() -> None:
    assert missing(DIAGRAM, ARROWS) == []


@pytest.mark.parametrize(**each(ARROWS))
async def test_a_worker_takes_the_arrow(scene: Scene, arrow: Arrow) -> None:
    assert arrow.is_taken
    await scene.sees(await arrow.provoke(scene), *arrow.names)


# --- what the page says beside its diagram ---


async def test_a_task_for_tomorrow_stays_scheduled(scene: Scene) -> None:
    handle = await deliver.submit_in(24 * 3600, 0)
    await scene.sees(handle, "scheduled")
    task = await scene.get(handle)
    assert task.status.run_at == task.status.created_at + 24 * 3_600_000
    await handle.cancel()


async def test_a_task_may_be_scheduled_at_a_time_too(scene: Scene) -> None:
    moment = datetime.fromtimestamp(scene.engine.now() / 1000, UTC) + timedelta(seconds=0.3)
    handle = await kept.submit_at(moment, 0)
    await scene.sees(handle, "scheduled", "pending", "active", "completed")


async def test_without_a_retention_the_task_is_deleted_with_its_success(scene: Scene) -> None:
    handle = await deliver.submit(0)
    await scene.sees(handle, *FIRST, "completed", GONE)
    assert await scene.engine.get([handle.id]) == [None]


async def test_a_waiting_client_gets_the_result_of_a_task_deleted_at_once(scene: Scene) -> None:
    gate = scene.gate()
    handle = await hold.submit(gate.path)
    watching = scene.engine.watch(handle.id)
    await anext(watching)
    await gate.begun()
    gate.open()
    *_, last = [task async for task in watching]
    assert (last.state, last.result) == (State.COMPLETED, b'"held"')
    assert await scene.engine.get([handle.id]) == [None]


async def test_a_client_that_comes_late_gets_the_result_of_a_task_deleted_at_once(
    scene: Scene,
) -> None:
    handle = await deliver.submit(0)
    await scene.sees(handle, *FIRST, "completed", GONE)
    assert await scene.engine.get([handle.id]) == [None]
    assert await handle.result(timeout=60) == 0


async def test_with_a_retention_it_stays_completed_until_it_is_over(scene: Scene) -> None:
    handle = await deliver.options(retention=2 * 3600.0).submit(0)
    await scene.end(handle)
    record = await scene.record(handle)
    assert (record["state"], record["result"], record["retention"]) == ("completed", 0, 7200.0)


async def test_the_loop_goes_on_until_success(scene: Scene) -> None:
    handle = await prompt.submit(3)
    await scene.sees(handle, *FIRST, *AGAIN, *AGAIN, *AGAIN, "completed")
    assert (await scene.record(handle))["retried"] == 3


async def test_the_loop_goes_on_until_the_retries_are_exhausted(scene: Scene) -> None:
    handle = await prompt.options(max_retries=2).submit(9)
    await scene.sees(handle, *FIRST, *AGAIN, *AGAIN, "archived")
    record = await scene.record(handle)
    assert (record["retried"], record["max_retry"]) == (2, 2)
    assert record["last_err"] == "mailbox full"


async def test_a_failed_task_waits_some_delay_before_its_retry(scene: Scene) -> None:
    handle = await deliver.submit(1)
    task = await scene.reaches(handle, State.RETRY)
    assert task.status.run_at is not None
    assert 15_000 <= task.status.run_at - task.status.events[-1].at <= 45_000
    assert task.policy.max_retries == 25
    await handle.cancel()


async def test_an_archived_task_is_kept_for_manual_inspection(scene: Scene) -> None:
    worker = scene.worker()
    handle = await prompt.options(queue=worker.queue, max_retries=0).submit(1)
    await scene.sees(handle, *FIRST, "archived")
    archive = await scene.engine.find(Query(dead_letters=True, queue=worker.queue))
    assert [task.id for task in archive.tasks] == [handle.id]
    task = archive.tasks[0]
    assert task.status.reason is Reason.ERROR
    await handle.retry()
    await scene.sees(handle, *FIRST, "archived", *FIRST, "completed")
