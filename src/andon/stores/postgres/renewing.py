"""Renewals from a thread that is not the loop's: on a connection, and a loop, of their own.

A handler that blocks the store's loop must not cost a lease (design 1.3). The loop here runs only
while somebody renews, in the thread of whoever does.
"""

import asyncio
import threading
from typing import Any

from andon.model.errors import StoreUnavailable
from andon.stores.postgres.connections import Connections
from andon.stores.postgres.location import Location
from andon.stores.postgres.times import ServerTime


async def _trust(_db: Any) -> None:
    """The store's own connections look whether the schema still is the one that was opened."""


class Renewer:
    """Made without a connection; the first renewal makes it."""

    def __init__(self, location: Location, sql: str, clock: ServerTime) -> None:
        self._location = location
        self._sql = sql
        self._clock = clock
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: Connections | None = None
        self._closed = False

    def renew(self, instance: str, columns: list[list[Any]]) -> Any:
        """The answer's one row. Blocks; from any thread, one at a time."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable(f"The store {self._location.shown} is closed.")
            if self._loop is None or self._connections is None:
                self._loop = asyncio.new_event_loop()
                self._connections = Connections(self._location, check=_trust)
            rows = self._loop.run_until_complete(
                self._connections.do(self._sql, self._clock.argument(), instance, *columns)
            )
        self._clock.told(rows[0]["told"])
        return rows[0]

    def close(self) -> None:
        """Let the connection go. Blocks."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
            if loop is None or self._connections is None:
                return
            loop.run_until_complete(self._connections.close())
            loop.close()
