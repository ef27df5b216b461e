"""cbintel, "Job Lifecycle": each arrow of its diagram, and what its page says beside it."""

from typing import Any

import pytest
from processes import PATIENCE

from andon import TaskHandle
from andon.client.function import TaskFunction
from andon.model.errors import InvalidSubmission, TaskCancelled, TaskFailed
from andon.model.task import Task
from andon.model.words import State

from .apps.cbintel import crawl, crawl_slowly, give_up
from .stage import GONE, Arrow, Scene, each, missing

APP = "scenarios.apps.cbintel:app"

DIAGRAM = (
    "new -> PENDING: the job is submitted",
    "PENDING -> QUEUED: it is valid, and enqueued",
    "PENDING -> FAILED: validation error",
    "QUEUED -> PROCESSING: a worker claims it",
    "PROCESSING -> COMPLETED: success",
    "PROCESSING -> FAILED: error",
    "PROCESSING -> CANCELLED: a user cancels it",
    "FAILED -> QUEUED: a retry, attempts left",
    "COMPLETED -> gone: it is over",
    "FAILED -> gone: retries exceeded",
    "CANCELLED -> gone: it is over",
)

Handle = TaskHandle[Any]
SOON = 0.05  # seconds
prompt = crawl.options(retry_delay=SOON)


async def succeed(scene: Scene) -> Handle:
    return await crawl.submit(0)


async def be_invalid(scene: Scene) -> str:
    invalid = scene.new("job")
    with pytest.raises(InvalidSubmission):
        await scene.stage.app.submit("crawl", {"depth": "far too deep"}, id=invalid)
    return invalid


async def fail_for_good(scene: Scene) -> Handle:
    return await give_up.submit()


async def be_cancelled(scene: Scene) -> Handle:
    gate = scene.gate()
    handle = await crawl_slowly.submit(gate.path)
    await gate.begun()
    await handle.cancel()
    return handle


async def fail_once(scene: Scene) -> Handle:
    return await prompt.submit(1)


async def complete_and_go(scene: Scene) -> Handle:
    return await crawl.options(retention=SOON).submit(0)


async def exceed_the_retries_and_go(scene: Scene) -> Handle:
    return await prompt.options(max_retries=1, retention=SOON).submit(9)


async def be_cancelled_and_go(scene: Scene) -> Handle:
    gate = scene.gate()
    handle = await crawl_slowly.options(retention=SOON).submit(gate.path)
    await gate.begun()
    await handle.cancel()
    return handle


BEGUN = ("PENDING", "QUEUED", "PROCESSING")
AGAIN = ("FAILED", "QUEUED", "PROCESSING")

ARROWS = (
    Arrow("new -> PENDING: the job is submitted", succeed, *BEGUN, "COMPLETED"),
    Arrow("PENDING -> QUEUED: it is valid, and enqueued", succeed, *BEGUN, "COMPLETED"),
    Arrow("PENDING -> FAILED: validation error", be_invalid, "PENDING", "FAILED"),
    Arrow("QUEUED -> PROCESSING: a worker claims it", succeed, *BEGUN, "COMPLETED"),
    Arrow("PROCESSING -> COMPLETED: success", succeed, *BEGUN, "COMPLETED"),
    Arrow("PROCESSING -> FAILED: error", fail_for_good, *BEGUN, "FAILED"),
    Arrow("PROCESSING -> CANCELLED: a user cancels it", be_cancelled, *BEGUN, "CANCELLED"),
    Arrow("FAILED -> QUEUED: a retry, attempts left", fail_once, *BEGUN, *AGAIN, "COMPLETED"),
    Arrow("COMPLETED -> gone: it is over", complete_and_go, *BEGUN, "COMPLETED", GONE),
    Arrow(
        "FAILED -> gone: retries exceeded",
        exceed_the_retries_and_go,
        *(*BEGUN, *AGAIN, "FAILED", GONE),
    ),
    Arrow("CANCELLED -> gone: it is over", be_cancelled_and_go, *BEGUN, "CANCELLED", GONE),
)


