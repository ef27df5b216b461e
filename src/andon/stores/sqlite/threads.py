"""The two threads of the store: one writes, one reads. Each takes operations from a queue.

An operation is a function of a connection (or transaction). The writer runs all that wait in one
transaction with one commit (group commit), so under load many callers share one flush to disk, and
at rest a single operation does not wait. If one of them fails, the transaction is rolled back and
they are run again one by one, so that each fails alone.
"""

import asyncio
import contextlib
import logging
import queue
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from andon.lifecycle.backoff import ExponentialBackoff
from andon.model.errors import StoreUnavailable
from andon.stores.sqlite.errors import is_passing, translated
from andon.stores.sqlite.location import SameFile
from andon.stores.sqlite.lock import WriteLock
from andon.stores.sqlite.transaction import Transaction

log = logging.getLogger("andon.sqlite")

Result = TypeVar("Result")

MOST_PER_COMMIT = 64
"""Operations in one transaction at the most; others should not wait for longer ones."""

LONGEST_SNAPSHOT_S = 0.01
"""After so long the reader begins a new snapshot, whatever waits."""

PATIENCE_S = 15.0
"""How long a temporary error (locked, full, I/O) is retried before the caller gets it."""

_BACKOFF = ExponentialBackoff(0.02, 1.0)


class Call(msgspec.Struct, eq=False):
    """One operation waiting for its thread; resolved in the loop it came from, or as a future."""

    run: Callable[[Any], Any]
    future: "asyncio.Future[Any] | Future[Any]"
    loop: asyncio.AbstractEventLoop | None
    result: Any = None
    error: BaseException | None = None


class Ended:
    """Notifies a loop that a thread has ended. Needs no other thread, so it works at exit too."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()

    def set(self) -> None:
        """Called in the thread, last of all."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has no waiter
            self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        """Wait until the thread has ended."""
        await self._future


class OperationThread(threading.Thread):
    """Takes operations in order. Subclasses say how a group of them is run."""

    def __init__(self, name: str, db: sqlite3.Connection, path: str) -> None:
        super().__init__(name=name, daemon=True)
        self._db = db
        self._path = path
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._closed = False
        self._finishing = False
        self._ended: Ended | None = None

    async def do(self, operation: Callable[[Any], Result]) -> Result:
        """Run an operation; wait for its result in this loop."""
        if self._closed:
            raise self._closed_error()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._calls.put(Call(operation, future, loop))
        return await future

    def do_blocking(self, operation: Callable[[Any], Result]) -> Result:
        """Run an operation from any other thread; blocks."""
        if self._closed:
            raise self._closed_error()
        future: Future[Result] = Future()
        self._calls.put(Call(operation, future, None))
        return future.result()

    async def finish(self) -> None:
        """Run what was handed over, close the connection, end the thread."""
        self._closed = True
        ended = Ended()
        self._ended = ended
        self._calls.put(None)
        await ended.wait()

    def give_up(self) -> None:
        """Close the connection without waiting for it, begun or not."""
        if self.ident is None:
            self._db.close()
            self._close()
        else:
            self._calls.put(None)

    def run(self) -> None:
        """Take groups of operations until told to finish."""
        while not self._finishing:
            first = self._calls.get()
            if first is None:
                break
            group = [first]
            if not self._calls.empty():
                self._add_waiting(group)
            try:
                self._run_group(group)
            except Exception as error:  # no caller is to wait for ever
                log.exception("%s: operations failed together", self.name)
                for call in group:
                    call.error = call.error or error
            self._settle(group)
        self._db.close()
        self._close()
        if self._ended is not None:
            self._ended.set()

    def _add_waiting(self, group: list[Call]) -> None:
        """Let the operations that wait by now join the group, as far as it may grow."""
        calls = self._calls  # only this thread takes from it
        while not (calls.empty() or self._finishing) and len(group) < MOST_PER_COMMIT:
            call = calls.get_nowait()
            if call is None:
                self._finishing = True
            else:
                group.append(call)

    def _run_group(self, group: list[Call]) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        """Release the other resources of the thread."""

    def _settle(self, group: list[Call]) -> None:
        """Give the callers the outcomes of their operations."""
        if len(group) == 1:
            _tell_in(group[0].loop, group)
            return
        by_loop: dict[asyncio.AbstractEventLoop | None, list[Call]] = {}
        for call in group:
            by_loop.setdefault(call.loop, []).append(call)
        for loop, calls in by_loop.items():
            _tell_in(loop, calls)

    def _closed_error(self) -> StoreUnavailable:
        return StoreUnavailable(f"The store {self._path} is closed.")


