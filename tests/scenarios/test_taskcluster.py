"""Taskcluster, "Task Life-Cycle": each arrow, and what its page says beside it.

Its page has the diagram as a picture; the arrows are those that its text gives.
"""

from typing import Any

import pytest
from processes import WorkerProcess

from andon import TaskHandle
from andon.engine.base import Submission
from andon.lifecycle.commands import Stop
from andon.model.errors import InvalidSubmission, LeaseLost
from andon.model.words import State

from .apps import taskcluster as app
from .stage import GONE, Arrow, Scene, each, missing

APP = "scenarios.apps.taskcluster:app"

DIAGRAM = (
    "new -> unscheduled: created",
    "unscheduled -> pending: it has no dependencies",
    "unscheduled -> pending: every dependency completed",
    "unscheduled -> pending: every dependency resolved, if that is all it requires",
    "unscheduled -> pending: somebody schedules it",
    "unscheduled -> exception: canceled",
    "unscheduled -> exception: the deadline is exceeded",
    "pending -> running: a worker claims it",
    "pending -> exception: canceled",
    "pending -> exception: the deadline is exceeded",
    "running -> completed: the worker reports it completed",
    "running -> failed: the worker reports it failed",
    "running -> exception: malformed payload",
    "running -> exception: internal error of the worker",
    "running -> exception: canceled",
    "running -> exception: the deadline is exceeded",
    "running -> pending: the worker shuts down, retries left",
    "running -> pending: intermittent, retries left",
    "running -> pending: the claim expired, retries left",
    "running -> exception: the worker shuts down, no retries left",
    "running -> exception: intermittent, no retries left",
    "running -> exception: the claim expired, no retries left",
    "completed -> pending: rerun",
    "failed -> pending: rerun",
    "exception -> pending: rerun",
    "completed -> gone: expired",
    "failed -> gone: expired",
    "exception -> gone: expired",
)

Handle = TaskHandle[Any]
LEASE = 1.0  # seconds

# Every task has a deadline.
build = app.build.options(deadline_in=3600.0)
fail = app.fail.options(deadline_in=3600.0)
flaky = app.flaky.options(deadline_in=3600.0)
crash = app.crash.options(deadline_in=3600.0)
hold = app.hold.options(deadline_in=3600.0)
BEGUN = ("unscheduled", "pending", "running")


async def succeed(scene: Scene) -> Handle:
    return await build.submit(1)


async def depend_on_a_success(scene: Scene) -> Handle:
    return await build.options(depends_on=await build.submit(1)).submit(2)


async def require_any_end(scene: Scene) -> Handle:
    parents = [await build.submit(1), await fail.submit(), await _canceled(scene)]
    return await build.options(depends_on=parents, requires="all-resolved").submit(2)


async def _canceled(scene: Scene) -> Handle:
    handle = await build.options(queue=scene.new("unserved")).submit(1)
    await handle.cancel()
    return handle


async def unscheduled(scene: Scene, **options: Any) -> Handle:
    """A task that depends on itself."""
    own = scene.new("task")
    return await build.options(id=own, depends_on=own, **options).submit(1)


async def be_scheduled(scene: Scene) -> Handle:
    handle = await unscheduled(scene)
    await handle.schedule()
    return handle


async def be_canceled_unscheduled(scene: Scene) -> Handle:
    handle = await unscheduled(scene)
    await handle.cancel()
    return handle


async def miss_the_deadline_unscheduled(scene: Scene) -> Handle:
    return await unscheduled(scene, deadline_in=0.2)


async def miss_the_deadline_pending(scene: Scene) -> Handle:
    return await build.options(queue=scene.new("unserved"), deadline_in=0.2).submit(1)


async def fail_for_good(scene: Scene) -> Handle:
    return await fail.submit()


async def have_a_malformed_payload(scene: Scene) -> str:
    task_id = scene.new("task")
    malformed = Submission(
        id=task_id, name="build", args=b'{"commit": "no number"}', deadline_in=3600.0
    )
    [submitted] = await scene.engine.submit([malformed])
    assert submitted.error is None
    return task_id


async def break_the_worker(scene: Scene) -> Handle:
    return await crash.submit()


async def be_canceled_running(scene: Scene) -> Handle:
    gate = scene.gate()
    handle = await hold.submit(gate.path)
    await gate.begun()
    await handle.cancel()
    return handle


async def miss_the_deadline_running(scene: Scene) -> Handle:
    return await scene.in_time(
        lambda seconds: hold.options(deadline_in=seconds).submit(scene.gate().path),
        lambda task: task.status.started_at is not None,
    )


