"""Runs background work in rounds while there is any."""

import asyncio
from collections.abc import Awaitable, Callable, Sized

from andon.model.errors import AndonError


class Rounds:
    """Runs one round after the other until a list of work is empty."""

    def __init__(self, line: Sized, one_round: Callable[[], Awaitable[None]]) -> None:
        """`one_round` takes work from the list, and handles what fails alone."""
        self._line = line
        self._one_round = one_round
        self._running: asyncio.Task[None] | None = None

    @property
    def are_running(self) -> bool:
        """Whether a round is being made, or about to be."""
        return self._running is not None

    def start(self) -> None:
        """Begin, because work may have been added to the list."""
        if self._line and self._running is None:
            self._running = asyncio.ensure_future(self._run())

    async def drain(self) -> None:
        """Wait until the list is empty."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while self._line:
                await self._one_round()
        except (AndonError, OSError):
            # The store is away, and raises so in every call that waits for it. The next look of a
            # timekeeper finds this work again.
            return
        finally:
            self._running = None
