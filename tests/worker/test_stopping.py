"""Cancels, timeouts and deadlines: the handler is told, then given its grace, then given up."""

import asyncio
import threading
import time
from typing import Any

import pytest

from andon.model.words import Event, Reason, State
from andon.worker.context import Context

from .kit import WAIT, Kit, error_of, last_run, result_of, until


class Gate:
    """Seen from a handler and from the test."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.go_on = threading.Event()
        self.ended = threading.Event()


async def seen(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, WAIT)


async def test_a_cancelled_async_handler_is_interrupted(kit: Kit):
    gate = Gate()

    async def waits() -> None:
        gate.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            gate.ended.set()

    kit.add(waits)
    await kit.start()
    task_id = await kit.submit("waits")
    await seen(gate.started)
    await kit.local.cancel([task_id])
    task = await kit.end(task_id)
    assert (task.state, task.status.reason) == (State.CANCELLED, Reason.CANCEL_REQUESTED)
    assert gate.ended.is_set()


async def test_a_handler_that_completes_after_a_cancel_has_completed(kit: Kit):
    gate = Gate()

    async def finishes() -> str:
        gate.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return ""

    kit.add(finishes)
    await kit.start()
    task_id = await kit.submit("finishes")
    await seen(gate.started)
    await kit.local.cancel([task_id])
    assert result_of(await kit.end(task_id)) == "done all the same"


async def test_a_thread_sees_that_it_is_cancelled(kit: Kit):
    gate = Gate()

    def loops(ctx: Context) -> None:
        gate.started.set()
        while True:
            ctx.raise_if_cancelled()
            time.sleep(0.001)

    kit.add(loops)
    await kit.start()
    task_id = await kit.submit("loops")
    await seen(gate.started)
    await kit.local.cancel([task_id])
    task = await kit.end(task_id)
    assert (task.state, task.status.reason) == (State.CANCELLED, Reason.CANCEL_REQUESTED)


async def test_a_thread_that_does_not_stop_in_its_grace_is_abandoned(kit: Kit):
    gate = Gate()

    def deaf() -> None:
        gate.started.set()
        gate.go_on.wait(WAIT)

    async def fine() -> int:
        return 1

    kit.add(deaf)
    kit.add(fine)
    await kit.start(concurrency=1)
    task_id = await kit.submit("deaf", cancel_grace=0.05)
    await seen(gate.started)
    await kit.local.cancel([task_id])
    task = await kit.end(task_id)
    assert (task.state, task.status.reason) == (State.CANCELLED, Reason.HANDLER_ABANDONED)
    assert result_of(await kit.run("fine")) == 1  # its slot is free again
    gate.go_on.set()


async def test_an_async_handler_that_swallows_its_cancel_is_abandoned(kit: Kit):
    started, released = asyncio.Event(), asyncio.Event()

    async def deaf() -> None:
        started.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    kit.add(deaf)
    await kit.start()
    task_id = await kit.submit("deaf", cancel_grace=0.05)
    await started.wait()
    await kit.local.cancel([task_id])
    task = await kit.end(task_id)
    assert (task.state, task.status.reason) == (State.CANCELLED, Reason.HANDLER_ABANDONED)
    released.set()


async def test_an_error_after_a_cancel_is_kept_with_the_cancelled_task(kit: Kit):
    started = asyncio.Event()

    async def breaks() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while cleaning up")

    kit.add(breaks)
    await kit.start()
    task_id = await kit.submit("breaks", max_retries=5)
    await started.wait()
    await kit.local.cancel([task_id])
    task = await kit.end(task_id)
    assert error_of(task) == (State.CANCELLED, Reason.CANCEL_REQUESTED, "ValueError")


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_run_that_takes_longer_than_its_timeout_fails(kit: Kit, kind: str):
    async def waits() -> None:
        await asyncio.Event().wait()

    def loops(ctx: Context) -> None:
        while True:
            ctx.raise_if_cancelled()
            time.sleep(0.001)

    kit.add(waits if kind == "async" else loops, name="slow")
    await kit.start()
    task = await kit.run("slow", timeout=0.05)
    assert error_of(task) == (State.FAILED, Reason.TIMEOUT, "TIMEOUT")
    assert task.status.last_error is not None
    assert task.status.last_error.message == "The run took longer than 0.05 s."


async def test_a_thread_that_ignores_its_timeout_is_abandoned_after_its_grace(kit: Kit):
    gate = Gate()
    kit.add(lambda: gate.go_on.wait(WAIT), name="deaf", kind="thread")
    await kit.start()
    task = await kit.run("deaf", timeout=0.02, cancel_grace=0.02)
    assert error_of(task) == (State.FAILED, Reason.TIMEOUT, "TIMEOUT")
    gate.go_on.set()


async def test_a_run_within_its_timeout_is_left_alone(kit: Kit):
    async def quick() -> int:
        return 1

    kit.add(quick)
    await kit.start()
    assert result_of(await kit.run("quick", timeout=5)) == 1


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_timeout_is_as_long_as_it_says_whatever_became_of_the_stores_clock(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, hours: int
):
    async def long(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "in time"

    kit.add(long)
    await kit.start()
    # Claims are stamped by a server whose clock was set, or that replaced another one.
    monkeypatch.setattr(
        kit.engine, "now", lambda: kit.local.now() + hours * 3_600_000, raising=False
    )
    assert result_of(await kit.run("long", 0.3, timeout=WAIT)) == "in time"
    begun = time.monotonic()
    assert error_of(await kit.run("long", WAIT, timeout=0.2))[2] == "TIMEOUT"
    assert time.monotonic() - begun < WAIT


async def test_a_deadline_that_covers_the_task_expires_its_run(kit: Kit):
    async def waits() -> None:
        await asyncio.Event().wait()

    kit.add(waits)
    await kit.start()
    task = await kit.run("waits", deadline_in=0.1)
    assert (task.state, task.status.reason) == (State.EXPIRED, Reason.DEADLINE_EXCEEDED)


async def test_a_deadline_that_covers_the_start_leaves_the_run_alone(kit: Kit):
    async def goes_on(ctx: Context) -> bool:
        deadline = ctx.task.status.deadline
        assert deadline is not None
        await until(lambda: kit.local.now() > deadline + 50)
        return ctx.is_cancelled

    kit.add(goes_on)
    await kit.start()
    task = await kit.run("goes_on", deadline_in=3.0, deadline_covers="start")
    assert result_of(task) is False


async def test_a_deadline_that_passed_before_the_start_expires_without_the_handler(kit: Kit):
    called: list[int] = []

    async def never() -> None:
        called.append(1)

    kit.add(never)
    held = kit.engine.held["dependency_results"] = asyncio.Event()
    await kit.start()
    await kit.run("never", id="parent")
    called.clear()
    task_id = await kit.submit(
        "never", deadline_in=0.1, dependencies=("parent",), load_dependencies=True
    )
    task = await kit.end(task_id)
    held.set()
    assert (task.state, called) == (State.EXPIRED, [])


async def test_an_expiry_that_crosses_a_cancel_ends_cancelled(kit: Kit):
    started = asyncio.Event()

    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    kit.add(waits)
    worker = await kit.start()
    task_id = await kit.submit("waits")
    await started.wait()
    [run] = worker._runs.in_hand.values()
    worker._runs.tell(run, "deadline")  # in the same turn of the loop as the cancel
    await kit.local.cancel([task_id])
    assert (await kit.end(task_id)).state in (State.CANCELLED, State.EXPIRED)


async def test_a_lost_run_is_told_and_reports_nothing(kit: Kit):
    reasons: list[Any] = []
    started = asyncio.Event()

    async def waits(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            reasons.append(ctx.stop_reason)

    kit.add(waits)
    worker = await kit.start()
    task_id = await kit.submit("waits")
    await started.wait()
    await kit.local.cancel([task_id], force=True)
    worker._keeper.ask()
    await worker._runs.wait_empty()
    task = await kit.get(task_id)
    assert (task.state, reasons) == (State.CANCELLED, ["lease-lost"])
    assert last_run(task)[0] is Event.CANCEL
    assert kit.engine.called("report") == []
