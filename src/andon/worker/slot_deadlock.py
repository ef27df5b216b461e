"""Detects that all slots of a worker are taken by handlers that wait for other tasks.

A handler that awaits the result of a task keeps its slot meanwhile. When all slots of a worker are
taken so, none of the tasks waited for can run on this worker: if no other one runs them, all wait
for ever. This worker cannot know whether another one will, so it only logs a warning, once each
time it happens.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

from andon.worker.context import Context, TaskWaits, running

logger = logging.getLogger("andon.worker")

X = TypeVar("X")

AFTER_S = 5.0
"""How long all slots are taken by such runs before it is logged: most waits are short."""

_MOST_NAMED = 5


class SlotDeadlockDetector:
    """Logs a warning when every slot of one worker is taken by a run that waits for another task.
    `most` is how many slots it has."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()  # sync handlers wait in threads of their own
        self._waiting: dict[int, tuple[Context, str]] = {}
        self._numbers = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_said = False

    def begin(self, context: Context, task_id: str) -> int:
        """A run waits for this task from now on; the number to `end` it with. From any thread."""
        with self._lock:
            self._numbers += 1
            self._waiting[self._numbers] = (context, task_id)
            number = self._numbers
        self._changed()
        return number

    def end(self, number: int) -> None:
        """It waits no longer."""
        with self._lock:
            self._waiting.pop(number, None)
        self._changed()

    def _changed(self) -> None:
        if len(self._waiting) >= self._most - 1:  # full, or was a moment ago
            with suppress(RuntimeError):  # the worker's loop is closed
                self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        if not self._is_full():
            self._is_said = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None and not self._is_said:
            self._timer = self._loop.call_later(AFTER_S, self._say)

    def _is_full(self) -> bool:
        with self._lock:
            return len({id(context) for context, _ in self._waiting.values()}) >= self._most

    def _say(self) -> None:
        self._timer = None
        if not self._is_full():
            return
        self._is_said = True
        with self._lock:
            waiting = list(self._waiting.values())
        named = [
            f"{context.task_id} ({context.name}) waits for {task_id}"
            for context, task_id in waiting[:_MOST_NAMED]
        ]
        if len(waiting) > len(named):
            named.append(f"and {len(waiting) - len(named)} more")
        logger.warning(
            "No slot is left: all %d runs of this worker wait for other tasks: %s. If no other "
            "worker runs those, all of them wait for ever. Raise the concurrency, submit the tasks "
            "waited for to a queue with a worker of its own, or use depends_on instead of waiting.",
            self._most,
            "; ".join(named),
        )


def awaited_in_run(task_id: str, wait: Awaitable[X]) -> Awaitable[X]:
    """The wait for a task; inside a run, the worker is informed of it."""
    context = running.get(None)
    waits = None if context is None else context.task_waits
    if context is None or waits is None:
        return wait
    return _noted(waits, context, task_id, wait)


async def _noted(waits: TaskWaits, context: Context, task_id: str, wait: Awaitable[X]) -> X:
    number = waits.begin(context, task_id)
    try:
        return await wait
    finally:
        waits.end(number)
