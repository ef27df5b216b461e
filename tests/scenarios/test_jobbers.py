"""Jobbers, "Task Lifecycle": each arrow of its diagram, and what its page says beside it."""

from typing import Any

import pytest
from processes import PATIENCE

from andon import TaskHandle
from andon.contract.queries import Query
from andon.lifecycle.commands import Rerun
from andon.model.task import Task
from andon.model.words import Reason, State

from .apps.jobbers import beat, buggy, fetch, fetch_then_hold, hold, hold_then_fail, pair, work
from .stage import GONE, Arrow, Scene, each, missing

APP = "scenarios.apps.jobbers:app"

DIAGRAM = (
    "new -> unsubmitted: the client has made it",
    "unsubmitted -> submitted: it is submitted",
    "submitted -> started: a worker takes it up",
    "started -> completed: the function returns",
    "started -> scheduled: an expected error, retries left, a delay",
    "started -> unsubmitted: an expected error, retries left, no delay",
    "started -> failed: an unexpected error",
    "started -> failed: an expected error, no retries left",
    "started -> cancelled: a person cancels it",
    "started -> stalled: SIGTERM, on_shutdown=stop",
    "started -> stalled: no heartbeat in time",
    "started -> dropped: no function of that name",
    "started -> dropped: no function of that version",
    "started -> unsubmitted: SIGTERM, on_shutdown=resubmit",
    "scheduled -> submitted: its time has come",
    "unsubmitted -> submitted: it is retried at once",
    "failed -> submitted: resubmitted from the dead letters",
    "completed -> gone: it is over",
    "failed -> gone: it is over",
    "cancelled -> gone: it is over",
    "stalled -> gone: it is over",
    "dropped -> gone: it is over",
)

Handle = TaskHandle[Any]
SOON = 0.05  # seconds


async def do_work(scene: Scene) -> Handle:
    return await work.submit(1)


async def fail_once(scene: Scene) -> Handle:
    return await fetch.submit(1)


async def fail_once_with_a_delay(scene: Scene) -> Handle:
    return await fetch.options(retry_delay=SOON).submit(1)


async def have_a_bug(scene: Scene) -> Handle:
    return await buggy.options(dead_letter="save").submit(1)


async def exhaust_the_retries(scene: Scene) -> Handle:
    return await fetch.options(max_retries=1, dead_letter="save").submit(9)


async def cancel_it(scene: Scene) -> Handle:
    gate = scene.gate()
    handle = await hold.submit(gate.path)
    await gate.begun()
    await handle.cancel()
    return handle


async def stop_its_worker(scene: Scene) -> Handle:
    gate, worker = scene.gate(), scene.worker()
    handle = await hold.options(queue=worker.queue).submit(gate.path)
    await gate.begun()
    worker.terminate()
    assert await worker.exited() == 0
    return handle


async def resubmit_at_shutdown(scene: Scene) -> Handle:
    gate, worker = scene.gate(), scene.worker()
    handle = await hold.options(queue=worker.queue, on_shutdown="resubmit").submit(gate.path)
    await gate.begun()
    worker.terminate()
    assert await worker.exited() == 0
    gate.open()
    scene.worker(worker.queue)
    return handle


async def fall_silent(scene: Scene) -> Handle:
    return await hold.options(max_heartbeat_interval=0.2).submit(scene.gate().path)


async def have_no_such_name(scene: Scene) -> Handle:
    return await scene.stage.app.submit("nobody-knows")


async def have_no_such_version(scene: Scene) -> Handle:
    return await scene.stage.app.submit("work", {"value": 1}, version=7)


async def resubmit_the_dead_letter(scene: Scene) -> Handle:
    queue = scene.new("queue")
    scene.worker(queue)
    handle = await buggy.options(queue=queue, dead_letter="save").submit(1)
    await scene.end(handle)
    dead = await scene.engine.find(Query(dead_letters=True, queue=queue))
    assert [task.id for task in dead.tasks] == [handle.id]
    await scene.engine.act([task.id for task in dead.tasks], Rerun())
    return handle


async def complete_and_go(scene: Scene) -> Handle:
    return await work.options(retention=SOON).submit(1)


async def fail_and_go(scene: Scene) -> Handle:
    return await buggy.submit(1)


