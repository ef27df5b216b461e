"""Rulings on who may write (docs/rulings.md, R3, R14), on cancelling (docs/rulings.md, R7), and on
what is lost or silent (docs/rulings.md, R10)."""

import asyncio
import contextlib
import signal
from typing import Any

import pytest
from processes import WorkerProcess

from andon import TaskHandle
from andon.contract.outcomes import ChangeKind, Verdict
from andon.contract.requests import ClaimRequest, Renewal
from andon.engine.control import change_of
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Complete, Fail, Lose
from andon.model.errors import InvalidTransition, LeaseLost
from andon.model.task import Task, TaskError
from andon.model.words import Reason, State

from .apps.native import (
    block,
    defy,
    defy_in_process,
    defy_in_thread,
    end_when_told,
    fence,
    hold,
    hold_command,
    work,
)
from .holding import KINDS, held
from .stage import Scene, Stage, until

APP = "scenarios.apps.native:app"

Handle = TaskHandle[Any]
LEASE = 2.0  # seconds; a worker on a busy machine may be kept from renewing for one
SOON = 0.3
BEGUN = ("pending", "active")


async def claimed(scene: Scene, lease: float = 30.0, **options: Any) -> Task:
    """A task claimed by this process, which will not renew."""
    queue = scene.new("queue")
    await work.options(queue=queue, **options).submit(1)
    request = ClaimRequest(
        worker="this-test",
        token=scene.new("token"),
        queues=(queue,),
        limit=1,
        lease_ms=round(lease * 1000),
    )
    [task] = await scene.engine.claim(request)
    return task


async def taken_over(scene: Scene) -> Task:
    """A task whose first run was claimed here and lost, and whose second was done by a worker."""
    task = await claimed(scene, lease=0.2)
    scene.worker(task.definition.queue)
    await scene.sees(task.id, *BEGUN, "retry", *BEGUN, "completed")
    return task


# --- docs/rulings.md, R3: late and repeated reports ---


async def test_r3_a_run_whose_lease_was_taken_over_can_report_nothing(scene: Scene) -> None:
    lost = await taken_over(scene)
    before = await scene.get(lost.id)
    failure = TaskError(message="late")
    for report in (Complete(result=b"99"), Fail(error=failure)):
        with pytest.raises(LeaseLost):
            await scene.engine.report(lost, report)
    assert await scene.get(lost.id) == before
    assert before.result == b"1"


async def test_r3_a_run_whose_lease_was_taken_over_can_renew_nothing(scene: Scene) -> None:
    lost = await taken_over(scene)
    before = await scene.get(lost.id)
    renewal = Renewal(task=lost.id, run=lost.status.run, lease_ms=60_000, progress=50)
    assert await scene.engine.renew([renewal]) == [Verdict.LOST]
    assert await scene.get(lost.id) == before


async def test_r3_an_exact_repeat_of_a_report_is_answered_like_the_first(scene: Scene) -> None:
    task = await claimed(scene)
    first = await scene.engine.report(task, Complete(result=b"1"))
    ended = await scene.get(task.id)
    assert first is State.COMPLETED
    assert await scene.engine.report(task, Complete(result=b"1")) is first
    assert await scene.get(task.id) == ended


async def test_r3_a_passed_lease_that_nobody_collected_still_counts(bare_stage: Stage) -> None:
    async with bare_stage.scene() as alone:  # no worker, so nobody to collect it
        task = await claimed(alone, lease=0.001)
        assert task.cell is not None
        lease = task.cell.lease_until
        await until(lambda: alone.engine.now() > lease)
        assert await alone.engine.report(task, Complete(result=b"1")) is State.COMPLETED


async def test_r3_a_renewal_that_arrives_before_a_timers_move_wins(scene: Scene) -> None:
    worker = scene.worker(lease=LEASE)
    handle, gate = await held(scene, queue=worker.queue, lease=LEASE)
    seen = await scene.get(handle)
    assert seen.cell is not None
    lease = seen.cell.lease_until
    await scene.renewed(handle, lambda cell: cell.lease_until > lease)
    lose = apply(seen, Lose(), now=lease, random=lambda: 0.5, write_id=scene.new("write"))
    [changed] = await scene.store.commit([change_of(seen, lose, seen_lease=lease)])
    assert changed.kind is ChangeKind.CONFLICT
    gate.open()
    await scene.sees(handle, *BEGUN, "completed")


async def test_r3_the_fence_grows_across_retries_and_reruns(scene: Scene) -> None:
    handle = await fence.submit(1)
    first = await handle.result(30)
    await handle.rerun()
    second = await handle.result(30)
    runs = (await scene.get(handle)).status.runs
    assert [run.number for run in runs] == [0, 1, 2]
    assert runs[0].fence < first < second


