"""Notifies readers of messages that the event log may have more: one listener and one slow poll for
all readers of a process, so that a waiting reader costs nothing."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Generator
from typing import TYPE_CHECKING

from andon.contract.topics import EVENTS_TOPIC
from andon.lifecycle.backoff import ExponentialBackoff
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.errors import AndonError

if TYPE_CHECKING:
    from andon.engine.local import LocalEngine

log = logging.getLogger("andon.service")

_PAUSES = ExponentialBackoff(0.5, SLOW_POLL_S)


class Changes:
    """The changes of one store's log, for which readers wait."""

    def __init__(self, engine: "LocalEngine") -> None:
        self._engine = engine
        self._readers = 0
        self._watching: asyncio.Task[None] | None = None
        self._changed: asyncio.Event = asyncio.Event()
        self.seen = 0
        """Grows with each change: a reader that took it before reading has read that change."""

    @contextlib.contextmanager
    def watched(self) -> Generator[None]:
        """Watch the log for as long as the block lasts."""
        self._readers += 1
        if self._watching is None:
            self._watching = asyncio.ensure_future(self._watch())
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                self._stop()

    def _stop(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()

    async def after(self, seen: int, timeout: float | None = None) -> bool:
        """Wait for a change after one (True), or for so many seconds (False)."""
        if self.seen == seen:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
        return self.seen != seen

    def tell(self) -> None:
        """Note that there is more, where no hint comes."""
        self._tell()

    def _tell(self) -> None:
        self.seen += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def _watch(self) -> None:
        rng = random.Random()
        failures = 0
        while True:
            try:
                with self._engine.listen([EVENTS_TOPIC]) as hints:
                    self._tell()  # of what came before there was a listener
                    news = await self._engine.group_news.end()
                    cursor = ""  # of the end of the log, once it was quiet for a while
                    while True:
                        if await hints.wait(SLOW_POLL_S * (0.5 + rng.random())):
                            self._tell()
                            cursor = ""
                        elif (newest := await self._engine.group_news.end()) != news:
                            self._tell()  # another process wrote it: there is no hint of notes
                            news = newest
                        elif not cursor:
                            cursor = await self._engine.events_end()
                            self._tell()
                        elif (await self._engine.events(cursor, 1)).events:
                            self._tell()  # the hint was lost
                            cursor = ""
                        failures = 0
            except (AndonError, OSError):
                pass  # readers raise it: they are woken, and meet the same error
            except Exception:
                log.exception("The event log cannot be watched for messages.")
            self._tell()
            failures += 1
            await asyncio.sleep(_PAUSES.pause(failures, rng))
