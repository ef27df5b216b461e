"""docs/rulings.md, R11: leaving in three steps, on real signals; and docs/rulings.md, R6, a
deadline passing under way."""

import signal
from typing import Any

import pytest

from andon.model.words import Reason, State

from .apps.native import defy, defy_in_process, defy_in_thread, end_when_told, hold, work
from .holding import KINDS, held
from .stage import Scene

APP = "scenarios.apps.native:app"

LEASE = 1.0  # seconds
AT_ONCE: dict[str, Any] = {"shutdown_grace": 0.0}
BEGUN = ("pending", "active")

# What each policy makes of a run that the shutdown ends, until its worker has left.
POLICIES = (
    ("stop", "stalled", Reason.WORKER_SHUTDOWN, 1),
    ("resubmit", "pending", Reason.RELEASED, 0),
    ("retry", "retry", Reason.WORKER_SHUTDOWN, 1),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("policy", "state", "reason", "tries"), POLICIES)
async def test_r11_after_the_grace_a_run_ends_as_its_policy_says(
    scene: Scene, *, policy: str, state: str, reason: Reason, tries: int, kind: Any
) -> None:
    worker = scene.worker()
    handle, _ = await held(
        scene, kind, queue=worker.queue, on_shutdown=policy, retry_delay=3600.0, **AT_ONCE
    )
    worker.terminate()
    assert await worker.exited() == 0
    await scene.sees(handle, *BEGUN, state)
    status = (await scene.get(handle)).status
    assert status.tries == tries
    assert status.runs[0].resolved_reason is reason


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_r11_with_continue_there_is_no_limit(scene: Scene, kind: Any) -> None:
    worker = scene.worker()
    handle, gate = await held(scene, kind, queue=worker.queue, on_shutdown="continue", **AT_ONCE)
    worker.terminate()
    await scene.says(worker, "stopping")
    later = await work.options(queue=worker.queue).submit(1)
    gate.open()
    await scene.sees(handle, *BEGUN, "completed")
    assert await worker.exited() == 0
    await scene.sees(later, "pending")


async def test_r11_a_run_that_ends_within_the_grace_ends_as_ever(scene: Scene) -> None:
    worker = scene.worker()
    handle, gate = await held(scene, queue=worker.queue, on_shutdown="stop", shutdown_grace=60.0)
    worker.terminate()
    await scene.says(worker, "stopping")
    assert (await scene.get(handle)).state is State.ACTIVE
    gate.open()
    await scene.sees(handle, *BEGUN, "completed")
    assert await worker.exited() == 0


async def test_r11_the_grace_ends_by_itself(scene: Scene) -> None:
    worker = scene.worker()
    handle, _ = await held(scene, queue=worker.queue, on_shutdown="stop", shutdown_grace=0.3)
    worker.terminate()
    assert await worker.exited() == 0
    await scene.sees(handle, *BEGUN, "stalled")


async def test_r11_a_resubmitted_run_keeps_its_place(scene: Scene) -> None:
    worker = scene.worker(concurrency=1)
    first, gate = await held(scene, queue=worker.queue, **AT_ONCE)
    second = await work.options(queue=worker.queue).submit(1)
    worker.terminate()
    assert await worker.exited() == 0
    gate.open()
    scene.worker(worker.queue, concurrency=1)
    await scene.end(second)
    order = [(await scene.get(task)).status.runs[-1].claimed_at or 0 for task in (first, second)]
    assert order == sorted(order)
    await scene.sees(first, *BEGUN, *BEGUN, "completed")


async def test_r11_retry_with_no_try_left_is_stalled(scene: Scene) -> None:
    worker = scene.worker()
    handle, _ = await held(scene, queue=worker.queue, on_shutdown="retry", max_retries=0, **AT_ONCE)
    worker.terminate()
    assert await worker.exited() == 0
    await scene.sees(handle, *BEGUN, "stalled")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_r11_sigint_asks_like_sigterm(scene: Scene, number: signal.Signals) -> None:
    worker = scene.worker()
    handle, _ = await held(scene, queue=worker.queue, on_shutdown="stop", **AT_ONCE)
    worker.signal(number)
    assert await worker.exited() == 0
    await scene.sees(handle, *BEGUN, "stalled")


async def test_r11_the_second_signal_ends_the_grace(scene: Scene) -> None:
    worker = scene.worker()
    handle, _ = await held(scene, queue=worker.queue, on_shutdown="stop", shutdown_grace=600.0)
    worker.terminate()
    await scene.says(worker, "stopping")
    worker.terminate()
    assert await worker.exited() == 0
    await scene.sees(handle, *BEGUN, "stalled")