def test_the_table_has_every_arrow_of_the_diagram() -> None:
    assert missing(DIAGRAM, ARROWS) == []


@pytest.mark.parametrize(**each(ARROWS))
async def test_a_worker_takes_the_arrow(scene: Scene, arrow: Arrow) -> None:
    assert arrow.is_taken
    await scene.sees(await arrow.provoke(scene), *arrow.names)


# --- what the page says beside its diagram ---


async def test_a_completed_job_shows_its_result_its_times_and_full_progress(scene: Scene) -> None:
    handle = await crawl.submit(0)
    assert await handle.result(PATIENCE) == {"pages": 50}
    job = await scene.record(handle)
    assert (job["status"], job["progress"], job["result"]) == ("COMPLETED", 100, {"pages": 50})
    assert job["started_at"] <= job["completed_at"]
    status = (await scene.get(handle)).status
    assert status.started_at is not None
    assert status.finished_at is not None
    assert job["duration_seconds"] == (status.finished_at - status.started_at) // 1000


async def test_a_failed_job_shows_its_error_and_keeps_its_progress(scene: Scene) -> None:
    handle = await prompt.options(max_retries=1).submit(9)
    await scene.end(handle)
    job = await scene.record(handle)
    assert (job["status"], job["progress"]) == ("FAILED", 45)
    assert job["error"] == "Connection timeout to upstream server"
    assert (job["attempts"], job["max_retries"]) == (1, 1)
    assert job["started_at"] <= job["failed_at"]


async def test_a_cancelled_job_shows_when(scene: Scene) -> None:
    handle = await be_cancelled(scene)
    await scene.end(handle)
    job = await scene.record(handle)
    assert job["status"] == "CANCELLED"
    assert job["started_at"] <= job["cancelled_at"]


async def test_a_poller_sees_progress_and_message(scene: Scene) -> None:
    gate = scene.gate()
    handle = await crawl_slowly.submit(gate.path)
    await gate.begun()
    await scene.renewed(handle, lambda cell: cell.progress == 45)
    job = await scene.record(handle)
    assert (job["status"], job["progress"]) == ("PROCESSING", 45)
    assert job["message"] == "Processing URL 23 of 50"
    gate.open()
    await scene.sees(handle, *BEGUN, "COMPLETED")


async def test_a_watcher_is_told_of_progress(scene: Scene) -> None:
    gate = scene.gate()
    handle = await crawl_slowly.submit(gate.path)
    task = await scene.when(handle, lambda task: task.cell and task.cell.progress == 45)
    assert task.state is State.ACTIVE
    gate.open()
    await scene.end(handle)


async def test_a_job_that_takes_too_long_has_timed_out(scene: Scene) -> None:
    late = crawl_slowly.options(timeout=0.1, max_retries=0)
    handle = await late.submit(scene.gate().path)
    await scene.sees(handle, *BEGUN, "FAILED")
    assert (await scene.record(handle))["error"] == "Job execution timed out"


async def test_a_timeout_is_retried(scene: Scene) -> None:
    late = crawl_slowly.options(timeout=0.1, max_retries=1, retry_delay=SOON)
    handle = await late.submit(scene.gate().path)
    history = await scene.sees(handle, *BEGUN, *AGAIN, "FAILED")
    assert [e["error"] for e in history if "error" in e] == ["Job execution timed out"] * 2


async def test_a_job_waits_in_its_queue_for_so_long_only(scene: Scene) -> None:
    waiting = crawl.options(queue=scene.new("unserved"), queue_timeout=0.1)
    handle = await waiting.submit(0)
    await scene.sees(handle, "PENDING", "QUEUED", "FAILED")
    assert (await scene.record(handle))["error"] == "queue timeout"


async def test_the_limits_are_an_hour_to_run_and_two_to_wait(scene: Scene) -> None:
    handle = await crawl.submit(0)
    policy = (await scene.end(handle)).policy
    assert (policy.timeout, policy.queue_timeout) == (3600.0, 7200.0)


