"""One connection: how it is made, and how a statement goes by it."""

from typing import Any

import asyncpg

from andon.coroutines.once_waiting import once_waiting
from andon.stores.awake import awake_at
from andon.stores.postgres.location import Location

CONNECT_S = 5.0
"""Longest that one attempt to connect may take."""

ANSWER_S = 20.0
"""Longest that one statement may take; then its connection is given up."""

AWAKE_S = 0.001
"""How long an answer is waited for awake at the most, in seconds: for a lone create with the flush
of a quick disk."""


class Connection(asyncpg.Connection):
    """The driver's, which also knows whether an answer is better waited for awake."""

    __slots__ = ("awake",)

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        # The driver has no other way to its socket than what it hands to this class.
        transports = [t for t in (*given, *named.values()) if hasattr(t, "get_extra_info")]
        self.awake = awake_at(transports[0], AWAKE_S) if transports else None


async def connect(location: Location, *, application: str) -> Connection:
    """One connection, set up; raises what the driver raises."""
    settings = {"application_name": application, "jit": "off"}
    if location.pgbouncer:
        settings = {}  # a pooler refuses what it does not know
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
    transaction: only there do the driver's messages reach one server. `alone`: nothing else is on
    its way from here, so it may be waited for awake."""
    if location.pgbouncer:
        async with db.transaction():
            if location.synchronous_commit == "off":
                await db.execute("SET LOCAL synchronous_commit = off")
            return await db.fetch(sql, *arguments)
    awake = db.awake
    if not alone or awake is None:
        return await db.fetch(sql, *arguments)
    if not awake.watches:
        awake.wait()
        return await db.fetch(sql, *arguments)
    rows = await once_waiting(db.fetch(sql, *arguments), awake.wait)
    awake.answered()
    return rows