async def lose_a_worker_to_a_shutdown(scene: Scene) -> Handle:
    handle, worker = await _shut_down_under(scene, max_retries=5)
    scene.worker(worker.queue)
    return handle


async def lose_the_last_worker_to_a_shutdown(scene: Scene) -> Handle:
    handle, _ = await _shut_down_under(scene, max_retries=0)
    return handle


async def _shut_down_under(scene: Scene, max_retries: int) -> tuple[Handle, WorkerProcess]:
    gate, worker = scene.gate(), scene.worker(grace="0s")
    held = hold.options(queue=worker.queue, max_retries=max_retries)
    handle = await held.submit(gate.path)
    await gate.begun()
    worker.terminate()
    assert await worker.exited() == 0
    gate.open()
    return handle, worker


async def lose_a_worker_to_death(scene: Scene) -> Handle:
    handle, worker = await _die_under(scene, max_retries=5)
    scene.worker(worker.queue)
    return handle


async def lose_the_last_worker_to_death(scene: Scene) -> Handle:
    handle, _ = await _die_under(scene, max_retries=0)
    return handle


async def _die_under(scene: Scene, max_retries: int) -> tuple[Handle, WorkerProcess]:
    gate, worker = scene.gate(), scene.worker(lease=LEASE)
    held = hold.options(queue=worker.queue, max_retries=max_retries, lease=LEASE)
    handle = await held.submit(gate.path)
    await gate.begun()
    worker.kill()
    await worker.exited()
    gate.open()
    return handle, worker


async def be_intermittent(scene: Scene) -> Handle:
    return await flaky.submit(1)


async def be_intermittent_too_often(scene: Scene) -> Handle:
    return await flaky.options(max_retries=1).submit(9)


async def rerun_the_completed(scene: Scene) -> Handle:
    handle = await build.submit(1)
    await scene.end(handle)
    await handle.rerun()
    return handle


async def rerun_the_failed(scene: Scene) -> Handle:
    handle = await fail.submit(1)
    await scene.end(handle)
    await handle.rerun()
    return handle


async def rerun_the_exception(scene: Scene) -> Handle:
    handle = await flaky.options(max_retries=0).submit(1)
    await scene.end(handle)
    await handle.rerun()
    return handle


def soon(scene: Scene) -> int:
    return scene.engine.now() + 700


async def complete_and_expire(scene: Scene) -> Handle:
    return await build.options(expires_at=soon(scene)).submit(1)


async def fail_and_expire(scene: Scene) -> Handle:
    return await fail.options(expires_at=soon(scene)).submit()


async def be_canceled_and_expire(scene: Scene) -> Handle:
    handle = await build.options(expires_at=soon(scene), queue=scene.new("unserved")).submit(1)
    await handle.cancel()
    return handle