async def be_cancelled_and_go(scene: Scene) -> Handle:
    gate = scene.gate()
    handle = await hold.options(retention=SOON).submit(gate.path)
    await gate.begun()
    await handle.cancel()
    return handle


async def stall_and_go(scene: Scene) -> Handle:
    silent = hold.options(max_heartbeat_interval=0.2, retention=SOON)
    return await silent.submit(scene.gate().path)


async def be_dropped_and_go(scene: Scene) -> Handle:
    return await scene.stage.app.submit("nobody-knows", retention=SOON)


BEGUN = ("unsubmitted", "submitted", "started")

ARROWS = (
    Arrow("new -> unsubmitted: the client has made it", do_work, *BEGUN, "completed"),
    Arrow("unsubmitted -> submitted: it is submitted", do_work, *BEGUN, "completed"),
    Arrow("submitted -> started: a worker takes it up", do_work, *BEGUN, "completed"),
    Arrow("started -> completed: the function returns", do_work, *BEGUN, "completed"),
    Arrow(
        "started -> scheduled: an expected error, retries left, a delay",
        fail_once_with_a_delay,
        *(*BEGUN, "scheduled", "submitted", "started", "completed"),
    ),
    Arrow(
        "started -> unsubmitted: an expected error, retries left, no delay",
        fail_once,
        *BEGUN,
        *BEGUN,
        "completed",
    ),
    Arrow("started -> failed: an unexpected error", have_a_bug, *BEGUN, "failed"),
    Arrow(
        "started -> failed: an expected error, no retries left",
        exhaust_the_retries,
        *BEGUN,
        *BEGUN,
        "failed",
    ),
    Arrow("started -> cancelled: a person cancels it", cancel_it, *BEGUN, "cancelled"),
    Arrow("started -> stalled: SIGTERM, on_shutdown=stop", stop_its_worker, *BEGUN, "stalled"),
    Arrow("started -> stalled: no heartbeat in time", fall_silent, *BEGUN, "stalled"),
    Arrow("started -> dropped: no function of that name", have_no_such_name, *BEGUN, "dropped"),
    Arrow(
        "started -> dropped: no function of that version", have_no_such_version, *BEGUN, "dropped"
    ),
    Arrow(
        "started -> unsubmitted: SIGTERM, on_shutdown=resubmit",
        resubmit_at_shutdown,
        *BEGUN,
        *BEGUN,
        "completed",
    ),
    Arrow(
        "scheduled -> submitted: its time has come",
        fail_once_with_a_delay,
        *(*BEGUN, "scheduled", "submitted", "started", "completed"),
    ),
    Arrow(
        "unsubmitted -> submitted: it is retried at once", fail_once, *BEGUN, *BEGUN, "completed"
    ),
    Arrow(
        "failed -> submitted: resubmitted from the dead letters",
        resubmit_the_dead_letter,
        *(*BEGUN, "failed", "submitted", "started", "completed"),
    ),
    Arrow("completed -> gone: it is over", complete_and_go, *BEGUN, "completed", GONE),
    Arrow("failed -> gone: it is over", fail_and_go, *BEGUN, "failed", GONE),
    Arrow("cancelled -> gone: it is over", be_cancelled_and_go, *BEGUN, "cancelled", GONE),
    Arrow("stalled -> gone: it is over", stall_and_go, *BEGUN, "stalled", GONE),
    Arrow("dropped -> gone: it is over", be_dropped_and_go, *BEGUN, "dropped", GONE),
)


def test_the_table_has_every_arrow_of_the_diagram() -> None:
    assert missing(DIAGRAM, ARROWS) == []


@pytest.mark.parametrize(**each(ARROWS))
async def test_a_worker_takes_the_arrow(scene: Scene, arrow: Arrow) -> None:
    assert arrow.is_taken
    await scene.sees(await arrow.provoke(scene), *arrow.names)


# --- what the page says beside its diagram ---


async def test_an_unsubmitted_task_exists_with_the_client_only(scene: Scene) -> None:
    draft = work.draft(1)
    assert await scene.engine.get([draft.id]) == [None]
    handle = await draft.submit()
    assert handle.id == draft.id


async def test_a_result_is_stored(scene: Scene) -> None:
    handle = await work.submit(7)
    assert await handle.result(PATIENCE) == 7
    assert (await scene.record(handle))["results"] == 7


