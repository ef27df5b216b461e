"""A server that tests may stop, freeze, fill and kill; none spoils it for those after it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
from servers.postgres import PostgresServer

CONNECTIONS = 12
"""How many such a server takes at once."""

_PATIENCE_S = 60.0

_END_OTHERS = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


@asynccontextmanager
async def connected(server: PostgresServer) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own, let go whatever happens: one that stays takes the place of
    another, and is complained about in the middle of a later test."""
    db = await asyncpg.connect(server.dsn, timeout=_PATIENCE_S)
    try:
        yield db
    finally:
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await db.close(timeout=_PATIENCE_S)


class HurtServers:
    """One server, mended before each test that hurts it, and replaced if that does not help."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self._new_folder = new_folder
        self._server: PostgresServer | None = None

    def healthy(self) -> PostgresServer:
        """A server that answers, takes writes and has nobody connected."""
        if self._server is not None:
            try:
                self._server.mend()
                asyncio.run(_as_new(self._server))
            except (AssertionError, OSError, TimeoutError, asyncpg.PostgresError):
                self.close()
        if self._server is None:
            settings = {"max_connections": str(CONNECTIONS)}
            self._server = PostgresServer(self._new_folder(), settings=settings)
            self._server.start()
        return self._server

    def close(self) -> None:
        """Stop it."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()


async def _as_new(server: PostgresServer) -> None:
    """Take back what a test that was given up left behind: settings and sessions."""
    async with asyncio.timeout(_PATIENCE_S), connected(server) as db:
        await db.execute("SET default_transaction_read_only = off")
        await db.execute("ALTER DATABASE postgres RESET ALL")
        while await db.fetchval(_END_OTHERS):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