ARROWS = (
    Arrow("new -> unscheduled: created", succeed, *BEGUN, "completed"),
    Arrow("unscheduled -> pending: it has no dependencies", succeed, *BEGUN, "completed"),
    Arrow(
        "unscheduled -> pending: every dependency completed",
        depend_on_a_success,
        *(*BEGUN, "completed"),
    ),
    Arrow(
        "unscheduled -> pending: every dependency resolved, if that is all it requires",
        require_any_end,
        *(*BEGUN, "completed"),
    ),
    Arrow("unscheduled -> pending: somebody schedules it", be_scheduled, *BEGUN, "completed"),
    Arrow(
        "unscheduled -> exception: canceled", be_canceled_unscheduled, "unscheduled", "exception"
    ),
    Arrow(
        "unscheduled -> exception: the deadline is exceeded",
        miss_the_deadline_unscheduled,
        *("unscheduled", "exception"),
    ),
    Arrow("pending -> running: a worker claims it", succeed, *BEGUN, "completed"),
    Arrow("pending -> exception: canceled", _canceled, "unscheduled", "pending", "exception"),
    Arrow(
        "pending -> exception: the deadline is exceeded",
        miss_the_deadline_pending,
        *("unscheduled", "pending", "exception"),
    ),
    Arrow("running -> completed: the worker reports it completed", succeed, *BEGUN, "completed"),
    Arrow("running -> failed: the worker reports it failed", fail_for_good, *BEGUN, "failed"),
    Arrow("running -> exception: malformed payload", have_a_malformed_payload, *BEGUN, "exception"),
    Arrow(
        "running -> exception: internal error of the worker",
        break_the_worker,
        *(*BEGUN, "exception"),
    ),
    Arrow("running -> exception: canceled", be_canceled_running, *BEGUN, "exception"),
    Arrow(
        "running -> exception: the deadline is exceeded",
        miss_the_deadline_running,
        *(*BEGUN, "exception"),
    ),
    Arrow(
        "running -> pending: the worker shuts down, retries left",
        lose_a_worker_to_a_shutdown,
        *(*BEGUN, "pending", "running", "completed"),
    ),
    Arrow(
        "running -> pending: intermittent, retries left",
        be_intermittent,
        *(*BEGUN, "pending", "running", "completed"),
    ),
    Arrow(
        "running -> pending: the claim expired, retries left",
        lose_a_worker_to_death,
        *(*BEGUN, "pending", "running", "completed"),
    ),
    Arrow(
        "running -> exception: the worker shuts down, no retries left",
        lose_the_last_worker_to_a_shutdown,
        *(*BEGUN, "exception"),
    ),
    Arrow(
        "running -> exception: intermittent, no retries left",
        be_intermittent_too_often,
        *(*BEGUN, "pending", "running", "exception"),
    ),
    Arrow(
        "running -> exception: the claim expired, no retries left",
        lose_the_last_worker_to_death,
        *(*BEGUN, "exception"),
    ),
    Arrow(
        "completed -> pending: rerun",
        rerun_the_completed,
        *(*BEGUN, "completed", "pending", "running", "completed"),
    ),
    Arrow(
        "failed -> pending: rerun",
        rerun_the_failed,
        *(*BEGUN, "failed", "pending", "running", "completed"),
    ),
    Arrow(
        "exception -> pending: rerun",
        rerun_the_exception,
        *(*BEGUN, "exception", "pending", "running", "completed"),
    ),
    Arrow("completed -> gone: expired", complete_and_expire, *BEGUN, "completed", GONE),
    Arrow("failed -> gone: expired", fail_and_expire, *BEGUN, "failed", GONE),
    Arrow(
        "exception -> gone: expired",
        be_canceled_and_expire,
        *("unscheduled", "pending", "exception", GONE),
    ),
)


def test_the_table_has_every_arrow_of_the_page() -> None:
    assert missing(DIAGRAM, ARROWS) == []


@pytest.mark.parametrize(**each(ARROWS))
async def test_a_worker_takes_the_arrow(scene: Scene, arrow: Arrow) -> None:
    assert arrow.is_taken
    await scene.sees(await arrow.provoke(scene), *arrow.names)


# --- what the page says of unscheduled tasks ---


async def test_a_self_dependency_keeps_a_task_unscheduled_whatever_else_completes(
    scene: Scene,
) -> None:
    own, other = scene.new("task"), await build.submit(1)
    handle = await build.options(id=own, depends_on=(own, other.id)).submit(2)
    await scene.end(other)
    await scene.sees(handle, "unscheduled")
    await handle.schedule()
    await scene.sees(handle, *BEGUN, "completed")


async def test_a_failed_dependency_leaves_its_dependents_unscheduled(scene: Scene) -> None:
    parent = await fail.submit(1)
    handle = await build.options(depends_on=parent, deadline_in=3600.0).submit(1)
    await scene.end(parent)
    await scene.sees(handle, "unscheduled")
    await parent.rerun()
    await scene.sees(handle, *BEGUN, "completed")


async def test_a_task_without_runs_is_unscheduled(scene: Scene) -> None:
    status = await scene.record(await unscheduled(scene))
    assert (status["state"], status["runs"]) == ("unscheduled", [])


async def test_a_decision_task_may_decide_what_any_end_means(scene: Scene) -> None:
    parent = await fail.submit()
    decision = build.options(depends_on=parent, requires="all-resolved")
    await scene.sees(await decision.submit(1), *BEGUN, "completed")


# --- pending and running ---


async def test_every_task_needs_a_deadline_at_most_five_days_ahead(scene: Scene) -> None:
    with pytest.raises(InvalidSubmission, match="deadline"):
        await app.build.submit(1)
    with pytest.raises(InvalidSubmission, match="deadline"):
        await build.options(deadline_in=6 * 86_400.0).submit(1)


