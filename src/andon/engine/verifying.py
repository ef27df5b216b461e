"""Verifies the dependencies of blocked tasks, beside the timers (docs/rulings.md, R8).

This finishes a fan-out that a crash cut short. It is never urgent, and very many tasks may be due
at once; so they wait in a list of bounded length, and no timer waits for them. While this process
is notifying dependents of ends they go on waiting, up to a bound: mostly they are just about to be
notified, and a task that was notified leaves the list.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from random import Random

from andon.contract.limits import MAX_BATCH
from andon.contract.store import Store
from andon.engine.dependencies import Dependencies
from andon.engine.faults import Culprits
from andon.lifecycle.timers import rearm
from andon.model.errors import AndonError
from andon.model.task import Task

log = logging.getLogger("andon.timekeeper")

MOST_WAITING = 2_000
"""How many tasks the list holds; others come again later."""

_LATER_MS = 10_000
"""The shortest time after which tasks that found the list full come again."""

_PATIENCE_S = 5.0
"""How long the list waits for ends whose dependents are being notified: less than the hold of its
timers, so that no other timekeeper takes them meanwhile."""


class Verifying:
    """The list, and the loop that works it off."""

    def __init__(self, store: Store, dependencies: Dependencies, random: Random) -> None:
        self._store = store
        self._dependencies = dependencies
        self._random = random
        self._line: dict[str, Task] = {}
        self._working: asyncio.Task[None] | None = None
        self._culprits = Culprits("Verifying the dependencies of task")
        dependencies.on_moved(self._moved)

    def take(self, tasks: Sequence[Task], now: int) -> list[tuple[str, int | None]]:
        """Put tasks in the list. Returns the timers of those for which there is no place: one time
        for all, as a store may keep them as one timer then."""
        timers: list[tuple[str, int | None]] = []
        later = now + round(_LATER_MS * (1 + self._random.random()))
        for task in tasks:
            if len(self._line) < MOST_WAITING or task.id in self._line:
                self._line[task.id] = task
            else:
                timers.append((task.id, later))
        if self._line and self._working is None:
            self._working = asyncio.ensure_future(self._work())
        return timers

    def _moved(self, task_id: str) -> None:
        """Take out a task that this process has notified: its new record has its own timer."""
        self._line.pop(task_id, None)

    async def done(self) -> None:
        """Wait until the list is empty. Raises the error that ended the work."""
        while self._working is not None:
            await asyncio.shield(self._working)

    async def stop(self) -> None:
        """Drop the list: when their hold has passed, other timekeepers take the timers."""
        self._line.clear()
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            while self._line:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(begun + _PATIENCE_S):
                        await self._dependencies.told()
                batch = list(self._line.values())[:MAX_BATCH]
                if batch:
                    await self._verify(batch)
                for task in batch:
                    self._line.pop(task.id, None)
        except Exception as error:
            # Timers that were held come again when their hold has passed.
            self._line.clear()
            if not isinstance(error, AndonError):
                log.error("Blocked tasks could not be verified.", exc_info=error)
            else:
                log.warning("Blocked tasks wait for the store: %s", error)
        finally:
            self._working = None

    async def _verify(self, batch: Sequence[Task]) -> None:
        await self._dependencies.verify(batch)
        now = self._store.now()
        timers: list[tuple[str, int | None]] = []
        for task in batch:
            try:
                timers.append((task.id, rearm(task, now)))
            except Exception as error:
                later = round(self._culprits.failed(task.id, error) * 1000)
                timers.append((task.id, now + later))
        await self._store.rearm(timers)
