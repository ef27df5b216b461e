"""Work in the background that is done in rounds while there is any."""

import asyncio
from collections.abc import Awaitable, Callable, Sized

from andon.model.errors import AndonError


class Rounds:
    """Makes one round after the other until a line is empty."""

    def __init__(self, line: Sized, one_round: Callable[[], Awaitable[None]]) -> None:
        """`one_round` takes something out of the line, and handles what fails alone."""
        self._line = line
        self._one_round = one_round
        self._running: asyncio.Task[None] | None = None

    @property
    def are_running(self) -> bool:
        """Whether a round is being made, or about to be."""
        return self._running is not None

    def start(self) -> None:
        """Something may have been put into the line."""
        if self._line and self._running is None:
            self._running = asyncio.ensure_future(self._run())

    async def drain(self) -> None:
        """Wait until what is in the line is done."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while self._line:
                await self._one_round()
        except (AndonError, OSError):
            # The store is away, and says so wherever somebody waits for it. What is done in rounds
            # is found again by the next look of a timekeeper.
            return
        finally:
            self._running = None