async def test_runs_are_numbered_from_zero_and_only_the_last_is_open(scene: Scene) -> None:
    gate = scene.gate()
    worker = scene.worker(lease=LEASE)
    handle = await hold.options(queue=worker.queue, lease=LEASE).submit(gate.path)
    await gate.begun()
    worker.kill()
    await worker.exited()
    await scene.reaches(handle, State.PENDING)
    runs = (await scene.record(handle))["runs"]
    assert [(run["runId"], run["state"]) for run in runs] == [(0, "exception"), (1, "pending")]
    assert runs[0]["reasonResolved"] == "claim-expired"
    assert runs[1]["reasonCreated"] == "retry"
    assert (await scene.record(handle))["retriesLeft"] == 4
    gate.begin_anew()
    second = scene.worker(worker.queue)
    await gate.begun()
    runs = (await scene.record(handle))["runs"]
    assert [(run["runId"], run["state"]) for run in runs] == [(0, "exception"), (1, "running")]
    assert runs[1]["workerId"] == second.id
    gate.open()
    assert (await scene.end(handle)).state is State.COMPLETED
    assert gate.told == ["run 0", "run 1"]


async def test_a_run_is_reclaimed_again_and_again(scene: Scene) -> None:
    gate, worker = scene.gate(), scene.worker(lease=LEASE)
    handle = await hold.options(queue=worker.queue, lease=LEASE).submit(gate.path)
    await gate.begun()
    taken = (await scene.record(handle))["runs"][0]["takenUntil"]
    claimed = (await scene.get(handle)).status.started_at or 0
    await scene.renewed(handle, lambda cell: cell.lease_until > claimed + 2_500 * LEASE)
    assert (await scene.record(handle))["runs"][0]["takenUntil"] > taken
    gate.open()
    await scene.sees(handle, *BEGUN, "completed")


async def test_the_number_of_pending_tasks_is_known(scene: Scene) -> None:
    queue = scene.new("provisioner/worker-type")
    for _ in range(3):
        await build.options(queue=queue).submit(1)
    [stats] = [stats for stats in await scene.engine.stats() if stats.queue == queue]
    assert stats.counts["pending"] == 3


# --- resolved ---


async def test_a_resolved_task_is_stable(scene: Scene) -> None:
    gate = scene.gate()
    handle = await hold.submit(gate.path)
    await gate.begun()
    running = await scene.get(handle)
    gate.open()
    ended = await scene.end(handle)
    with pytest.raises(LeaseLost):
        await scene.engine.report(running, Stop())
    assert await scene.get(handle) == ended


async def test_malformed_payloads_are_never_retried(scene: Scene) -> None:
    task_id = await have_a_malformed_payload(scene)
    await scene.sees(task_id, *BEGUN, "exception")
    [run] = (await scene.record(task_id))["runs"]
    assert (run["state"], run["reasonResolved"]) == ("exception", "malformed-payload")
    assert (await scene.record(task_id))["retriesLeft"] == 5


@pytest.mark.parametrize(
    ("provoke", "reason"),
    [
        (break_the_worker, "internal-error"),
        (be_canceled_running, "canceled"),
        (miss_the_deadline_running, "deadline-exceeded"),
        (lose_the_last_worker_to_death, "claim-expired"),
        (lose_the_last_worker_to_a_shutdown, "worker-shutdown"),
        (be_intermittent_too_often, "intermittent-task"),
    ],
)
async def test_an_exception_says_its_reason(scene: Scene, provoke: Any, reason: str) -> None:
    handle = await provoke(scene)
    await scene.end(handle)
    run = (await scene.record(handle))["runs"][-1]
    assert (run["state"], run["reasonResolved"]) == ("exception", reason)


async def test_an_automatic_retry_never_shows_as_an_exception(scene: Scene) -> None:
    handle = await be_intermittent(scene)
    history = await scene.sees(handle, *BEGUN, "pending", "running", "completed")
    assert all(entry["state"] != "exception" for entry in history)
    assert [run["state"] for run in (await scene.record(handle))["runs"]] == [
        "exception",
        "completed",
    ]


async def test_a_rerun_makes_a_new_run(scene: Scene) -> None:
    handle = await rerun_the_completed(scene)
    await scene.sees(handle, *BEGUN, "completed", "pending", "running", "completed")
    runs = (await scene.record(handle))["runs"]
    assert [(run["runId"], run["reasonCreated"]) for run in runs] == [
        (0, "scheduled"),
        (1, "rerun"),
    ]


async def test_a_task_sits_around_until_a_year_after_its_deadline(scene: Scene) -> None:
    status = (await scene.end(await succeed(scene))).status
    assert status.expires_at == (status.deadline or 0) + 365 * 86_400_000
