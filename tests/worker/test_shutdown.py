"""Leaving: a grace, then by policy; again ends the grace; a third time exits at once."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from andon.model.errors import ConfigurationError
from andon.model.words import Event, Reason, State
from andon.worker.config import WorkerConfig
from andon.worker.context import Context
from andon.worker.shutdown import Signals

from .kit import WAIT, Kit, last_run, result_of, until, written


class Waits:
    """A handler that waits until it is told to go on, or to stop."""

    def __init__(self) -> None:
        self.begun = 0
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self) -> str:
        self.begun += 1
        self.started.set()
        await self.go_on.wait()
        return "finished"


@pytest.fixture
def waits(kit: Kit) -> Waits:
    waits = Waits()

    async def handler() -> str:
        return await waits()

    kit.add(handler, name="waits")
    return waits


async def test_runs_that_end_within_their_grace_complete(kit: Kit, waits: Waits):
    worker = await kit.start()
    task_id = await kit.submit("waits")
    await waits.started.wait()
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    later = await kit.submit("waits")
    waits.go_on.set()
    await stopping
    assert result_of(await kit.end(task_id)) == "finished"
    assert (await kit.get(later)).state is State.PENDING


@pytest.mark.parametrize(
    ("rule", "state", "event"),
    [
        ("stop", State.STALLED, Event.STOP),
        ("resubmit", State.PENDING, Event.RELEASE),
        ("retry", State.RETRY, Event.SHUTDOWN_RETRY),
    ],
)
async def test_after_the_grace_the_policy_decides(
    kit: Kit, waits: Waits, rule: str, state: State, event: Event
):
    worker = await kit.start()
    task_id = await kit.submit(
        "waits", options={"on_shutdown": rule, "shutdown_grace": 0.05, "max_retries": 1}
    )
    await waits.started.wait()
    await worker.stop()
    task = await kit.get(task_id)
    assert task.state is state
    assert last_run(task)[0] is event
    assert task.status.tries == (0 if rule == "resubmit" else 1)


async def test_the_workers_own_grace_replaces_the_policys(kit: Kit, waits: Waits):
    worker = await kit.start(shutdown_grace=0.0)
    task_id = await kit.submit("waits", shutdown_grace=3600)
    await waits.started.wait()
    await worker.stop()
    assert (await kit.get(task_id)).state is State.PENDING


async def test_a_run_with_continue_has_no_limit(kit: Kit, waits: Waits):
    worker = await kit.start(shutdown_grace=0.0)
    task_id = await kit.submit("waits", on_shutdown="continue")
    await waits.started.wait()
    worker.begin_stop()
    await asyncio.sleep(0.05)
    waits.go_on.set()
    await worker.stop()
    assert result_of(await kit.get(task_id)) == "finished"


async def test_asked_twice_the_grace_is_over_and_continue_becomes_resubmit(kit: Kit, waits: Waits):
    worker = await kit.start()
    ids = [await kit.submit("waits", on_shutdown=rule) for rule in ("continue", "stop")]
    await until(lambda: waits.begun == len(ids))
    worker.begin_stop()
    worker.begin_stop()
    await worker.stop()
    assert [(await kit.get(i)).state for i in ids] == [State.PENDING, State.STALLED]


async def test_a_thread_is_left_behind_and_its_run_resolved(kit: Kit):
    started, go_on = threading.Event(), threading.Event()

    def deaf() -> None:
        started.set()
        go_on.wait(WAIT)

    kit.add(deaf)
    worker = await kit.start(shutdown_grace=0.0)
    task_id = await kit.submit("deaf")
    assert await asyncio.to_thread(started.wait, WAIT)
    await worker.stop()
    assert (await kit.get(task_id)).state is State.PENDING
    go_on.set()


async def test_a_handler_may_still_complete_or_snooze_when_told_to_stop(kit: Kit):
    started = [asyncio.Event(), asyncio.Event()]

    async def closes(ctx: Context, n: int) -> str:
        started[n].set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if n:
                ctx.snooze(60)
        return "wrapped up"

    kit.add(closes)
    worker = await kit.start(shutdown_grace=0.0)
    one, two = await kit.submit("closes", 0), await kit.submit("closes", 1)
    for event in started:
        await event.wait()
    await worker.stop()
    assert result_of(await kit.get(one)) == "wrapped up"
    assert (await kit.get(two)).state is State.SCHEDULED


async def test_a_cancel_during_the_grace_ends_cancelled(kit: Kit, waits: Waits):
    worker = await kit.start()
    task_id = await kit.submit("waits")
    await waits.started.wait()
    worker.begin_stop()
    await kit.local.cancel([task_id])
    await worker.stop()
    assert (await kit.get(task_id)).status.reason is Reason.CANCEL_REQUESTED


async def test_what_a_claim_under_way_brings_is_handed_back(kit: Kit, waits: Waits):
    held = kit.engine.held["claim"] = asyncio.Event()
    worker = await kit.start()
    task_id = await kit.submit("waits")
    await until(lambda: bool(kit.engine.called("claim")))
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    held.set()
    await stopping
    task = await kit.get(task_id)
    assert (task.state, task.status.tries, waits.started.is_set()) == (State.PENDING, 0, False)


async def test_a_worker_whose_run_is_cancelled_lets_go_of_everything(kit: Kit):
    before = threading.active_count()
    worker = kit.make()
    running = asyncio.create_task(worker.run(signals=False))
    await until(lambda: bool(kit.engine.called("claim")))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert threading.active_count() <= before
    assert await kit.local.workers() == []


async def test_a_worker_that_runs_ends_when_it_is_stopped(kit: Kit):
    worker = kit.make()
    running = asyncio.create_task(worker.run(signals=False))
    await until(lambda: bool(kit.engine.called("claim")))
    await worker.stop()
    await running


async def test_a_worker_that_was_not_started_stops_at_once(kit: Kit):
    await kit.make().stop()


async def test_stopping_twice_is_stopping_once(kit: Kit):
    worker = await kit.start()
    await asyncio.gather(worker.stop(), worker.stop())
    await worker.stop()


async def test_a_worker_that_was_never_needed_starts_and_stops_a_hundred_times(kit: Kit):
    before = threading.active_count()
    for _ in range(100):
        worker = await kit.start()
        await worker.stop()
    assert await kit.local.workers() == []
    assert threading.active_count() <= before


async def test_the_fleet_sees_a_worker_come_turn_quiet_and_go(kit: Kit):
    async def seen(state: str) -> None:
        async with asyncio.timeout(WAIT):
            while [w.state for w in await kit.local.workers()] != [state]:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    worker = await kit.start(id="me")
    await seen("running")
    worker.set_quiet(True)
    await seen("quiet")
    worker.set_quiet(False)
    await seen("running")
    [info] = await kit.local.workers()
    assert (info.id, info.pid, info.queues, info.concurrency) == (
        "me",
        os.getpid(),
        ("default",),
        100,
    )
    await worker.stop()
    assert await kit.local.workers() == []


class Steps:
    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.news = asyncio.Event()

    def begin_stop(self) -> None:
        self._take("stop")

    def set_quiet(self, quiet: bool) -> None:
        self._take("quiet" if quiet else "resume")

    def exit(self, status: int) -> None:
        self._take(status)

    def _take(self, step: Any) -> None:
        self.taken.append(step)
        self.news.set()


async def test_signals_are_steps():
    steps = Steps()
    with Signals(steps, exit_now=steps.exit):
        for number in (
            signal.SIGTSTP,
            signal.SIGCONT,
            signal.SIGTERM,
            signal.SIGINT,
            signal.SIGTERM,
        ):
            steps.news.clear()
            os.kill(os.getpid(), number)
            await asyncio.wait_for(steps.news.wait(), WAIT)
    assert steps.taken == ["quiet", "resume", "stop", "stop", 128 + signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


SCRIPT = """
import asyncio, logging, os, sys, time
from pathlib import Path
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.stores.memory import MemoryStore
from andon.worker.calls import Call
from andon.worker.registry import Registry, TaskType
from andon.worker.config import WorkerConfig
from andon.worker.worker import Worker