async def test_each_retry_increments_retry_attempt(scene: Scene) -> None:
    handle = await fetch.options(max_retries=3).submit(2)
    await scene.end(handle)
    assert (await scene.record(handle))["retry_attempt"] == 2


async def test_no_more_than_max_retries_are_made(scene: Scene) -> None:
    handle = await fetch.options(max_retries=2, dead_letter="save").submit(9)
    await scene.sees(handle, *BEGUN, *BEGUN, *BEGUN, "failed")
    assert (await scene.record(handle))["retry_attempt"] == 2


async def test_an_unexpected_error_is_not_retried_whatever_retries_remain(scene: Scene) -> None:
    handle = await buggy.options(max_retries=5, retry_delay=0.0, dead_letter="save").submit(1)
    await scene.sees(handle, *BEGUN, "failed")
    assert (await scene.get(handle)).status.reason is Reason.ERROR


@pytest.mark.parametrize(
    ("backoff", "least", "most"),
    [
        ("constant", (100, 100, 100), (100, 100, 100)),
        ("linear", (100, 200, 300), (100, 200, 300)),
        ("exponential", (100, 200, 400), (100, 200, 400)),
        ("exponential_jitter", (0, 0, 0), (100, 200, 400)),
    ],
)
async def test_the_delay_grows_by_the_strategy(
    scene: Scene, backoff: str, least: tuple[int, ...], most: tuple[int, ...]
) -> None:
    delays = await delays_of(scene, fetch.options(retry_delay=100.0, backoff=backoff))
    for delay, low, high in zip(delays, least, most, strict=True):
        assert low <= delay <= high


async def test_max_retry_delay_caps_the_delay(scene: Scene) -> None:
    capped = fetch.options(retry_delay=100.0, backoff="exponential", max_retry_delay=150.0)
    assert await delays_of(scene, capped) == [100, 150, 150]


async def test_the_delay_is_capped_at_an_hour_by_default(scene: Scene) -> None:
    capped = fetch.options(retry_delay=3000.0, backoff="exponential")
    assert await delays_of(scene, capped) == [3000, 3600, 3600]


async def delays_of(scene: Scene, flaky: Any) -> list[float]:
    """Seconds before each of three retries; the waits themselves are cut short."""
    handle = await flaky.options(max_retries=3, dead_letter="save").submit(9)
    delays: list[float] = []
    for run in range(3):
        task = await scene.when(handle, lambda t, run=run: waits_after(t, run))
        assert task.status.run_at is not None
        delays.append((task.status.run_at - task.status.events[-1].at) / 1000)
        await handle.retry()
    await scene.engine.wait_end(handle.id, PATIENCE)
    return delays


def waits_after(task: Task, run: int) -> bool:
    return task.state is State.RETRY and task.status.runs[-1].number == run


async def test_a_timeout_is_retried_like_an_expected_error(scene: Scene) -> None:
    late = hold.options(timeout=0.1, retry_delay=SOON, max_retries=1, dead_letter="save")
    handle = await late.submit(scene.gate().path)
    again = ("scheduled", "submitted", "started")
    await scene.sees(handle, *BEGUN, *again, "failed")
    error = (await scene.get(handle)).status.last_error
    assert error is not None
    assert error.code == "TIMEOUT"


async def test_dead_letters_are_inspected_and_resubmitted_in_bulk(scene: Scene) -> None:
    worker = scene.worker()
    saved = buggy.options(queue=worker.queue, dead_letter="save")
    handles = [await saved.submit(1) for _ in range(3)]
    for handle in handles:
        await scene.end(handle)
    dead = await scene.engine.find(Query(dead_letters=True, queue=worker.queue))
    assert {task.id for task in dead.tasks} == {handle.id for handle in handles}
    assert all(task.status.last_error is not None for task in dead.tasks)
    await scene.engine.act([task.id for task in dead.tasks], Rerun())
    for handle in handles:
        await scene.sees(handle, *BEGUN, "failed", "submitted", "started", "completed")
    assert not (await scene.engine.find(Query(dead_letters=True, queue=worker.queue))).tasks


async def test_a_failed_task_is_discarded_unless_it_is_to_be_a_dead_letter(scene: Scene) -> None:
    handle = await buggy.submit(1)
    await scene.sees(handle, *BEGUN, "failed", GONE)
    assert await scene.engine.get([handle.id]) == [None]


