"""Opens a connection, and runs a statement on it."""

from typing import Any

import asyncpg

from andon.coroutines.once_waiting import once_waiting
from andon.stores.kit.receiving import receive_less
from andon.stores.kit.spinning import spinner_on
from andon.stores.postgres.location import Location

CONNECT_S = 5.0
"""Longest that one attempt to connect may take."""

ANSWER_S = 20.0
"""Longest that one statement may take; then its connection is given up."""

SPIN_S = 0.001
"""How long a wait for an answer spins at most, in seconds: a lone create with the flush of a quick
disk takes less."""


class Connection(asyncpg.Connection):
    """The driver's connection, which also knows whether to spin while it waits for an answer."""

    __slots__ = ("spinner",)

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        # The driver gives access to its socket only through this class.
        transports = [t for t in (*given, *named.values()) if hasattr(t, "get_extra_info")]
        self.spinner = spinner_on(transports[0], SPIN_S) if transports else None
        for transport in transports:
            receive_less(transport)


async def connect(location: Location, *, application: str) -> Connection:
    """One connection, set up; raises what the driver raises."""
    settings = {"application_name": application, "jit": "off"}
    if location.pgbouncer:
        settings = {}  # a pooler refuses settings that it does not know
    elif location.synchronous_commit == "off":
        settings["synchronous_commit"] = "off"
    return await asyncpg.connect(
        location.dsn,
        timeout=CONNECT_S,
        command_timeout=ANSWER_S,
        statement_cache_size=0 if location.pgbouncer else 200,
        server_settings=settings,
        connection_class=Connection,
    )


async def statement(
    location: Location, db: Connection, sql: str, *arguments: Any, alone: bool = False
) -> list[Any]:
    """Run one statement on a connection; its rows. Behind a pooler in transaction mode, in a
    transaction: only there do the driver's messages reach one server. `alone`: no other statement
    is on its way from here, so the wait may spin."""
    if location.pgbouncer:
        async with db.transaction():
            if location.synchronous_commit == "off":
                await db.execute("SET LOCAL synchronous_commit = off")
            return await db.fetch(sql, *arguments)
    spinner = db.spinner
    if not alone or spinner is None:
        return await db.fetch(sql, *arguments)
    if not spinner.watches:
        spinner.wait()
        return await db.fetch(sql, *arguments)
    rows = await once_waiting(db.fetch(sql, *arguments), spinner.wait)
    spinner.answered()
    return rows