def deaf():
    Path(sys.argv[1]).write_text("started")
    time.sleep(600)

async def clings():
    Path(sys.argv[1]).write_text("started")
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue

async def main():
    logging.basicConfig(filename=sys.argv[4], level=logging.INFO)
    engine = LocalEngine(MemoryStore("memory://"))
    await engine.open()
    registry = Registry()
    registry.add(TaskType(name="deaf", handler=deaf, kind="thread", codec=Call(deaf)))
    registry.add(TaskType(name="clings", handler=clings, kind="async", codec=Call(clings)))
    await engine.submit([Submission(id="a", name=sys.argv[3])])
    grace = float(sys.argv[2])
    await Worker(engine, registry, WorkerConfig(shutdown_grace=grace)).run()
    print((await engine.get(["a"]))[0].state)
    await engine.close()

asyncio.run(main())
"""


def has_answered(process: subprocess.Popen[str], log: Path, signals: int) -> bool:
    """Whether the process has said what it does at so many signals, or has ended."""
    return process.poll() is not None or log.read_text().count("SIGTERM") >= signals


@pytest.mark.slow
@pytest.mark.parametrize(
    ("handler", "grace", "signals", "status", "printed"),
    [
        ("deaf", 0, 1, 0, "pending\n"),
        ("deaf", 600, 2, 0, "pending\n"),
        ("clings", 600, 3, 128 + signal.SIGTERM, ""),
    ],
)
def test_a_process_leaves_whatever_its_handlers_do(
    *, tmp_path: Path, handler: str, grace: float, signals: int, status: int, printed: str
):
    ready, log = tmp_path / "ready", tmp_path / "log"
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(ready), str(grace), handler, str(log)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            asyncio.run(written(ready))
            for sent in range(1, signals + 1):
                process.send_signal(signal.SIGTERM)
                # Each is answered before the next: two that are on their way at once are one.
                asyncio.run(until(partial(has_answered, process, log, sent)))
            output, _ = process.communicate(timeout=WAIT)
        finally:
            process.kill()
    assert (process.returncode, output) == (status, printed)


@pytest.mark.parametrize(
    "settings",
    [
        {"concurrency": 0},
        {"per_type": 0},
        {"lease": 0},
        {"lease": float("inf")},
        {"shutdown_grace": -1},
        {"max_payload": 0},
        {"idle_children": -1},
        {"queues": ("a", "a")},
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any]):
    with pytest.raises(ConfigurationError, match="Worker:"):
        WorkerConfig(**settings)


async def test_a_loop_that_fails_is_logged_and_goes_on(kit: Kit, caplog: pytest.LogCaptureFixture):
    async def broken(info: Any) -> None:
        raise RuntimeError("a bug")

    caplog.set_level(logging.ERROR)
    kit.engine.put_worker = broken  # type: ignore[method-assign]
    kit.add(_one)
    await kit.start()
    assert result_of(await kit.run("_one")) == 1
    assert "Presence failed" in caplog.text


async def test_a_description_under_way_does_not_outlive_the_farewell(kit: Kit):
    said: list[str] = []
    begun, gate = asyncio.Event(), asyncio.Event()
    put, remove = kit.engine.put_worker, kit.engine.remove_worker

    async def slow(info: Any) -> None:
        if info.state == "stopping":
            begun.set()
            await gate.wait()
        await put(info)
        said.append(info.state)

    async def gone(worker: str) -> None:
        await remove(worker)
        said.append("gone")

    kit.engine.put_worker = slow  # type: ignore[method-assign]
    kit.engine.remove_worker = gone  # type: ignore[method-assign]
    kit.add(_one)
    worker = await kit.start()
    assert result_of(await kit.run("_one")) == 1
    stopping = asyncio.ensure_future(worker.stop())
    await begun.wait()
    gate.set()
    await stopping
    assert said[-2:] == ["stopping", "gone"]


async def _one() -> int:
    return 1
