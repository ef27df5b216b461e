"""Limiter locks: a message for each limited queue that every claim from it writes over.

A claim from a limited queue, or a create into one with a size, reads its lock, brings the index up
to date, counts, and writes over the lock with the sequence it read as guard: of two that counted
the same, one is refused. With one partition the records are written in the same atomic batch. With
several no batch can hold both. Then the lock first gets a permit that names the tasks, and a claim
that counts meanwhile adds those of them that the index does not show yet. The permit is removed
when the records are written; that of a writer that died expires.
"""

import secrets
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from andon.lifecycle.constants import PERMIT_MS
from andon.model.errors import StoreUnavailable
from andon.model.task import Task
from andon.stores.kit.codec import encode
from andon.stores.nats.context import StoreContext
from andon.stores.nats.index import Index
from andon.stores.nats.jetstream import CONFLICT, GUARD, UNSURE, Write, seq_of
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.subjects import dotless


class Permit(msgspec.Struct, array_like=True, frozen=True):
    """Tasks whose records are being written: claims, or creates."""

    name: str
    until: int
    ids: tuple[str, ...]
    revisions: tuple[int, ...]  #: the revisions that the records will have
    keys: tuple[str, ...]  #: their concurrency keys, "" for none
    creates: bool


class LimiterState(msgspec.Struct, array_like=True):
    """What a limiter lock holds: the tokens of a rate limit, the permits, and up to where each
    partition must be read before counting."""

    tokens: float = -1.0
    at: int = 0
    rate: float = 0.0
    permits: tuple[Permit, ...] = ()
    marks: tuple[int, ...] = ()


class LimiterLock:
    """The limiter lock of a queue as it was read, before the index was brought up to date."""

    def __init__(self, queue: str, seq: int, bucket: LimiterState) -> None:
        self.queue = queue
        self.seq = seq
        self.bucket = bucket
        self.claims: dict[str, str] = {}  #: claimed now, with their keys; not in the index yet
        self.creates: set[str] = set()  #: created now; not in the index yet


_decode = msgspec.msgpack.Decoder(LimiterState).decode


class LimiterLocks:
    """The limiter locks of all limited queues, which stand in partition 0."""

    def __init__(self, context: StoreContext, index: Index) -> None:
        self._context = context
        self._index = index
        self._records = context.records[0]

    async def read(self, queue: str) -> LimiterLock:
        """The limiter lock as it stands, and the index at least as new."""
        lock = await self._read(queue)
        acked = self._context.js.acked
        # The lock is the last of its batch, so what was written with it stands before it. Without
        # this a replica that lags would make us count fewer than others have let in.
        stream = self._records.subjects.stream
        acked[stream] = max(lock.seq, acked.get(stream, 0))
        for records, mark in zip(self._context.records, lock.bucket.marks, strict=False):
            acked[records.subjects.stream] = max(mark, acked.get(records.subjects.stream, 0))
        await self._index.sync()
        rows, now = self._index.tables.rows, self._context.clock.now()
        for permit in lock.bucket.permits:
            if permit.until <= now:
                continue
            named = zip(permit.ids, permit.revisions, permit.keys, strict=True)
            for task_id, revision, key in named:
                row = rows.get(task_id)
                if row is not None and row.task.status.revision >= revision:
                    continue
                if permit.creates:
                    lock.creates.add(task_id)
                else:
                    lock.claims[task_id] = key
        return lock

    async def write(
        self,
        lock: LimiterLock,
        bucket: LimiterState,
        writes: dict[int, list[Write]],
        tasks: Sequence[Task],
        *,
        creates: bool,
    ) -> bool:
        """Write over the limiter lock and write the records; False if anything had moved."""
        over = LimiterState(bucket.tokens, bucket.at, bucket.rate)
        if len(self._context.records) == 1:
            stream, own = self._records.subjects.stream, writes.get(0, [])
            last = await self._context.js.write_batch(stream, [*own, self._overwrite(lock, over)])
            if last:
                seqs = range(last - len(own), last)
                self._note(self._records, seqs, tasks, creates=creates)
                self._records.notes.note_write(last)
            return last > CONFLICT
        now = self._context.clock.now()
        permit = Permit(
            secrets.token_hex(8),
            now + PERMIT_MS,
            tuple(task.id for task in tasks),
            tuple(task.status.revision for task in tasks),
            tuple(task.definition.key or "" for task in tasks),
            creates,
        )
        over.permits = (*(p for p in lock.bucket.permits if p.until > now), permit)
        over.marks = lock.bucket.marks
        if not await self._try_overwrite(lock, over, permit):
            return False
        marks = [0] * len(self._context.records)
        for partition, of_partition in writes.items():
            records = self._context.records[partition]
            seqs = await self._context.js.write(records.subjects.stream, of_partition)
            mine = [task for task in tasks if self._context.partition(task.id) == partition]
            self._note(records, seqs, mine, creates=creates)
            marks[partition] = max(seqs)
        with suppress(StoreUnavailable):
            await self._give_back(lock.queue, permit, marks)
        return True

    @staticmethod
    def _note(
        records: RecordCache, seqs: Sequence[int], tasks: Sequence[Task], *, creates: bool
    ) -> None:
        """Note these writes of records."""
        for seq, task in zip(seqs, tasks, strict=True):
            if seq > CONFLICT:
                queue, events = task.definition.queue, task.status.events[-1:]
                records.notes.note_moves(seq, queue, events if creates else ())

    async def _give_back(self, queue: str, permit: Permit, marks: Sequence[int]) -> None:
        """Drop the permit: readers of the limiter lock find the records from now on."""
        while True:
            lock = await self._read(queue)
            over = lock.bucket
            over.permits = tuple(p for p in over.permits if p.name != permit.name)
            before = over.marks or (0,) * len(marks)
            over.marks = tuple(max(pair) for pair in zip(before, marks, strict=True))
            if await self._try_overwrite(lock, over):
                return

    async def _read(self, queue: str) -> LimiterLock:
        found = await self._records.last([self._subject(queue)])
        return (
            LimiterLock(queue, seq_of(found[0]), _decode(found[0].data))
            if found
            else LimiterLock(queue, 0, LimiterState())
        )

    async def _try_overwrite(
        self, lock: LimiterLock, over: LimiterState, permit: Permit | None = None
    ) -> bool:
        """Write over the limiter lock; if the answer was lost, the permit shows whose the lock
        is."""
        (seq,) = await self._context.js.write(
            self._records.subjects.stream, [self._overwrite(lock, over)]
        )
        if seq == UNSURE and permit is not None:
            return permit in (await self._read(lock.queue)).bucket.permits
        return seq > CONFLICT

    def _overwrite(self, lock: LimiterLock, over: LimiterState) -> Write:
        return self._subject(lock.queue), encode(over), {GUARD: str(lock.seq)}

    def _subject(self, queue: str) -> str:
        return self._records.subjects.of("g", dotless(queue))
