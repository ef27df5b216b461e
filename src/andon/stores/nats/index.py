"""The index: what lists, counts and the limits of queues need, read by each process that needs it.

A process that never lists, counts or serves a limited queue has none. It is a copy, in memory, of
what is indexed of each record (definition and policy without arguments, about 2 kB a task): of
every record if the process lists and counts, of those that have not ended if it serves a limited
queue. It is brought up to date by reading what was written since its last use; nothing is pushed to
it. It guards nothing: what must not be exceeded is guarded by the limiter lock of its queue, a
message that every claim from (or create into) a limited queue writes over in the same atomic batch.
"""

import asyncio
import logging
import math
import time
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from andon.contract.hints import Hub
from andon.contract.limits import MAX_BATCH
from andon.contract.queries import Page, Query
from andon.lifecycle.effects import Effects, between, of_new
from andon.lifecycle.indexes import entry_of
from andon.model.fleet import QueueStats
from andon.model.task import RunCell, Task
from andon.model.words import TERMINAL, State
from andon.stores.kit.codec import Undecodable
from andon.stores.memory.events import EventLog
from andon.stores.memory.fleet import Fleet as MemoryFleet
from andon.stores.memory.records import Records
from andon.stores.memory.row import Row
from andon.stores.nats.changes import changes_since
from andon.stores.nats.context import StoreContext
from andon.stores.nats.jetstream import PATIENCE_S, seq_of, subject_of
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.record_codec import NOTHING, RecordBody, StoredRecord, decode_record, task_of
from andon.stores.nats.subjects import is_token

logger = logging.getLogger("andon.nats")

_PAGE = 2_000
_STALE_S = 300.0
"""An index that was not used for so long is built anew: what deleted tasks leave may be gone by
then."""

_PAGES_S = 1.0
"""For how long the further pages of a bare list show what the index had at the first. While tasks
run at full speed, each page would otherwise read all that they write meanwhile."""


_Read = tuple[int, RecordBody, Task | None, int]
"""Place in the sub-queue, body without payload, what is indexed (None: the record is indexed no
longer), and sequence."""