async def test_r3_a_worker_stopped_past_its_lease_changes_nothing_when_it_goes_on(
    scene: Scene,
) -> None:
    first = scene.worker(lease=LEASE)
    handle, gate = await held(scene, defy_in_thread, queue=first.queue, lease=LEASE)
    await freeze(scene, first, handle)
    gate.begin_anew()
    second = scene.worker(first.queue)
    await gate.begun()
    first.signal(signal.SIGCONT)
    gate.open()
    await scene.sees(handle, *BEGUN, "retry", *BEGUN, "completed")
    first.terminate()
    assert await first.exited() == 0
    runs = (await scene.get(handle)).status.runs
    assert [(run.worker, run.resolved_reason) for run in runs] == [
        (first.id, Reason.LEASE_EXPIRED),
        (second.id, Reason.SUCCESS),
    ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_r3_a_handler_whose_run_was_taken_over_is_told_to_stop(
    scene: Scene, kind: Any
) -> None:
    worker = scene.worker(lease=LEASE)
    handle, _ = await held(scene, kind, queue=worker.queue, lease=LEASE, max_retries=0)
    await freeze(scene, worker, handle)
    await scene.sees(handle, *BEGUN, "stalled")
    ended = await scene.get(handle)
    worker.signal(signal.SIGCONT)
    worker.terminate()
    assert await worker.exited() == 0  # although nobody opens the gate
    assert await scene.get(handle) == ended


async def freeze(scene: Scene, worker: WorkerProcess, handle: Handle) -> None:
    """Stop a worker with SIGSTOP right after a renewal, when it is not writing: one that is stopped
    while it holds a file's lock stops all the others."""
    for _ in range(10):
        cell = (await scene.get(handle)).cell
        assert cell is not None
        before = cell.lease_until
        await scene.renewed(handle, lambda now, before=before: now.lease_until > before)
        worker.signal(signal.SIGSTOP)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEASE / 2):
                await scene.engine.configure_queue(worker.queue, {"paused": False})
                return
        worker.signal(signal.SIGCONT)
    raise AssertionError("whenever the worker was stopped, nobody else could write")


async def test_design_1_3_a_handler_that_blocks_the_loop_keeps_its_lease(scene: Scene) -> None:
    worker = scene.worker(lease=LEASE)
    handle, gate = await held(scene, block, queue=worker.queue, lease=LEASE)
    claimed_at = (await scene.get(handle)).status.started_at or 0
    await scene.renewed(handle, lambda cell: cell.lease_until > claimed_at + 2_000 * LEASE)
    gate.open()
    await scene.sees(handle, *BEGUN, "completed")


async def test_r14_a_worker_claims_no_more_than_it_can_start(scene: Scene) -> None:
    worker = scene.worker(concurrency=1)
    first, gate = await held(scene, queue=worker.queue)
    second = await work.options(queue=worker.queue).submit(1)
    await scene.sees(second, "pending")
    assert (await scene.get(second)).state is State.PENDING
    gate.open()
    await scene.sees(first, *BEGUN, "completed")
    await scene.sees(second, *BEGUN, "completed")


# --- docs/rulings.md, R7: cancelling ---

