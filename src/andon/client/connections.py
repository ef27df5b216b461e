"""The engines of one application, one per event loop.

An engine belongs to the loop it was opened in. The first use in a loop opens one, and the loop's
own shutdown closes it, so that a script that only submits needs neither `open` nor `close`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from andon.coroutines.shared_future import shared
from andon.model.errors import ConfigurationError
from andon.model.fleet import TypeInfo

if TYPE_CHECKING:
    from andon.engine.base import Engine


class _Connection(msgspec.Struct, eq=False):
    engine: "Engine"
    opening: "asyncio.Task[None] | None" = None
    guard: AsyncGenerator[None, None] | None = None
    ready: bool = False


class Connections:
    """Opens engines with `make` and keeps them by loop.

    `shared` is False where two engines would not see one another's tasks (a store in memory):
    then a second loop is refused while the first is in use.
    """

    def __init__(self, make: "Callable[[], Engine]", *, shared: bool) -> None:
        self._make = make
        self._shared = shared
        self._by_loop: dict[asyncio.AbstractEventLoop, _Connection] = {}
        self._home: asyncio.AbstractEventLoop | None = None

    @property
    def home(self) -> asyncio.AbstractEventLoop | None:
        """The one loop that may be used, where there is only one."""
        return None if self._home is None or self._home.is_closed() else self._home

    def tell_types(self, types: Sequence[TypeInfo]) -> None:
        """Let engines that are open know task types that were registered later."""
        for connection in self._by_loop.values():
            connection.engine.know_types(types)

    def at_hand(self) -> "Engine | None":
        """The running loop's engine, if it is open, so that a submit need not await it."""
        connection = self._by_loop.get(asyncio.get_running_loop())
        return connection.engine if connection is not None and connection.ready else None

    async def engine(self) -> "Engine":
        """The open engine of the running loop.

        Raises `ConfigurationError` when another loop holds a store that cannot be shared, and
        whatever opening the store raises; the next call tries again.
        """
        at_hand = self.at_hand()
        if at_hand is not None:
            return at_hand
        loop = asyncio.get_running_loop()
        connection = self._by_loop.get(loop) or self._connect(loop)
        opening = connection.opening
        if opening is None:
            opening = connection.opening = loop.create_task(self._open(loop, connection))
        await shared(opening)
        return connection.engine

    def _connect(self, loop: asyncio.AbstractEventLoop) -> _Connection:
        for ended in [known for known in self._by_loop if known.is_closed()]:
            del self._by_loop[ended]
        if self.home is not None and self.home is not loop:
            raise ConfigurationError(
                "The tasks of this application live in the memory of another event loop. "
                "Use it from that loop, call app.sync from another thread, or use sqlite:///…"
            )
        connection = self._by_loop[loop] = _Connection(self._make())
        if not self._shared:
            self._home = loop
        return connection

    async def _open(self, loop: asyncio.AbstractEventLoop, connection: _Connection) -> None:
        try:
            await connection.engine.open()
        except BaseException:
            self._forget(loop, connection)
            raise
        connection.guard = self._until_loop_ends(connection.engine)
        await connection.guard.__anext__()
        connection.ready = True

    @staticmethod
    async def _until_loop_ends(engine: "Engine") -> AsyncGenerator[None, None]:
        # asyncio finishes every open async generator before it closes a loop, and lets it await.
        try:
            yield
        finally:
            await engine.close()

    def use(self, engine: "Engine") -> Callable[[], None]:
        """Use this engine, which is open, in the running loop, and refuse every other loop.

        Returns what puts everything back as it was.
        """
        loop = asyncio.get_running_loop()
        before, home = self._by_loop, self._home
        self._by_loop, self._home = {loop: _Connection(engine, ready=True)}, loop

        def put_back() -> None:
            self._by_loop, self._home = before, home

        return put_back

    async def close(self) -> None:
        """Flush and close the running loop's engine. Idempotent."""
        loop = asyncio.get_running_loop()
        connection = self._by_loop.get(loop)
        if connection is None or connection.opening is None:
            return
        await asyncio.wait([connection.opening])
        self._forget(loop, connection)
        if connection.guard is not None:
            await connection.guard.aclose()

    def _forget(self, loop: asyncio.AbstractEventLoop, connection: _Connection) -> None:
        if self._by_loop.get(loop) is connection:
            del self._by_loop[loop]
        if self._home is loop:
            self._home = None
