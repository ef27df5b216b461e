"""Shared by the parts of one store: its statements, how they are sent, and what every answer
carries besides (the time, the newest event, which processes are asleep)."""

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from andon.contract.hints import Hub
from andon.contract.topics import ready_topic
from andon.model.errors import StoreUnavailable
from andon.stores.postgres.clock import PostgresClock
from andon.stores.postgres.location import Location
from andon.stores.postgres.names import Names
from andon.stores.postgres.statements import Statements
from andon.stores.postgres.wake import Wake

if TYPE_CHECKING:
    from andon.stores.postgres.connections import Connections


class Server:
    """The database as one store instance sees it; `connections` while the store is open."""

    def __init__(self, location: Location, clock: PostgresClock) -> None:
        self.location = location
        self.clock = clock
        self.instance = secrets.token_hex(8)
        self.calls = Statements("calls", location.namespace)
        self.sql = Statements("reading", location.namespace)
        self.hub = Hub()
        self.names = Names(self.run, self.calls)
        self.wake = Wake(
            location, self.instance, self.hub, run=self.run, calls=self.calls, clock=clock
        )
        self.connections: Connections | None = None

    async def run(self, sql: str, *arguments: Any, often: bool = False) -> list[Any]:
        """Rows of a statement that only reads. `often`: see `Connections`."""
        if self.connections is None:
            raise StoreUnavailable(f"The store {self.location.shown} is not open.")
        return await self.connections.do(sql, *arguments, often=often)

    async def write(self, sql: str, *arguments: Any, often: bool = False) -> list[Any]:
        """Rows of a statement that may write, and so counts as on its way."""
        self.wake.in_flight += 1
        try:
            return await self.run(sql, *arguments, often=often)
        finally:
            self.wake.in_flight -= 1

    async def call(self, sql: str, *arguments: Any) -> Any:
        """The row of a call that also returns the time, the position of the newest event, and which
        processes are asleep."""
        rows = await self.write(sql, self.clock.argument(), self.instance, *arguments, often=True)
        row = rows[0]
        self._heard(row["told"], row.get("pos"))
        return row

    async def call_for_one(self, sql: str, *arguments: Any) -> tuple[list[str] | None, bool]:
        """Which processes are asleep, and whether the call was carried out, from a call whose row
        comes as one value. (A row of columns costs the server a table, which it makes and
        reads.)"""
        rows = await self.write_here(
            sql, self.clock.argument(), self.instance, *arguments, spin=True
        )
        told, pos, wanted, done = rows[0][0]
        self._heard(told, pos)
        return wanted, bool(done)

    async def write_here(self, sql: str, *arguments: Any, spin: bool = False) -> list[Any]:
        """Rows of a statement that may write, sent before anything else happens in this task."""
        connections = self.connections
        if connections is None:
            raise StoreUnavailable(f"The store {self.location.shown} is not open.")
        self.wake.in_flight += 1
        try:
            return await connections.do_here(sql, *arguments, spin=spin)
        finally:
            self.wake.in_flight -= 1

    def _heard(self, told: int, pos: int | None) -> None:
        self.clock.tell(told)
        if pos is not None and pos > self.wake.newest_own:
            self.wake.newest_own = pos

    async def tell(self, topics: set[str], row: Any, tasks: Sequence[str] = ()) -> None:
        """Send hints of what such a call did, and to the waiters for these tasks."""
        if row["promoted"]:
            topics |= {ready_topic(name) for name in await self.names.named(row["promoted"])}
        self.wake.tell(topics, row["wanted"], tasks)

    async def set_aside(self, broken: list[int]) -> None:
        """Take records that do not decode out of every index (docs/rulings.md, R28)."""
        if broken:
            await self.run(self.calls.set_aside, broken, self.clock.argument())