DEFIANT = (
    (defy, {}, Reason.HANDLER_ABANDONED),
    (defy_in_thread, {}, Reason.HANDLER_ABANDONED),
    (defy_in_process, {}, Reason.HANDLER_KILLED),
    (hold_command, {"defy": True}, Reason.HANDLER_KILLED),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_r7_a_handler_that_stops_when_told_ends_cancelled(scene: Scene, kind: Any) -> None:
    handle, _ = await held(scene, kind)
    await handle.cancel()
    await scene.sees(handle, *BEGUN, "cancelled")
    task = await scene.get(handle)
    assert task.status.reason is Reason.CANCEL_REQUESTED
    assert await scene.moves(handle) == ["submit", "claim", "request-cancel", "interrupted"]


@pytest.mark.parametrize(("kind", "how", "reason"), DEFIANT, ids=lambda v: getattr(v, "name", ""))
async def test_r7_a_handler_that_goes_on_past_the_grace_is_abandoned_or_killed(
    scene: Scene, kind: Any, how: dict[str, Any], reason: Reason
) -> None:
    handle, gate = await held(scene, kind, how, cancel_grace=SOON)
    await handle.cancel()
    await scene.sees(handle, *BEGUN, "cancelled")
    gate.open()
    assert (await scene.get(handle)).status.reason is reason


async def test_r7_a_completion_after_the_request_still_completes(scene: Scene) -> None:
    handle, _ = await held(scene, end_when_told, {"how": "well"})
    await handle.cancel()
    await scene.sees(handle, *BEGUN, "completed")
    assert (await scene.get(handle)).result == b'"well"'


async def test_r7_a_failure_after_the_request_ends_cancelled_not_in_a_retry(scene: Scene) -> None:
    handle, _ = await held(scene, end_when_told, {"how": "fail"})
    await handle.cancel()
    await scene.sees(handle, *BEGUN, "cancelled")
    error = (await scene.get(handle)).status.last_error
    assert error is not None
    assert error.message == "was told to stop"


async def test_r7_a_loss_after_the_request_ends_cancelled(scene: Scene) -> None:
    worker = scene.worker(lease=LEASE)
    handle, _ = await held(scene, queue=worker.queue, lease=LEASE)
    await freeze(scene, worker, handle)
    await handle.cancel()
    worker.kill()
    await scene.sees(handle, *BEGUN, "cancelled")
    assert (await scene.moves(handle))[-1] == "lose"


async def test_r7_a_shutdown_after_the_request_ends_cancelled(scene: Scene) -> None:
    worker = scene.worker(lease=LEASE, grace="0s")
    handle, _ = await held(scene, queue=worker.queue, lease=LEASE, on_shutdown="stop")
    await freeze(scene, worker, handle)
    await handle.cancel()
    worker.terminate()
    worker.signal(signal.SIGCONT)
    await scene.sees(handle, *BEGUN, "cancelled")
    assert await worker.exited() == 0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_r7_a_forced_cancel_ends_at_once_and_the_run_can_write_no_more(
    scene: Scene, kind: Any
) -> None:
    handle, gate = await held(scene, kind)
    assert await handle.cancel(force=True) is State.CANCELLED
    ended = await scene.get(handle)
    assert ended.status.reason is Reason.CANCEL_FORCED
    gate.open()
    other = await work.submit(1)
    await scene.end(other)
    await scene.sees(handle, *BEGUN, "cancelled")
    assert await scene.get(handle) == ended


async def test_r7_cancelling_twice_is_fine_and_cancelling_another_end_is_not(scene: Scene) -> None:
    handle = await work.options(queue=scene.new("unserved")).submit(1)
    assert await handle.cancel() is State.CANCELLED
    assert await handle.cancel() is State.CANCELLED
    done = await work.submit(1)
    await scene.end(done)
    with pytest.raises(InvalidTransition):
        await done.cancel()


async def test_r7_whoever_waits_gets_an_answer_within_the_grace(scene: Scene) -> None:
    handle, gate = await held(scene, defy, cancel_grace=SOON)
    assert await handle.cancel(wait=30) is State.CANCELLED
    gate.open()


# --- docs/rulings.md, R10: lost and silent are two things ---


async def test_r10_a_lost_run_is_retried_and_counts_as_a_try(scene: Scene) -> None:
    worker = scene.worker(lease=LEASE)
    handle, gate = await held(scene, queue=worker.queue, lease=LEASE, max_retries=1)
    worker.kill()
    gate.open()
    scene.worker(worker.queue)
    await scene.sees(handle, *BEGUN, "retry", *BEGUN, "completed")
    task = await scene.get(handle)
    assert task.status.tries == 2
    assert task.status.runs[0].resolved_reason is Reason.LEASE_EXPIRED


async def test_r10_a_lost_run_with_no_tries_left_is_stalled(scene: Scene) -> None:
    worker = scene.worker(lease=LEASE)
    handle, _ = await held(scene, queue=worker.queue, lease=LEASE, max_retries=0)
    worker.kill()
    await scene.sees(handle, *BEGUN, "stalled")
    assert (await scene.get(handle)).status.reason is Reason.LEASE_EXPIRED


async def test_r10_a_silent_run_is_stalled_whatever_its_tries(scene: Scene) -> None:
    handle, gate = await held(scene, max_heartbeat_interval=SOON, max_retries=5)
    await scene.sees(handle, *BEGUN, "stalled")
    assert (await scene.get(handle)).status.reason is Reason.HEARTBEAT_TIMEOUT
    gate.open()


async def test_r10_silence_is_retried_where_the_policy_says_so(scene: Scene) -> None:
    gate = scene.gate()
    silent = hold.options(max_heartbeat_interval=SOON, on_silence="retry", max_retries=1)
    handle = await silent.submit(gate.path)
    await scene.sees(handle, *BEGUN, "retry", *BEGUN, "stalled")
    gate.open()


async def test_r14_the_worker_enforces_the_timeout(scene: Scene) -> None:
    for kind in KINDS:
        limited = kind.options(timeout=0.5, max_retries=0)
        handle = await limited.submit(gate=scene.gate().path)
        await scene.sees(handle, *BEGUN, "failed")
        assert (await scene.get(handle)).status.reason is Reason.TIMEOUT


async def test_r14_a_handler_that_goes_on_past_its_timeout_is_abandoned(scene: Scene) -> None:
    stubborn = {"timeout": 0.3, "cancel_grace": SOON, "max_retries": 0}
    for kind in (defy, defy_in_thread, defy_in_process):
        gate = scene.gate()
        handle = await kind.options(**stubborn).submit(gate.path)
        await scene.sees(handle, *BEGUN, "failed")
        assert (await scene.get(handle)).status.reason is Reason.TIMEOUT
        gate.open()