async def test_who_waits_learns_the_error_of_a_failed_task_that_is_discarded(scene: Scene) -> None:
    gate = scene.gate()
    handle = await hold_then_fail.submit(gate.path)
    watching = scene.engine.watch(handle.id)
    await anext(watching)
    gate.open()
    *_, last = [task async for task in watching]
    assert (last.state, last.status.reason) == (State.FAILED, Reason.ERROR)
    assert last.status.last_error is not None
    assert last.status.last_error.message == "'a bug'"
    assert await scene.engine.get([handle.id]) == [None]


async def test_heartbeats_keep_a_task_from_stalling(scene: Scene) -> None:
    gate, interval = scene.gate(), 2.0
    handle = await beat.options(max_heartbeat_interval=interval).submit(gate.path)
    await gate.begun()
    started = (await scene.get(handle)).status.started_at or 0
    await scene.renewed(handle, lambda cell: cell.heartbeat_at > started + 1_500 * interval)
    gate.open()
    await scene.sees(handle, *BEGUN, "completed")


async def test_silence_alone_never_stalls_a_task_without_an_interval(scene: Scene) -> None:
    worker, gate, lease = scene.worker(lease=3.0), scene.gate(), 3.0
    handle = await hold.options(queue=worker.queue, lease=lease).submit(gate.path)
    await gate.begun()
    started = (await scene.get(handle)).status.started_at or 0
    await scene.renewed(handle, lambda cell: cell.lease_until > started + 2_000 * lease)
    assert (await scene.record(handle))["heartbeat_at"] == (await scene.record(handle))[
        "started_at"
    ]
    gate.open()
    await scene.sees(handle, *BEGUN, "completed")


async def test_resubmit_does_not_increment_retry_attempt(scene: Scene) -> None:
    handle = await resubmit_at_shutdown(scene)
    await scene.end(handle)
    record = await scene.record(handle)
    assert (record["status"], record["retry_attempt"]) == ("completed", 0)


async def test_with_continue_the_worker_waits_for_the_task_before_it_exits(scene: Scene) -> None:
    gate, worker = scene.gate(), scene.worker()
    handle = await hold.options(queue=worker.queue, on_shutdown="continue").submit(gate.path)
    await gate.begun()
    worker.terminate()
    await scene.says(worker, "stopping")
    assert worker.is_running
    assert await scene.state(handle) == "started"
    gate.open()
    await scene.sees(handle, *BEGUN, "completed")
    assert await worker.exited() == 0


async def test_one_run_of_a_type_at_a_time_and_others_go_on(scene: Scene) -> None:
    worker, first, second = scene.worker(), scene.gate(), scene.gate()
    held = hold.options(queue=worker.queue)
    handles = [await held.submit(gate.path) for gate in (first, second)]
    await first.begun()
    other = await work.options(queue=worker.queue).submit(1)
    await scene.sees(other, *BEGUN, "completed")
    assert [await scene.state(handle) for handle in handles] == ["started", "submitted"]
    first.open()
    await second.begun()
    second.open()
    for handle in handles:
        await scene.sees(handle, *BEGUN, "completed")


async def test_a_type_may_run_more_at_once_if_it_says_so(scene: Scene) -> None:
    gates = [scene.gate() for _ in range(3)]
    handles = [await pair.submit(gate.path) for gate in gates]
    await gates[0].begun()
    await gates[1].begun()
    assert [await scene.state(h) for h in handles] == ["started", "started", "submitted"]
    for gate in gates:
        gate.open()
    for handle in handles:
        await scene.sees(handle, *BEGUN, "completed")


async def test_each_transition_sets_its_timestamp(scene: Scene) -> None:
    gate = scene.gate()
    handle = await fetch_then_hold.options(retry_delay=100.0).submit(gate.path)
    await scene.reaches(handle, State.RETRY)
    waiting = await scene.record(handle)
    await handle.retry()
    await gate.begun()
    running = await scene.record(handle)
    gate.open()
    await scene.end(handle)
    ended = await scene.record(handle)
    assert waiting["submitted_at"] <= waiting["started_at"]
    assert waiting["retried_at"] is None
    assert running["started_at"] == waiting["started_at"]
    assert running["submitted_at"] > waiting["submitted_at"]
    assert running["retried_at"] >= running["submitted_at"]
    assert running["completed_at"] is None
    assert running["heartbeat_at"] >= running["retried_at"]
    assert ended["completed_at"] >= running["retried_at"]
