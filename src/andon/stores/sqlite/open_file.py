"""The open database file: its threads, the hints between processes, the configuration as last read.

Writes go through one thread with group commit, reads through another; the loop never touches the
disk.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from andon.contract.hints import Hub
from andon.contract.topics import Listener
from andon.model.errors import StoreError, StoreUnavailable
from andon.stores.kit.monotone_clock import MonotoneClock
from andon.stores.kit.topics import kind_of
from andon.stores.sqlite import fleet
from andon.stores.sqlite.checkpoint import Checkpointer
from andon.stores.sqlite.connection import WRITER_VERSION, connect, prepare
from andon.stores.sqlite.location import SameFile, parse
from andon.stores.sqlite.lock import WriteLock
from andon.stores.sqlite.statements import LIFE
from andon.stores.sqlite.threads import Reader, Writer
from andon.stores.sqlite.transaction import Memory, Transaction, Unblocked
from andon.stores.sqlite.wake import WakeSocket

if TYPE_CHECKING:
    from types import CoroutineType

Result = TypeVar("Result")


class OpenFile:
    """A SQLite file, opened and closed, and the ways to it. `url` as in
    `andon.stores.sqlite.location`."""

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self.url = url
        self.partitions = 1
        self._location = parse(url)
        self._clock = MonotoneClock(clock)
        self._virtual = clock is not None
        self._hub = Hub()
        self._memory = Memory()
        self._configs: fleet.QueueConfigs = {}
        self._unblocked: Unblocked | None = None
        self._data_version = -1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._checkpointer: Checkpointer | None = None
        self._wake: WakeSocket | None = None
        self._kinds: dict[str, int] = {}

    async def open(self) -> None:
        if self._writer is not None:
            return
        loop = self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._connect)
        with contextlib.suppress(OSError, AttributeError):  # no unix sockets: the slow poll serves
            self._wake = WakeSocket(self._location.path)
            self._wake.listen(self._kinds)
            loop.add_reader(self._wake.receiver, self._hinted_from_outside)

    def _connect(self) -> None:
        path = str(self._location.path)
        lock = WriteLock(self._location.path)
        db = connect(self._location, write=True)
        try:
            self.partitions = prepare(db, self._location, lock)
            self._load_configs(db)
            same_file = SameFile(self._location.path)
            reading = connect(self._location, write=False)
        except BaseException:
            db.close()
            lock.close()
            raise
        self._writer = Writer(
            db,
            lock,
            path,
            same_file=same_file,
            now=self._clock.now,
            begin=self._begin,
            committing=self._committing,
            committed=self._committed,
        )
        self._reader = Reader(reading, path)
        self._checkpointer = Checkpointer(self._location)
        threads = (self._writer, self._reader, self._checkpointer)
        try:
            for thread in threads:
                thread.start()
        except RuntimeError as error:
            self._writer = self._reader = self._checkpointer = None
            for thread in threads:
                thread.give_up()
            raise StoreUnavailable(
                f"There are no threads to be had for {path} ({error}); let the machine give more "
                "(ulimit -u, the container's limit of pids)."
            ) from error

    async def close(self) -> None:
        writer, reader, checkpointer = self._writer, self._reader, self._checkpointer
        self._writer = self._reader = self._checkpointer = None
        if writer is None or reader is None or checkpointer is None:
            return
        self._hub.close()
        wake, loop = self._wake, self._loop
        if wake is not None and loop is not None:
            loop.remove_reader(wake.receiver)

        # The writer last: it closes the log when no other connection is on the file.
        for thread in (checkpointer, reader, writer):
            await thread.finish()
        checkpointer.release()
        if wake is not None:  # after the writer, which hints what it wrote last
            self._wake = None
            wake.close()

    def now(self) -> int:
        return self._clock.now()

    # --- how operations reach the threads ---

    def _write(
        self, operation: Callable[[Transaction], Result]
    ) -> "CoroutineType[Any, Any, Result]":
        if self._writer is None:
            raise StoreUnavailable(f"The store {self.url} is not open.")
        return self._writer.do(operation)

    def _read(self, operation: Callable[[Any], Result]) -> "CoroutineType[Any, Any, Result]":
        if self._reader is None:
            raise StoreUnavailable(f"The store {self.url} is not open.")
        return self._reader.do(operation)

    def _begin(self, db: Any) -> Transaction:
        """In the writer's thread, inside the transaction."""
        # Another process may have changed a queue's limits; SQLite knows whether anything was.
        (version,) = db.execute("PRAGMA data_version").fetchone()
        if version != self._data_version:
            self._load_configs(db)
            self._memory.others_wrote()
            self._data_version = version
        return Transaction(
            db,
            now=self._clock.now(),
            memory=self._memory,
            partitions=self.partitions,
            configs=self._configs,
            unblocked=self._unblocked,
        )

    def _load_configs(self, db: Any) -> None:
        self._configs = fleet.configured(db)
        min_writer, newest_event_at = db.execute(LIFE.what_others_wrote).fetchone()
        if newest_event_at is not None:
            self._clock.catch_up(newest_event_at)
        if min_writer > WRITER_VERSION:
            raise StoreError(
                f"{self._location.path} now holds records of version {min_writer}; this process "
                f"writes {WRITER_VERSION}. Upgrade and restart it."
            )

    def _committing(self, transaction: Transaction) -> None:
        """In the writer's thread, before the commit.

        Other processes are hinted of new work now: a claim waits for the write lock, so it cannot
        come too early, and its process wakes up while this one waits for the disk.
        """
        if transaction.ready and self._wake is not None:
            self._wake.send(transaction.ready)
            transaction.is_ready_told = True

    def _committed(self, transaction: Transaction) -> None:
        """In the writer's thread, after the commit."""
        hints, moved, begun = (
            transaction.hints | transaction.ready,
            transaction.moved,
            transaction.begun,
        )
        if self._loop is not None and (
            not hints.isdisjoint(self._hub.listeners)
            or (moved and "task" in self._kinds)
            or (begun and "run" in self._kinds)
        ):
            with contextlib.suppress(RuntimeError):  # the loop is closing: it has no listener
                self._loop.call_soon_threadsafe(self._hub.hint_all, hints, moved, begun)
        if self._wake is not None:
            others = transaction.hints if transaction.is_ready_told else hints
            self._wake.send(others, moved, begun)
        checkpointer = self._checkpointer  # of the loop's thread, which may be closing the store
        if checkpointer is not None:
            checkpointer.look(len(moved) + len(begun))

    # --- hints ---

    def listen(self, topics: Iterable[str]) -> Listener:
        wanted = list(topics)
        kinds = {kind_of(topic) for topic in wanted}
        self._listening(kinds, 1)
        return self._hub.listen(wanted, on_close=lambda: self._listening(kinds, -1))

    def _hinted_from_outside(self) -> None:
        if self._wake is None:
            return
        if self._wake.kinds != self._kinds.keys():  # no listener is left for its hint
            self._wake.listen(self._kinds)
        hints = self._wake.receive()
        whole = {topic for topic in hints if ":" not in topic}
        if whole:
            hints |= {topic for topic in self._hub.listeners if kind_of(topic) in whole}
        self._hub.hint_all(hints)

    def _listening(self, kinds: Iterable[str], change: int) -> None:
        for kind in kinds:
            count = self._kinds.get(kind, 0) + change
            if count > 0:
                self._kinds[kind] = count
            else:
                self._kinds.pop(kind, None)
        # Others go on sending hints for which nothing listens any more, until one has woken this
        # process for nothing: otherwise a caller that waits for each of its tasks in turn would
        # rename the socket twice for each.
        if self._wake is not None and not self._kinds.keys() <= self._wake.kinds:
            self._wake.listen(self._kinds)