def _tell_in(loop: asyncio.AbstractEventLoop | None, calls: list[Call]) -> None:
    """Resolve the calls in their callers' loop, if they have one."""
    if loop is None:
        _tell(calls)
        return
    try:
        loop.call_soon_threadsafe(_tell, calls)
    except RuntimeError:  # it is closed, and has no waiters any more
        return


def _tell(calls: list[Call]) -> None:
    """Resolve the calls. A cancelled call gets nothing."""
    for call in calls:
        if call.future.done():
            continue
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.result)


class Writer(OperationThread):
    """Owns the writing connection.

    In this thread, `committing` is called with each transaction before it commits, while other
    processes' writers wait, and `committed` after its callers got their outcomes.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        lock: WriteLock,
        path: str,
        *,
        same_file: SameFile,
        now: Callable[[], int],
        begin: Callable[[sqlite3.Connection], Transaction],
        committing: Callable[[Transaction], None],
        committed: Callable[[Transaction], None],
    ) -> None:
        super().__init__("andon-sqlite-writer", db, path)
        self._lock = lock
        self._rng = random.Random()
        self._same_file = same_file
        self._now = now
        self._begin = begin
        self._committing = committing
        self._committed = committed
        self._to_tell: list[Transaction] = []

    def _run_group(self, group: list[Call]) -> None:
        try:
            self._transact(group, joining=True)
            return
        except Exception as error:  # nothing was written
            if len(group) > 1:
                log.debug("a group of %d is run one by one: %s", len(group), error)
        for call in group:
            self._alone(call)

    def _alone(self, call: Call) -> None:
        deadline = time.monotonic() + PATIENCE_S
        failures = 0
        while True:
            try:
                self._transact([call])
            except sqlite3.Error as error:
                if is_passing(error) and time.monotonic() < deadline:
                    failures += 1
                    time.sleep(_BACKOFF.pause(failures, self._rng))
                    continue
                call.error = translated(error, self._path)
            except Exception as error:
                call.error = error
            return

    def _settle(self, group: list[Call]) -> None:
        super()._settle(group)
        done, self._to_tell = self._to_tell, []
        for transaction in done:
            try:
                self._committed(transaction)
            except Exception:  # the commit stands; listeners look again by themselves
                log.exception("%s: hints were not given", self.name)

    def _close(self) -> None:
        self._lock.close()

    def _transact(self, group: list[Call], *, joining: bool = False) -> None:
        """Run a group in one transaction. `joining`: operations that arrived meanwhile join it."""
        with self._lock:
            self._same_file.check()
            self._db.execute("BEGIN IMMEDIATE")
            transaction: Transaction | None = None
            try:
                transaction = self._begin(self._db)
                for call in group:
                    call.result = call.run(transaction)
                if joining and not self._calls.empty():
                    first = len(group)
                    self._add_waiting(group)
                    # Their moves were decided since the last time: a claim now must not be dated
                    # before them.
                    transaction.now = self._now()
                    for call in group[first:]:
                        call.result = call.run(transaction)
                transaction.finish()
                try:
                    self._committing(transaction)
                except Exception:
                    log.exception("%s: early hints were not given", self.name)
                self._db.execute("COMMIT")
            except BaseException:
                if transaction is not None:
                    transaction.memory.forget()
                with contextlib.suppress(sqlite3.Error):
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                raise
            self._same_file.check()  # a write to a deleted file must not be reported as done
        self._to_tell.append(transaction)


class Reader(OperationThread):
    """Owns the reading connection. Operations that wait together see one snapshot, for up to
    `LONGEST_SNAPSHOT_S`: while it lasts, the log cannot begin anew."""

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        super().__init__("andon-sqlite-reader", db, path)

    def _run_group(self, group: list[Call]) -> None:
        left = iter(group)
        for call in left:
            try:
                self._db.execute("BEGIN")
                end = time.monotonic() + LONGEST_SNAPSHOT_S
                self._run(call)
                while time.monotonic() < end and (following := next(left, None)) is not None:
                    self._run(following)
            except sqlite3.Error as error:
                call.error = translated(error, self._path)
            finally:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("COMMIT")

    def _run(self, call: Call) -> None:
        try:
            call.result = call.run(self._db)
        except sqlite3.Error as error:
            call.error = translated(error, self._path)
        except Exception as error:
            call.error = error