async def test_delays_are_30_60_120_and_so_on(scene: Scene) -> None:
    assert await delays_of(scene, crawl, 3) == [30, 60, 120]


async def test_delays_are_an_hour_at_most(scene: Scene) -> None:
    assert await delays_of(scene, crawl.options(retry_delay=3000.0), 2) == [3000, 3600]


async def delays_of(scene: Scene, job: TaskFunction[..., Any, Any], retries: int) -> list[float]:
    """Seconds before each retry; the waits themselves are cut short."""
    handle = await job.options(max_retries=retries).submit(9)
    delays: list[float] = []
    for run in range(retries):
        task = await scene.when(handle, lambda task, run=run: waits_after(task, run))
        assert task.status.run_at is not None
        delays.append((task.status.run_at - task.status.events[-1].at) / 1000)
        await handle.retry()
    await scene.end(handle)
    return delays


def waits_after(task: Task, run: int) -> bool:
    return task.state is State.RETRY and task.status.runs[-1].number == run


@pytest.mark.parametrize("code", ["TIMEOUT", "NETWORK_ERROR"])
async def test_errors_listed_as_retryable_are_retried(scene: Scene, code: str) -> None:
    await scene.sees(await prompt.submit(1, code), *BEGUN, *AGAIN, "COMPLETED")


@pytest.mark.parametrize("code", ["VALIDATION_ERROR", "QUOTA_EXCEEDED"])
async def test_other_errors_are_not_retried(scene: Scene, code: str) -> None:
    await scene.sees(await prompt.submit(1, code), *BEGUN, "FAILED")


async def test_what_may_be_retried_is_configured_per_job(scene: Scene) -> None:
    chosen = prompt.options(retry_on=("QUOTA_EXCEEDED",), no_retry_on=("TIMEOUT",))
    await scene.sees(await chosen.submit(1, "QUOTA_EXCEEDED"), *BEGUN, *AGAIN, "COMPLETED")
    await scene.sees(await chosen.submit(1, "TIMEOUT"), *BEGUN, "FAILED")


async def test_the_history_reads_like_the_example(scene: Scene) -> None:
    handle = await prompt.submit(1)
    history = await scene.sees(handle, *BEGUN, *AGAIN, "COMPLETED")
    assert all("timestamp" in entry for entry in history)
    extras = [{k: v for k, v in e.items() if k not in ("status", "timestamp")} for e in history]
    assert scene.stage.worker is not None
    by = scene.stage.worker.id
    assert extras == [
        {},
        {},
        {"worker": by},
        {"error": "Connection timeout to upstream server"},
        {"attempt": 2},
        {"worker": by},
        {},
    ]


async def test_jobs_are_kept_for_seven_days(scene: Scene) -> None:
    for handle, end in ((await crawl.submit(0), "completed"), (await give_up.submit(), "failed")):
        policy = (await scene.end(handle)).policy
        assert policy.retention.of(end) == 7 * 86_400


async def test_a_client_submits_and_waits(scene: Scene) -> None:
    handle = await crawl.submit(0)
    task = await scene.engine.wait_end(handle.id, timeout=PATIENCE)
    assert task.state is State.COMPLETED


async def test_a_poller_takes_no_retry_for_an_end(scene: Scene) -> None:
    handle = await crawl.submit(1)
    await scene.reaches(handle, State.RETRY)
    assert (await scene.record(handle))["status"] == "QUEUED"
    await handle.retry()
    await scene.end(handle)
    assert (await scene.record(handle))["status"] == "COMPLETED"


async def test_a_client_tells_failure_from_cancellation(scene: Scene) -> None:
    with pytest.raises(TaskFailed, match="nothing to crawl"):
        await (await give_up.submit()).result(PATIENCE)
    with pytest.raises(TaskCancelled):
        await (await be_cancelled(scene)).result(PATIENCE)
