"""Renewals without the store's event loop: on a loop and a connection of their own."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from andon.contract.requests import Renewal
from andon.contract.topics import run_topic
from andon.stores.kit.loop_thread import LoopThread
from andon.stores.postgres.clock import PostgresClock
from andon.stores.postgres.connection import Connection
from andon.stores.postgres.connections import Connections
from andon.stores.postgres.location import Location


async def _trust(_db: Connection) -> None:
    """The store's own connections check that the schema still is the one that was opened; this one
    does not."""


class Renewer:
    """Blocking calls from any thread."""

    def __init__(self, location: Location, sql: str, clock: PostgresClock) -> None:
        self._location = location
        self._sql = sql
        self._clock = clock
        self._connections: Connections | None = None
        self.open()

    def open(self) -> None:
        """Accept calls (again)."""
        self._thread = LoopThread("andon-renewals", self._location.shown)

    def renew(self, instance: str, columns: list[list[Any]]) -> Any:
        """The answer's one row."""
        return self._thread.run(partial(self._renew, instance, columns))

    async def _renew(self, instance: str, columns: list[list[Any]]) -> Any:
        if self._connections is None:
            self._connections = Connections(self._location, check=_trust)
        rows = await self._connections.do(self._sql, self._clock.argument(), instance, *columns)
        self._clock.tell(rows[0]["told"])
        return rows[0]

    def close(self) -> None:
        """Finish the running calls and close the connection. Blocks."""
        self._thread.close(self._disconnect)

    async def _disconnect(self) -> None:
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.close()


def progressed(renewals: Sequence[Renewal]) -> set[str]:
    """Topics of tasks whose watchers have something new to read."""
    return {run_topic(r.task) for r in renewals if r.progress is not None or r.message is not None}


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