class Index:
    """What is indexed of every record, as of the last use."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._lock = asyncio.Lock()
        self._asked = 0.0
        self._whole = False  # whether it has the tasks that have ended, too
        self._reset()

    def _reset(self) -> None:
        fleet, hub = MemoryFleet(), Hub()
        count = len(self._context.records)
        self._fleet = fleet
        log = _NoLog(1, 1)
        self.tables = Records(fleet=fleet, log=log, hub=hub, partitions=count)
        self._positions = [0] * count
        self._unapplied: list[list[_Read]] = [[] for _ in range(count)]
        """Of each partition, what was read up to the position and is not in the index yet."""
        self._seqs: dict[str, int] = {}
        self._read_at = -math.inf  # when all was read, monotonic seconds
        self.broken: list[set[str]] = [set() for _ in range(count)]
        """Of each partition, pending tasks that do not decode: the index lists them nowhere
        else."""

    async def sync(self, *, whole: bool = False) -> None:
        """Read what was written since the last time; from the beginning if ended tasks are needed
        that were left out so far."""
        async with self._lock:
            if time.monotonic() - self._asked > _STALE_S:
                self._whole = whole
                self._reset()
            elif whole and not self._whole:
                self._whole = True
                self._reset()
            self._asked = time.monotonic()
            configs = await self._context.fleet.configs()
            for name, config in configs.items():
                old = self._fleet.queues.get(name)
                if old != config:
                    self._fleet.queues[name] = config
                    self.tables.ready.set_key_limit(name, config.max_concurrent_per_key)
            for partition, records in enumerate(self._context.records):
                await self._read_changes(partition, records)
                self._apply_changes(partition)
            self._read_at = time.monotonic()

    async def _read_changes(self, partition: int, records: RecordCache) -> None:
        """Read what was written since the last time: all of it up to what this process knows of.

        It ends when nothing follows, not at the position where the stream ended before: a record
        that is written meanwhile moves from its place to one behind that position. A reader that
        stopped there would miss it altogether, and count an active task as a pending one.

        The position moves with each page, and never without it: if a call fails or is cancelled,
        what it had read is kept for the next one.
        """
        subject = records.subjects.of("t", ">")
        unapplied = self._unapplied[partition]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            start = self._positions[partition] + 1
            stored = len(self.tables.rows) + len(unapplied) if self._whole else None
            page = await changes_since(records, subject, start, _PAGE, stored=stored)
            if page:
                records.advance_clock(page)
                for msg in page:
                    read = _read(msg, whole=self._whole)
                    if read is not None:
                        unapplied.append(read)
                    elif (task_id := records.subjects.pending_id(subject_of(msg))) is not None:
                        self.broken[partition].add(task_id)
                self._positions[partition] = seq_of(page[-1])
                deadline = time.monotonic() + PATIENCE_S
                continue
            known = records.js.acked.get(records.subjects.stream, 0)
            if start > known:
                return
            # "No more" came from any replica, which may lag: only the leader's word counts.
            if not await records.leader_first(subject, start):
                self._positions[partition] = known
                return
            if records.js.leaving or time.monotonic() > deadline:
                raise records.js.unavailable("a replica lacks what its leader has")
            await asyncio.sleep(0.01)

    def _apply_changes(self, partition: int) -> None:
        """In the order of the sub-queues: which tasks a key admits depends on their order."""
        found, self._unapplied[partition] = self._unapplied[partition], []
        found.sort(key=lambda read: read[0])
        for place, body, task, seq in found:
            try:
                self._apply(partition, place, body, task, seq)
            except Exception:
                # The other records must be found all the same.
                logger.exception(
                    "What to index of task %s cannot be told; it is left out.", body.id
                )

    def _apply(
        self, partition: int, place: int, body: RecordBody, task: Task | None, seq: int
    ) -> None:
        if self._seqs.get(body.id, 0) > seq:
            return
        row = self.tables.rows.get(body.id)
        if row is not None and task is not None and _is_older(task, row.task):
            return
        if task is not None and task.state is State.UNKNOWN and body.state == State.PENDING:
            self.broken[partition].add(body.id)
        else:
            self.broken[partition].discard(body.id)
        if task is None:
            self._seqs.pop(body.id, None)
            if row is not None:
                self._remove(row)
            return
        self._seqs[body.id] = seq
        if row is not None and _place(row.task) != _place(task):
            # damaged, or deleted and submitted anew as something else
            self._remove(row)
            row = None
        if row is None:
            self._insert(task, partition, place)
        else:
            self._move(row, task, place)

    def _insert(self, task: Task, partition: int, number: int) -> None:
        tables = self.tables
        row = tables.rows[task.id] = Row(task, partition, entry_of(task))
        row.number = number
        self._fleet.use(row.entry.queue)
        tables.lists.insert(row)
        self._ready(row, of_new(task, row.entry))
        if task.status.worker:
            tables.lists.work(row, task.status.worker, begun=True)

    def _move(self, row: Row, task: Task, number: int) -> None:
        tables = self.tables
        if row.task.status.worker:
            tables.lists.work(row, row.task.status.worker, begun=False)
        old, new = row.entry, entry_of(task)
        tables.lists.move(row, old, new)
        row.task, row.entry, row.number = task, new, number
        self._ready(row, between(old, new))
        if task.status.worker:
            tables.lists.work(row, task.status.worker, begun=True)

    def _remove(self, row: Row) -> None:
        tables = self.tables
        if row.task.status.worker:
            tables.lists.work(row, row.task.status.worker, begun=False)
        tables.lists.remove(row)
        self._ready(row, between(row.entry, None))
        del tables.rows[row.task.id]

    def _ready(self, row: Row, effects: Effects) -> None:
        config = self._fleet.queue(effects.queue)
        self.tables.ready.update(row, effects, config.max_concurrent_per_key)

    # --- reading ---

    async def read(self, ids: Iterable[str]) -> dict[str, StoredRecord]:
        """Records of any partition."""
        wanted = [task_id for task_id in ids if is_token(task_id)]
        found: dict[str, StoredRecord] = {}
        for partition, records in enumerate(self._context.records):
            mine = [i for i in wanted if self._context.partition(i) == partition]
            if mine:
                found.update(await records.read(mine))
        return found

    async def find(self, query: Query) -> Page:
        """A page: the ids are from the index; the tasks are read, unless the index has all the
        fields asked for."""
        is_young = self._whole and time.monotonic() - self._read_at < _PAGES_S
        if query.bare and query.cursor and is_young:
            await asyncio.sleep(0)  # other tasks of the process want to run between the pages
        else:
            await self.sync(whole=True)
        page = self.tables.lists.find(query)
        if query.bare:
            return page
        tasks: list[Task] = []
        ids = [task.id for task in page.tasks]
        for start in range(0, len(ids), MAX_BATCH):
            found = await self.read(ids[start : start + MAX_BATCH])
            for task_id in ids[start : start + MAX_BATCH]:
                stored = found.get(task_id)
                if stored is not None and stored.task is not None:
                    tasks.append(stored.task)
        return Page(tuple(tasks), page.cursor)

    async def stats(self) -> list[QueueStats]:
        """Counts of each queue."""
        await self.sync(whole=True)
        return self.tables.stats()

    def oldest_pending(self, queue: str, start: int, end: int) -> list[str]:
        """Ids of the oldest pending tasks of a queue."""
        from itertools import islice

        rows = islice(self.tables.lists.oldest(queue, State.PENDING), start, end)
        return [row.task.id for row in rows]

    # --- claiming ---

    def put_back(self, rows: Sequence[Row]) -> None:
        """Put back rows that were taken for a claim that was not made."""
        for row in rows:
            if self.tables.rows.get(row.task.id) is row:
                self._ready(row, between(row.entry, row.entry))


class _NoLog(EventLog):
    """The index keeps no events."""


def _read(msg: Reply, *, whole: bool) -> _Read | None:
    """The record of a message; None if the message does not decode at all."""
    try:
        body = decode_record(msg.data)
    except Undecodable:
        return None
    seq = seq_of(msg)
    # A record that has ended is left out like a deleted one, unless it is to be listed: its message
    # comes after all that was read before it.
    out = bool(body.deleted) or (not whole and body.state in TERMINAL)
    task = None if out else _slim(task_of(body, seq))
    bare = RecordBody(
        body.v, body.id, body.revision, body.state, "", NOTHING, NOTHING, deleted=body.deleted
    )
    return seq if out else body.place or seq, bare, task, seq


def _is_older(task: Task, other: Task) -> bool:
    """Whether this is an older version of the same task, read later."""
    one, two = task.status, other.status
    return one.created_at == two.created_at and one.revision < two.revision


def _place(task: Task) -> tuple[str, str, str | None]:
    """The fields of a definition by which the indexes are kept."""
    return task.definition.queue, task.definition.name, task.definition.key


def _slim(task: Task) -> Task:
    """What is indexed of a record."""
    if task.state is State.UNKNOWN:
        return task
    cell = task.cell
    return Task(
        definition=replace(task.definition, args=b"", headers={}, policy_given={}, digest=""),
        status=replace(task.status, events=(), runs=task.status.runs[-1:], last_error=None),
        cell=None
        if cell is None
        else RunCell(run=cell.run, lease_until=cell.lease_until, heartbeat_at=cell.heartbeat_at),
        ref=task.ref,
    )
