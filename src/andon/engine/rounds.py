"""Runs background work in rounds while there is any."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sized

from andon.model.errors import AndonError


class Rounds:
    """Runs one round after the other until a list of work is empty."""

    def __init__(
        self, line: Sized, one_round: Callable[[], Awaitable[None]], *, gathers_s: float = 0.0
    ) -> None:
        """`one_round` takes work from the list, and handles what fails alone. `gathers_s`: for how
        long each round gathers work, in seconds, unless somebody waits for it."""
        self._line = line
        self._one_round = one_round
        self._gathers_s = gathers_s
        self._waited_for = asyncio.Event()
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
            self._waited_for.set()
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while self._line:
                if self._gathers_s:
                    await self._gather()
                await self._one_round()
        except (AndonError, OSError):
            # The store is away, and raises so in every call that waits for it. The next look of a
            # timekeeper finds this work again.
            return
        finally:
            self._running = None
            self._waited_for.clear()

    async def _gather(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._gathers_s):
                await self._waited_for.wait()
