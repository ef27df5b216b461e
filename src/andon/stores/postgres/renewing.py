"""Renewals that must not need the store's loop: on a connection, a loop and a thread of their own.

A handler that blocks the store's loop must not cost a lease (design 1.3). The thread is made by the
first renewal, so that processes which only submit have none.
"""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

from andon.model.errors import StoreUnavailable
from andon.stores.base import Renewal, task_topic
from andon.stores.postgres.clock import PostgresClock
from andon.stores.postgres.connection import Connection
from andon.stores.postgres.connections import Connections
from andon.stores.postgres.location import Location


async def _trust(_db: Connection) -> None:
    """The store's own connections look whether the schema still is the one that was opened."""


class Renewer:
    """Blocking calls from any thread."""

    def __init__(self, location: Location, sql: str, clock: PostgresClock) -> None:
        self._location = location
        self._sql = sql
        self._clock = clock
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connections: Connections | None = None
        self._closed = False

    def renew(self, instance: str, columns: list[list[Any]]) -> Any:
        """The answer's one row."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable(f"The store {self._location.shown} is not open.")
            if self._loop is None:
                self._start()
        assert self._connections is not None
        rows = self._run(
            self._connections.do(self._sql, self._clock.argument(), instance, *columns)
        )
        self._clock.tell(rows[0]["told"])
        return rows[0]

    def open(self) -> None:
        """Take calls (again)."""
        self._closed = False

    def close(self) -> None:
        """Finish what runs and let the connection go. Blocks."""
        with self._lock:
            self._closed = True
            loop, thread, connections = self._loop, self._thread, self._connections
        if loop is None or thread is None or connections is None:
            return
        self._run(connections.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        self._loop = self._thread = self._connections = None

    def _start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._connections = Connections(self._location, check=_trust)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="andon-renewals", daemon=True
        )
        self._thread.start()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def progressed(renewals: Sequence[Renewal]) -> set[str]:
    """Topics of tasks whose watchers have something to see."""
    return {task_topic(r.task) for r in renewals if r.progress is not None or r.message is not None}


def columns_of(renewals: Sequence[Renewal]) -> list[list[Any]]:
    """Renewals, column by column."""
    return [
        [r.task for r in renewals],
        [r.run for r in renewals],
        [r.lease_ms for r in renewals],
        [r.heartbeat for r in renewals],
        [r.progress for r in renewals],
        [None if r.message is None else r.message.replace("\0", "") for r in renewals],
    ]
