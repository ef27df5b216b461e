"""The embedded store: one file, any number of processes on one machine.

An outcome is returned only when it is on disk: `synchronous=full` flushes the log before an outcome
is given (so it survives a power cut), `normal` does not wait for the flush (it survives a crash of
the process, not of the machine).
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.contract.isolation import AT_FAULT, each_alone, each_alone_blocking
from andon.contract.notes import Note, NoteName, NotePut, PutNote
from andon.contract.outcomes import Changed, ChangeKind, Created, Due, Verdict
from andon.contract.queries import EventPage, History, Page, Query, ReadyKind
from andon.contract.refusals import (
    change_refused,
    create_refused,
    edge_refused,
    link_refused,
    note_refused,
    renewal_refused,
    settlement_refused,
    timer_refused,
    type_refused,
)
from andon.contract.requests import Change, ClaimRequest, NotedTask, Renewal, Snapshot
from andon.contract.topics import ready_topic
from andon.lifecycle.constants import JUMP_MS, LEASE_PATIENCE_MS, SLOW_POLL_S, SUBMIT_WINDOW_MS
from andon.lifecycle.discarded import Discarded
from andon.model.errors import StoreUnavailable
from andon.model.fleet import QueueConfig, QueueStats, StoreInfo, Tallied, TypeInfo, WorkerInfo
from andon.model.task import RECORD_VERSION, Task, Tombstone
from andon.model.words import State
from andon.stores.kit.known_codes import KnownCodes
from andon.stores.kit.partitions import partition_of
from andon.stores.sqlite import (
    claiming,
    committing,
    creating,
    daily,
    dependencies,
    fleet,
    notes,
    placing,
    reading,
    restoring,
    timing,
)
from andon.stores.sqlite.connection import SCHEMA_VERSION
from andon.stores.sqlite.open_file import OpenFile
from andon.stores.sqlite.renewing import renew
from andon.stores.sqlite.statements import CONFIG, LANES, READING
from andon.stores.sqlite.transaction import Transaction, Unblocked

if TYPE_CHECKING:
    from types import CoroutineType


class SqliteStore(OpenFile):
    """A `Store` in a SQLite file. `url` as in `andon.stores.sqlite.location`."""

    slack_ms = 50
    in_flight = 1
    creates_in_flight = 1
    claims_ahead = False

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        super().__init__(url, clock=clock)
        self._codes = KnownCodes()
        self._held: dict[str, int] = {}
        self._leases_wait_until = 0
        self._unsettled_after = ""

    def partition_of(self, task_id: str) -> int:
        return partition_of(task_id, self.partitions)

    # --- the life of a task ---

    def create(self, tasks: Sequence[Task]) -> "CoroutineType[Any, Any, list[Created]]":
        return each_alone(self._create, tasks, create_refused)

    def _create(self, tasks: Sequence[Task]) -> Awaitable[list[Created]]:
        prepared = creating.prepare(tasks, self.partitions)
        return self._write(lambda tx: creating.create(tx, prepared))

    def create_together(self, tasks: Sequence[Task]) -> Awaitable[bool]:
        prepared = creating.prepare(tasks, self.partitions)
        return self._write(lambda tx: creating.create_together(tx, prepared))

    def create_with_notes(
        self, noted: Sequence[NotedTask]
    ) -> "CoroutineType[Any, Any, list[Created]]":
        return each_alone(self._create_with_notes, noted, create_refused)

    def _create_with_notes(self, noted: Sequence[NotedTask]) -> Awaitable[list[Created]]:
        prepared = creating.prepare([one.task for one in noted], self.partitions)
        puts = [one.note for one in noted]
        return self._write(lambda tx: creating.create_with_notes(tx, puts, prepared))

    async def claim(self, request: ClaimRequest) -> list[Task]:
        # If the caller goes away meanwhile, the tasks it was given are found again under its token,
        # or their leases run out; nothing is lost (docs/store-contract.md, 4).
        claimed = await self._write(lambda tx: claiming.claim(tx, request, self._codes))
        if len(claimed) < request.limit:
            self._hint_when_rate_allows(request)
        return claimed

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        async def some(renewals: Sequence[Renewal]) -> list[Verdict]:
            return await self._write(lambda tx: renew(tx, renewals))

        return await each_alone(some, renewals, renewal_refused)

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        writer = self._writer
        if writer is None:
            raise StoreUnavailable(f"The store {self.url} is closed.")

        def some(renewals: Sequence[Renewal]) -> list[Verdict]:
            return writer.do_blocking(lambda tx: renew(tx, renewals))

        return each_alone_blocking(some, renewals, renewal_refused)

    async def commit(self, changes: Sequence[Change]) -> list[Changed]:
        outcomes = await each_alone(self._commit, changes, change_refused)
        if self._held:  # a task that has moved has a timer of its own, and is not rearmed
            for change, outcome in zip(changes, outcomes, strict=True):
                if outcome.kind is ChangeKind.APPLIED:
                    self._held.pop(change.before.id, None)
        return outcomes

    async def _commit(self, changes: Sequence[Change]) -> list[Changed]:
        prepared = committing.prepare(changes)
        try:
            return await self._write(lambda tx: committing.commit(tx, prepared))
        except AT_FAULT:
            # A dependent that would have been unblocked may be what cannot be written.
            return await self._write(lambda tx: committing.commit_without_settling(tx, prepared))

    async def take_due(self, partition: int, limit: int, hold_ms: int) -> Due:
        if not self._virtual and self._clock.jumped() > JUMP_MS:
            self._leases_wait_until = self.now() + LEASE_PATIENCE_MS
        wait_until = self._leases_wait_until
        # A read first: most of the time nothing is due, and reading takes no write lock.
        now = self.now()
        first = await self._read(lambda db: timing.first_timer(db, partition))
        if first is None or first > now:
            return Due((), now, first)
        due, held = await self._write(
            lambda tx: timing.take_due(tx, partition, limit, hold_ms, wait_until)
        )
        self._held.update(held)
        return due

    async def rearm(self, timers: Sequence[tuple[str, int | None]]) -> None:
        held = {task_id: self._held.pop(task_id, 0) for task_id, _ in timers}

        async def some(timers: Sequence[tuple[str, int | None]]) -> list[None]:
            return await self._write(lambda tx: timing.rearm(tx, timers, held))

        await each_alone(some, timers, timer_refused)

    # --- dependencies ---

    async def link(self, links: Sequence[Link]) -> list[Ended]:
        async def some(links: Sequence[Link]) -> list[list[Ended]]:
            return await self._write(lambda tx: dependencies.link(tx, links))

        ended = await each_alone(some, links, link_refused)
        return list(chain.from_iterable(ended))

    async def settle(self, settlements: Sequence[Settlement]) -> list[int]:
        async def some(settlements: Sequence[Settlement]) -> list[int]:
            return await self._write(lambda tx: dependencies.settle(tx, settlements))

        return await each_alone(some, settlements, settlement_refused)

    def settle_at_once(self, unblocked: Unblocked) -> None:
        self._unblocked = unblocked

    async def dependents(self, parent: str, after: str = "", limit: int = 1000) -> list[Edge]:
        [edges] = await self.dependents_of_each([(parent, after)], limit)
        return edges

    async def dependents_of_each(
        self, parents: Sequence[tuple[str, str]], limit: int
    ) -> list[list[Edge]]:
        return await self._read(
            lambda db: [dependencies.dependents(db, *of_one, limit) for of_one in parents]
        )

    async def release_edges(self, edges: Sequence[tuple[str, str]]) -> None:
        async def some(edges: Sequence[tuple[str, str]]) -> list[None]:
            return await self._write(lambda tx: dependencies.release_edges(tx, edges))

        await each_alone(some, edges, edge_refused)

    async def unlink(self, edges: Sequence[tuple[str, str]]) -> None:
        async def some(edges: Sequence[tuple[str, str]]) -> list[None]:
            return await self._write(lambda tx: dependencies.unlink(tx, edges))

        await each_alone(some, edges, edge_refused)

    async def take_unsettled(self, limit: int) -> list[tuple[str, State]]:
        # Those that were taken last come last: a fan-out that cannot be finished must not hide the
        # others.
        after = self._unsettled_after
        taken = await self._read(lambda db: dependencies.unsettled(db, after, limit))
        self._unsettled_after = taken[-1][0] if taken else ""
        return taken

    # --- moving in from another store ---

    async def restore(self, snapshots: Sequence[Snapshot]) -> list[bool]:
        prepared = restoring.prepare(snapshots, self.partitions)
        return await self._write(lambda tx: restoring.restore(tx, prepared))

    # --- reading ---

    def get(self, ids: Sequence[str]) -> "CoroutineType[Any, Any, list[Task | None]]":
        return self._read(lambda db: reading.read_tasks(db, ids))

    async def states(self, ids: Sequence[str]) -> list[State | None]:
        since = self.now() - SUBMIT_WINDOW_MS
        return await self._read(lambda db: dependencies.states(db, ids, since))

    async def tombstones(self, ids: Sequence[str]) -> list[Tombstone | None]:
        since = self.now() - SUBMIT_WINDOW_MS
        return await self._read(lambda db: reading.tombstones(db, ids, since))

    async def discarded(self, ids: Sequence[str]) -> list[Discarded | None]:
        since = self.now() - SUBMIT_WINDOW_MS
        return await self._read(lambda db: reading.discarded(db, ids, since))

    async def history(self, task_id: str) -> History:
        return await self._read(lambda db: reading.history(db, task_id))

    async def find(self, query: Query) -> Page:
        return await self._read(lambda db: reading.find(db, query))

    async def stats(self) -> list[QueueStats]:
        return await self._read(lambda db: reading.stats(db, self.partitions))

    async def tallies(self, queue: str | None, since: int) -> list[Tallied]:
        return await self._read(lambda db: daily.read(db, queue, since, self.now()))

    async def ready_kinds(self, queues: Sequence[str] = ()) -> list[ReadyKind]:
        return await self._read(lambda db: reading.ready_kinds(db, self.partitions, queues))

    async def events(self, cursor: str, limit: int = 500) -> EventPage:
        return await self._read(lambda db: reading.events(db, cursor, limit))

    async def events_end(self) -> str:
        return await self._read(reading.events_end)

    # --- the fleet and its configuration ---

    async def queues(self) -> list[QueueConfig]:
        return await self._read(fleet.queues)

    async def put_queue(self, config: QueueConfig, *, expect: QueueConfig) -> bool:
        def put(tx: Transaction) -> bool:
            if not fleet.put_queue(tx, config, expect):
                return False
            self._configs = tx.configs = fleet.configured(tx.db)
            self._data_version = -1  # read anew, in case this transaction comes to nothing
            if config.max_concurrent_per_key != expect.max_concurrent_per_key:
                tx.db.execute(LANES.readmit, (config.name,))
            return True

        done = await self._write(put)
        if done and config.max_concurrent_per_key != expect.max_concurrent_per_key:
            await self._readmit(config.name)
        return done

    async def _readmit(self, queue: str) -> None:
        """Park or admit the tasks of a queue under its new limit per key, a few at a time."""
        progress: placing.Progress | None = placing.Progress()
        while progress is not None:
            progress = await self._write(_readmit_some(queue, progress))

    async def types(self) -> list[TypeInfo]:
        return await self._read(fleet.types)

    async def put_types(self, types: Sequence[TypeInfo]) -> None:
        async def some(types: Sequence[TypeInfo]) -> list[None]:
            return await self._write(lambda tx: fleet.put_types(tx, types))

        await each_alone(some, types, type_refused)

    async def workers(self) -> list[WorkerInfo]:
        now = self.now()
        return await self._read(lambda db: fleet.workers(db, now))

    async def put_worker(self, info: WorkerInfo) -> None:
        await self._write(lambda tx: fleet.put_worker(tx, info))

    async def remove_worker(self, worker: str) -> None:
        await self._write(lambda tx: tx.db.execute(CONFIG.drop_worker, (worker,)).rowcount)

    async def setting(self, name: str) -> bytes | None:
        return await self._read(lambda db: fleet.setting(db, name))

    async def put_setting(self, name: str, value: bytes, *, expect: bytes | None) -> bool:
        return await self._write(lambda tx: fleet.put_setting(tx, name, value, expect))

    # --- notes ---

    async def notes(self, names: Sequence[NoteName]) -> list[bytes | None]:
        return await self._read(lambda db: notes.notes(db, names))

    async def put_notes(self, puts: Sequence[PutNote]) -> list[NotePut]:
        async def some(puts: Sequence[PutNote]) -> list[NotePut]:
            return await self._write(lambda tx: notes.put_notes(tx, puts))

        return await each_alone(some, puts, note_refused)

    async def list_notes(
        self, kind: str, scope: str, after: str = "", limit: int = 100
    ) -> list[Note]:
        return await self._read(lambda db: notes.page(db, kind, scope, after, limit))

    # --- housekeeping ---

    async def trim(self, limit: int) -> int:
        for (queue,) in await self._read(lambda db: db.execute(LANES.readmissions).fetchall()):
            await self._readmit(queue)  # the process that had begun it was cut short
        return await self._write(lambda tx: fleet.trim(tx, limit, self._location.max_events))

    async def info(self) -> StoreInfo:
        entries, min_writer, retention = await self._read(_facts)
        full = self._location.synchronous == "full"
        path = self._location.path
        size = sum(
            file.stat().st_size
            for file in (path, path.with_name(path.name + "-wal"))
            if file.exists()
        )
        return StoreInfo(
            kind="sqlite",
            location=str(path),
            schema_version=SCHEMA_VERSION,
            min_writer=min_writer,
            partitions=self.partitions,
            entries=entries,
            bytes=size,
            in_memory=False,
            replicas=1,
            retention=retention,
            durability={
                "process_crash": "everything acknowledged survives",
                "os_crash": "everything acknowledged survives"
                if full
                else "the last moments may be lost (synchronous=normal)",
                "power_cut": "everything acknowledged survives, if the disk honours flushes"
                if full
                else "the last moments may be lost (synchronous=normal)",
            },
            settings={
                "synchronous": self._location.synchronous,
                "journal_mode": "wal",
                "record_version": str(RECORD_VERSION),
            },
        )

    def _hint_when_rate_allows(self, request: ClaimRequest) -> None:
        """Wake the claimers of a rate-limited queue when its next token is there."""
        if self._loop is None:
            return
        for name, config in self._configs.items():
            if config.rate_limit is not None and name in request.queues:
                wait = min(1 / config.rate_limit, SLOW_POLL_S)
                self._loop.call_later(wait, self._hub.hint, ready_topic(name))


def _readmit_some(
    queue: str, progress: placing.Progress
) -> Callable[[Transaction], placing.Progress | None]:
    return lambda tx: placing.readmit(tx, queue, progress)


def _facts(db: Any) -> tuple[int, int, float | None]:
    (entries,) = db.execute(READING.entries).fetchone()
    (min_writer,) = db.execute(CONFIG.meta, ("min_writer",)).fetchone()
    retention = fleet.setting(db, "retention")
    return entries, min_writer, float(retention) if retention else None