async def test_r11_the_second_signal_does_not_wait_out_the_grace_of_a_cancel(
    scene: Scene,
) -> None:
    worker = scene.worker()
    handle, gate = await held(scene, defy_in_thread, queue=worker.queue, cancel_grace=600.0)
    await handle.cancel()
    worker.terminate()
    await scene.says(worker, "stopping")
    worker.terminate()
    assert await worker.exited() == 0
    await scene.sees(handle, *BEGUN, "cancelled")
    gate.open()


async def test_r11_the_second_signal_turns_continue_into_resubmit(scene: Scene) -> None:
    worker = scene.worker()
    handle, _ = await held(scene, queue=worker.queue, on_shutdown="continue")
    worker.terminate()
    await scene.says(worker, "stopping")
    worker.terminate()
    assert await worker.exited() == 0
    await scene.sees(handle, *BEGUN, "pending")
    assert (await scene.get(handle)).status.tries == 0


async def test_r11_the_third_signal_exits_at_once_and_the_lease_runs_out(scene: Scene) -> None:
    worker = scene.worker(lease=LEASE)
    handle, gate = await held(scene, defy, queue=worker.queue, lease=LEASE, max_retries=0)
    worker.terminate()
    await scene.says(worker, "stopping")
    worker.terminate()
    worker.signal(signal.SIGINT)  # two of the same kind might arrive as one
    assert await worker.exited() in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    await scene.sees(handle, *BEGUN, "stalled")
    assert (await scene.get(handle)).status.reason is Reason.LEASE_EXPIRED
    gate.open()


async def test_r11_a_thread_that_goes_on_holds_nobody_up(scene: Scene) -> None:
    worker = scene.worker()
    handle, gate = await held(scene, defy_in_thread, queue=worker.queue, **AT_ONCE)
    worker.terminate()
    assert await worker.exited() == 0
    await scene.sees(handle, *BEGUN, "pending")
    gate.open()


async def test_r11_a_process_that_goes_on_is_killed(scene: Scene) -> None:
    worker = scene.worker()
    handle, _ = await held(
        scene, defy_in_process, queue=worker.queue, on_shutdown="stop", cancel_grace=0.3, **AT_ONCE
    )
    worker.terminate()
    assert await worker.exited() == 0
    await scene.sees(handle, *BEGUN, "stalled")


async def test_r11_a_handler_that_completes_when_told_completes(scene: Scene) -> None:
    worker = scene.worker()
    handle, _ = await held(
        scene, end_when_told, {"how": "well"}, queue=worker.queue, on_shutdown="stop", **AT_ONCE
    )
    worker.terminate()
    assert await worker.exited() == 0
    await scene.sees(handle, *BEGUN, "completed")


async def test_r11_a_quiet_worker_claims_nothing_and_stays(scene: Scene) -> None:
    worker = scene.worker()
    running, gate = await held(scene, queue=worker.queue)
    worker.signal(signal.SIGTSTP)
    await scene.says(worker, "quiet")
    waiting = await work.options(queue=worker.queue).submit(1)
    gate.open()
    await scene.sees(running, *BEGUN, "completed")
    await scene.sees(waiting, "pending")
    worker.signal(signal.SIGCONT)
    await scene.sees(waiting, *BEGUN, "completed")


async def test_r11_a_quiet_worker_leaves_when_it_is_told_to(scene: Scene) -> None:
    worker = scene.worker()
    other = await work.options(queue=worker.queue).submit(1)
    await scene.end(other)
    worker.signal(signal.SIGTSTP)
    await scene.says(worker, "quiet")
    worker.terminate()
    assert await worker.exited() == 0


async def test_r11_a_worker_that_left_is_no_longer_listed(scene: Scene) -> None:
    worker = scene.worker()
    await scene.says(worker, "running")
    worker.terminate()
    assert await worker.exited() == 0
    assert worker.id not in {found.id for found in await scene.engine.workers()}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_r6_a_deadline_that_passes_under_way_ends_the_run(scene: Scene, kind: Any) -> None:
    gate = scene.gate()
    handle = await scene.in_time(
        lambda seconds: kind.options(deadline_in=seconds).submit(gate=gate.path),
        lambda task: task.status.started_at is not None,
    )
    await scene.sees(handle, *BEGUN, "expired")
    assert (await scene.get(handle)).status.reason is Reason.DEADLINE_EXCEEDED
    gate.open()


async def test_r6_a_task_past_its_deadline_is_not_handed_out(scene: Scene) -> None:
    queue = scene.new("queue")
    await scene.engine.configure_queue(queue, {"paused": True})
    worker = scene.worker(queue)
    handle = await hold.options(queue=queue, deadline_in=0.3).submit(scene.gate().path)
    await scene.says(worker, "running")
    await scene.sees(handle, "pending", "expired")
    await scene.engine.configure_queue(queue, {"paused": False})
    other = await work.options(queue=queue).submit(1)
    await scene.sees(other, *BEGUN, "completed")
    assert await scene.moves(handle) == ["submit", "expire"]
