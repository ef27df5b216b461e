"""A small pool of connections, which repeats statements when a connection or the server goes away.

Every operation of the store may be repeated: writes carry write ids, claims tokens, creates ids.
So a statement whose reply was lost is simply sent again, on another connection.
"""

import asyncio
import contextlib
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from andon.contract.isolation import Unwritable
from andon.lifecycle.backoff import ExponentialBackoff
from andon.model.errors import ConfigurationError, StoreError, StoreUnavailable
from andon.stores.postgres.connection import Connection, connect, statement
from andon.stores.postgres.errors import LOST, is_passing, translated
from andon.stores.postgres.location import Location

Result = TypeVar("Result")

PATIENCE_S = 5.0
"""How long an operation is tried again while the server is away, before `StoreUnavailable`."""

LATER_S = 1.0
"""The same when the server has been away for long already, and callers have got that error."""

CLOSE_S = 4.0
"""How long closing waits for statements on their way; then their connections are given up."""

CLOSE_AWAY_S = 0.5
"""The same while no connection can be made."""

_BACKOFF = ExponentialBackoff(0.02, 0.5)
_BACKOFF_REFUSED = ExponentialBackoff(0.02, 2.0)


class Connections:
    """At most `pool` connections. Frequent statements use the connection used last, so that few
    stay busy; all others the one that has been idle for longest. The first call of a function costs
    a session up to ten milliseconds, and a rare statement must not push a claim to a session that
    never claimed."""

    def __init__(
        self, location: Location, *, check: Callable[[Connection], Awaitable[None]]
    ) -> None:
        self._location = location
        self._check = check  # is this still the schema we opened?
        self._idle: deque[Connection] = deque()  # those that have been idle for longest first
        self._busy: set[Connection] = set()
        self._count = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._running: set[asyncio.Future[Any]] = set()
        self._closed = False
        self._end = math.inf  # when closing stops to wait, by the monotonic clock
        self._connecting = asyncio.Lock()
        self._refused: BaseException | None = None  # why the newest attempt to connect failed
        self._away_since: float | None = None
        self._try_at = 0.0  # when the next is made; until then, all callers get the same error
        self._refusals = 0  # in a row, by the server we connect to
        self._rng = random.Random()

    async def once(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Do something with one connection, again on another while the server is away."""
        return await heeding(self._persist(work, often=False))

    async def do(self, sql: str, *arguments: Any, often: bool = False) -> list[Any]:
        """Run a statement to its end even if the caller goes away; its rows."""
        if self._closed:
            raise StoreUnavailable(f"The store {self._location.shown} is not open.")
        return await self._set_off(sql, arguments, often=often)

    def _set_off(
        self, sql: str, arguments: Sequence[Any], *, often: bool
    ) -> asyncio.Future[list[Any]]:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[list[Any]] = loop.create_future()
        task = loop.create_task(self._carry_out(outcome, sql, arguments, often=often))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return outcome

    async def do_here(self, sql: str, *arguments: Any, spin: bool = False) -> list[Any]:
        """The same in the caller's own asyncio task, two turns of the loop less. For calls that are
        rarely cancelled: a cancel gives up the connection too, and the statement begins again on
        another. `spin`: the wait for the answer may spin while no other statement is on its way
        (`kit.spinning`)."""
        if self._closed or not self._idle or self._idle[-1].is_closed():
            return await self.do(sql, *arguments, often=True)
        db = self._idle.pop()
        self._busy.add(db)
        ended = asyncio.get_running_loop().create_future()
        self._running.add(ended)
        try:
            alone = spin and len(self._busy) == 1
            return await statement(self._location, db, sql, *arguments, alone=alone)
        except asyncio.CancelledError:
            db.terminate()
            self._set_off(sql, arguments, often=True)
            raise
        except Exception as error:
            if isinstance(error, LOST):
                db.terminate()
            if self._closed or not is_passing(error):
                raise self._translated(error) from error
        finally:
            self._running.discard(ended)
            ended.cancel()
            self._busy.discard(db)
            self._give(db, often=True)
        return await self.do(sql, *arguments, often=True)

    async def _carry_out(
        self, outcome: asyncio.Future[list[Any]], sql: str, arguments: Sequence[Any], *, often: bool
    ) -> None:
        """Run a statement for the caller that waits for the outcome, if it still does. (A shielded
        future would cost the waiter one more turn of the loop.)"""
        try:
            rows = await self._persist(
                lambda db: statement(self._location, db, sql, *arguments), often=often
            )
        except asyncio.CancelledError:  # by `close`
            if not outcome.done():
                outcome.set_exception(
                    StoreUnavailable(
                        f"{self._location.shown} did not answer before the store was closed."
                    )
                )
            raise
        except Exception as error:
            if not outcome.done():
                outcome.set_exception(error)
                outcome.exception()  # if its waiter was cancelled, nothing else retrieves it
        else:
            if not outcome.done():
                outcome.set_result(rows)

    async def close(self) -> None:
        """Finish the running statements, for a bounded time, then close every connection."""
        self._closed = True
        patience = CLOSE_S if self._away_since is None else CLOSE_AWAY_S
        self._end = time.monotonic() + patience
        if self._running:
            await asyncio.wait(set(self._running), timeout=patience)
        for db in self._busy:
            db.terminate()
        if self._running:
            await asyncio.wait(set(self._running), timeout=CLOSE_AWAY_S)
        while self._running:  # those waiting for a connection
            for task in self._running:
                task.cancel()
            await asyncio.wait(set(self._running))
        idle, self._idle = self._idle, deque()
        await asyncio.gather(*(_close_quietly(db) for db in idle))

    async def _persist(
        self, work: Callable[[Connection], Awaitable[Result]], *, often: bool
    ) -> Result:
        failures = 0
        now = time.monotonic()
        end = now + PATIENCE_S
        if self._away_since is not None:
            end = max(now + min(LATER_S, PATIENCE_S), self._away_since + PATIENCE_S)
        while True:
            try:
                result = await self._once(work, often=often)
            except (StoreError, ConfigurationError):
                raise
            except Exception as error:
                if not is_passing(error):
                    raise self._translated(error) from error
                if time.monotonic() >= min(end, self._end):
                    raise self._translated(error) from error
                failures += 1
                await asyncio.sleep(_BACKOFF.pause(failures, self._rng))
            else:
                return result

    def _translated(self, error: Exception) -> StoreError | ConfigurationError | Unwritable:
        return translated(error, self._location.shown, self._location.namespace)

    async def _once(
        self, work: Callable[[Connection], Awaitable[Result]], *, often: bool
    ) -> Result:
        db = await self._take(often=often)
        self._busy.add(db)
        try:
            return await work(db)
        except LOST:
            db.terminate()
            raise
        finally:
            self._busy.discard(db)
            self._give(db, often=often)

    async def _take(self, *, often: bool) -> Connection:
        while True:
            while self._idle:
                db = self._idle.pop() if often else self._idle.popleft()
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
        async with self._connecting:
            if self._refused is not None and time.monotonic() < self._try_at:
                raise self._refused.with_traceback(None)
            try:
                db = await self._attempt()
            except Exception as error:
                self._refused = error
                self._away_since = self._away_since or time.monotonic()
                self._refusals += 1
                self._try_at = time.monotonic() + _BACKOFF_REFUSED.pause(self._refusals, self._rng)
                raise
            self._refused = self._away_since = None
            self._refusals = 0
            return db

    async def _attempt(self) -> Connection:
        db = await connect(self._location, application="andon")
        try:
            await self._check(db)
        except BaseException:
            await _close_quietly(db)
            raise
        return db

    def _give(self, db: Connection, *, often: bool) -> None:
        if db.is_closed():
            self._count -= 1
        elif often:
            self._idle.append(db)
        else:
            self._idle.appendleft(db)
        self._wake_one()

    def _wake_one(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


async def heeding(work: Awaitable[Result]) -> Result:
    """The same, without ever losing a cancel. The driver waits by `asyncio.wait_for`, which before
    Python 3.12 keeps a cancel for itself when what it waits for is there at that moment: a loop
    that went on then could not be ended any more."""
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    result = await work
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
    return result


async def _close_quietly(db: Connection) -> None:
    with contextlib.suppress(Exception):
        await db.close(timeout=1.0)
