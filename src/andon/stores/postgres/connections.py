"""Connections: a small pool, and what is done when one of them, or the server, goes away.

Every operation of the store may be repeated: writes carry write ids, claims tokens, creates ids.
So a statement whose reply was lost is simply sent again, on another connection.
"""

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from andon.model.errors import ConfigurationError, StoreError, StoreUnavailable
from andon.stores.postgres.errors import LOST, code_of, is_passing, translated
from andon.stores.postgres.location import Location

Result = TypeVar("Result")
Connection = asyncpg.Connection

PATIENCE_S = 5.0
"""How long an operation is tried again while the server is away, before `StoreUnavailable`."""

CONNECT_S = 5.0
"""Longest that one attempt to connect may take."""

ANSWER_S = 20.0
"""Longest that one statement may take; then its connection is given up."""

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5


class Backoff:
    """Growing, jittered pauses until patience ends."""

    def __init__(self, patience: float = PATIENCE_S) -> None:
        self._end = time.monotonic() + patience
        self._pause = _FIRST_PAUSE_S
        self._random = random.Random()

    def next(self) -> float | None:
        """Seconds to wait before the next attempt; None when there is to be none."""
        if time.monotonic() >= self._end:
            return None
        pause = self._random.uniform(self._pause / 2, self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_S)
        return pause


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
    )


async def statement(location: Location, db: Connection, sql: str, *arguments: Any) -> list[Any]:
    """Run one statement on a connection; its rows. Behind a pooler in transaction mode, in a
    transaction: only there do the driver's messages reach one server."""
    if not location.pgbouncer:
        return await db.fetch(sql, *arguments)
    async with db.transaction():
        if location.synchronous_commit == "off":
            await db.execute("SET LOCAL synchronous_commit = off")
        return await db.fetch(sql, *arguments)


class Connections:
    """At most `pool` connections, the one used last first, so that few stay busy."""

    def __init__(
        self, location: Location, *, check: Callable[[Connection], Awaitable[None]]
    ) -> None:
        self._location = location
        self._check = check  # is this still the schema we opened?
        self._idle: list[Connection] = []
        self._count = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False
        self.away_since: float | None = None  #: monotonic; None while the server answers

    async def once(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Do something with one connection, again on another while the server is away."""
        return await self._persist(work)

    async def do(self, sql: str, *arguments: Any) -> list[Any]:
        """Run a statement to its end even if the caller goes away; its rows."""
        if self._closed:
            raise StoreUnavailable(f"The store {self._location.shown} is not open.")
        task = asyncio.ensure_future(
            self._persist(lambda db: statement(self._location, db, sql, *arguments))
        )
        self._running.add(task)
        task.add_done_callback(self._finished)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Finish what runs, then let every connection go."""
        self._closed = True
        if self._running:
            await asyncio.wait(set(self._running))
        idle, self._idle = self._idle, []
        for db in idle:
            await _let_go(db)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may be gone: then nobody asks for it

    async def _persist(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        backoff = Backoff()
        while True:
            try:
                result = await self._once(work)
            except (StoreError, ConfigurationError):
                raise
            except Exception as error:
                if not is_passing(error):
                    raise translated(
                        error, self._location.shown, self._location.namespace
                    ) from error
                if code_of(error)[:2] != "40":
                    self.away_since = self.away_since or time.monotonic()
                pause = backoff.next()
                if pause is None:
                    raise translated(
                        error, self._location.shown, self._location.namespace
                    ) from error
                await asyncio.sleep(pause)
            else:
                self.away_since = None
                return result

    async def _once(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        db = await self._take()
        try:
            return await work(db)
        except LOST:
            db.terminate()
            raise
        finally:
            self._give(db)

    async def _take(self) -> Connection:
        while True:
            while self._idle:
                db = self._idle.pop()
                if not db.is_closed():
                    return db
                self._count -= 1
            if self._count < self._location.pool:
                self._count += 1
                try:
                    return await self._connect()
                except BaseException:
                    self._count -= 1
                    self._wake_one()
                    raise
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    async def _connect(self) -> Connection:
        db = await connect(self._location, application="andon")
        try:
            await self._check(db)
        except BaseException:
            await _let_go(db)
            raise
        return db

    def _give(self, db: Connection) -> None:
        if db.is_closed():
            self._count -= 1
        else:
            self._idle.append(db)
        self._wake_one()

    def _wake_one(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


async def _let_go(db: Connection) -> None:
    with contextlib.suppress(Exception):
        await db.close(timeout=1.0)
