"""Whoever watches what becomes of a store while others on it are killed."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from servers import may_repeat

from andon.contract.store import Store
from andon.testing.ledger import Ledger

if TYPE_CHECKING:
    from andon.model.task import TaskEvent

STORM_S = float(os.environ.get("ANDON_CRASH_SECONDS", "5"))
"""How long others are killed, at least."""

PATIENCE_S = 60.0


class Watcher:
    """Follows the log from its first event, and holds it to the table as it comes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ledger = Ledger(may_repeat=may_repeat(store.url))
        self.events: list[TaskEvent] = []
        self._known: set[TaskEvent] = set()
        self._cursor = ""

    async def look(self) -> None:
        """Read all that is new; raises at the first event that cannot be."""
        while True:
            page = await self.store.events(self._cursor)
            assert not page.gap
            self._cursor = page.cursor
            self.ledger.read(page.events)
            self.events += [event for event in page.events if event not in self._known]
            if may_repeat(self.store.url):
                self._known.update(page.events)
            if not page.events:
                return

    async def follow(self, seconds: float) -> None:
        """Look for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await self.look()
            await asyncio.sleep(0.02)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Follow until that holds."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end, "waited in vain"
            await self.follow(0.02)

    async def until_resolved(self, count: int) -> None:
        """Follow until so many tasks were seen and all of them have ended. The patience is with
        each move: on a busy machine many may be left."""
        seen, end = 0, time.monotonic() + PATIENCE_S
        while len(self.ledger.tasks) < count or self.ledger.unresolved():
            if len(self.events) > seen:
                seen, end = len(self.events), time.monotonic() + PATIENCE_S
            assert time.monotonic() < end, (
                len(self.ledger.tasks),
                count,
                self.ledger.unresolved(),
            )
            await self.follow(0.05)
