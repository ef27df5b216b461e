"""A handler that keeps the event loop to itself is named, with where it is in its code."""

import asyncio
import logging
import threading

import pytest

from andon.worker import blocked_loop
from andon.worker.blocked_loop import BlockedLoopWatch


class Seen(logging.Handler):
    """Lets a test wait for log records."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.come = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self.come.set()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blocked_loop, "LONG_S", 0.05)
    monkeypatch.setattr(blocked_loop, "PAUSE_S", 0.01)
    handler = Seen()
    logging.getLogger("andon.worker").addHandler(handler)
    yield handler
    logging.getLogger("andon.worker").removeHandler(handler)


async def test_a_blocked_loop_is_said_with_the_task_and_its_stack(seen: Seen):
    async def blocks_the_loop() -> None:
        assert seen.come.wait(30), "nothing was said"

    task = asyncio.create_task(blocks_the_loop())
    watch = BlockedLoopWatch(lambda current: "Task 7 (slow)" if current is task else "")
    watch.set_busy(True)
    try:
        await task
    finally:
        watch.stop()
    assert seen.texts[0].startswith("Task 7 (slow) keeps the event loop to itself")
    assert "blocks_the_loop" in seen.texts[0]


async def test_a_loop_that_answers_is_left_alone(seen: Seen):
    watch = BlockedLoopWatch(lambda current: "")
    watch.set_busy(True)
    for _ in range(20):
        await asyncio.sleep(0)
    watch.set_busy(False)
    watch.stop()
    assert seen.texts == []


async def test_stopping_ends_the_thread(seen: Seen):
    before = threading.active_count()
    watch = BlockedLoopWatch(lambda current: "")
    watch.stop()
    watch.stop()
    assert threading.active_count() == before
