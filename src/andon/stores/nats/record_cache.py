"""Reads the latest revision of tasks' records in bulk, remembers it, and writes over it.

Every write of a task is guarded by the sequence of the newest message under its subjects, so of two
writers one is refused. A process remembers for a while what it has read or written, and a change
that was decided on that needs no read.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Raw

from andon.contract.isolation import Unwritable
from andon.lifecycle.repeats import tombstone_of
from andon.lifecycle.routing import kind_of
from andon.lifecycle.timers import next_timer
from andon.model.task import RECORD_VERSION, Status, Task, TaskEvent
from andon.model.words import State
from andon.stores.kit.codec import Undecodable, encode
from andon.stores.kit.server_clock import ServerClock
from andon.stores.nats.jetstream import (
    GUARD,
    GUARDED,
    NEVER,
    JetStream,
    Write,
    seq_of,
    stamp_of,
    subject_of,
)
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_codec import (
    NOTHING,
    Archive,
    RecordBody,
    StoredRecord,
    decode_record,
    moves_of,
)
from andon.stores.nats.server_time import ms_of
from andon.stores.nats.shrink import shrunk, without_errors
from andon.stores.nats.stream_reader import PartitionStream
from andon.stores.nats.subjects import ARCHIVED, Subjects, SubqueueName, is_token, level_of
from andon.stores.nats.write_summaries import WriteNotes

REMEMBERED = 2_048
"""How many records a partition remembers: of runs in hand, and those that were read to be moved.
Decoded, with its errors, one takes up to some tens of kilobytes."""

_BESIDES = 16_384
"""How many bytes of a message are reserved for all but its definition, status and result."""

_HEADERS = 4_096
"""How many bytes headers may take, which count as well."""

_LATELY_S = 2.0
"""How old a recently read record may be: from one step of an operation on some tasks to the
next."""

_LARGE = 8_192
_LARGE_TOGETHER = 2_097_152
"""From how many bytes on a body is large, and how many bytes of large ones are remembered: one
process reads, moves, claims and ends a task with thousands of dependencies, each time with its
whole record."""

_CHUNK = 200
"""How many tasks one request reads; the server answers it with at most 1,024 messages."""

LOG_AGE_S = 7 * 86_400
"""What is left of a deleted task is part of the event log and kept as long (docs/rulings.md,
R12)."""


def subqueue_of(task: Task, *, back: bool = False) -> SubqueueName:
    """The sub-queue of the task if it is pending; `back`: at its old place."""
    return SubqueueName(
        task.definition.queue,
        kind_of(task.definition, task.policy),
        level_of(task.status.priority, back=back),
    )


def schedule_time(at: int) -> str:
    """Ms UTC in the format of a schedule."""
    at = min(max(at, 0), 7_258_118_400_000)  # the year 2200: beyond 2262 a schedule fires at once
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{at % 1000:03}Z"


class RecordCache(PartitionStream):
    """The records of one partition."""

    def __init__(self, js: JetStream, subjects: Subjects, clock: ServerClock) -> None:
        super().__init__(js, subjects)
        self._clock = clock
        self._known: OrderedDict[str, StoredRecord] = OrderedDict()
        self._large: dict[str, int] = {}  #: the bytes of those of them that are large
        self.notes = WriteNotes(subjects)

    # --- reading ---

    async def read(self, ids: Iterable[str]) -> dict[str, StoredRecord]:
        """The records of those tasks that exist, or existed lately."""
        wanted = [task_id for task_id in dict.fromkeys(ids) if is_token(task_id)]
        found: dict[str, StoredRecord] = {}
        for start in range(0, len(wanted), _CHUNK):
            chunk = wanted[start : start + _CHUNK]
            messages = await self.last([self.subjects.task(i) for i in chunk])
            self.advance_clock(messages)
            for msg in messages:
                self.add_message(found, msg)
        at = time.monotonic()
        for stored in found.values():
            stored.read_at = at
            self.remember(stored)
        return found

    def lately(self, task_id: str) -> StoredRecord | None:
        """The record as it was read a moment ago, if all of it was read. For decisions that may be
        made on a record that another process is just moving."""
        stored = self._known.get(task_id)
        young = stored is not None and time.monotonic() - stored.read_at <= _LATELY_S
        return stored if young else None

    def advance_clock(self, messages: Sequence[Reply]) -> None:
        """Move the clock on to the newest of these messages, which come in the order of the
        stream: no decision on them may be older than they are."""
        if messages:
            self._clock.tell(ms_of(stamp_of(messages[-1])))

    def add_message(self, found: dict[str, StoredRecord], msg: Reply) -> StoredRecord | None:
        """Add a record message; of several of one task the newest revision counts."""
        seq, subject = seq_of(msg), subject_of(msg)
        try:
            body = decode_record(msg.data)
        except Undecodable:
            task_id = subject.split(".")[5]
            body = RecordBody(0, task_id, 0, State.UNKNOWN, "", NOTHING, NOTHING)
        old = found.get(body.id)
        guard = seq if old is None else max(old.guard, seq)
        if old is not None and (old.body.revision, old.seq) > (body.revision, seq):
            old.guard = guard
            return old
        stored = found[body.id] = StoredRecord(body, subject, seq, guard)
        return stored

    # --- what is remembered ---

    def known(self, task: Task) -> StoredRecord | None:
        """What is remembered of exactly this revision of a record."""
        stored = self._known.get(task.id)
        return stored if stored is not None and task.ref and stored.seq == task.ref else None

    def remember(self, stored: StoredRecord) -> None:
        """Remember a record for the change that may follow."""
        known, body = self._known, stored.body
        self.forget(body.id)
        if body.result:
            return
        known[body.id] = stored
        size = len(body.definition) + len(body.status)
        if size > _LARGE:
            self._large[body.id] = size
            while sum(self._large.values()) > _LARGE_TOGETHER:
                self.forget(next(iter(self._large)))
        while len(known) > REMEMBERED:
            self.forget(next(iter(known)))

    def forget(self, task_id: str) -> None:
        """Forget what is remembered of the task: it no longer holds."""
        self._known.pop(task_id, None)
        self._large.pop(task_id, None)

    # --- writing ---

    def subject(self, task: Task, stored: StoredRecord | None = None) -> str:
        """The subject of this version of a record."""
        if task.state is State.PENDING:
            back = stored is not None and comes_back(task, stored)
            return self.subjects.pending(task.id, subqueue_of(task, back=back))
        return self.subjects.rest(task.id)

    def body(
        self, task: Task, stored: StoredRecord | None, *, token: str = "", own: int = 1
    ) -> RecordBody:
        """The body of the next version of a record."""
        status = task.status
        definition = NOTHING if stored is None else stored.body.definition
        if stored is None or stored.body.deleted:
            definition = NOTHING
        if definition == NOTHING:
            definition = Raw(encode(task.definition))
        room = self._room() - len(definition) - len(task.result or b"")
        return RecordBody(
            RECORD_VERSION,
            task.id,
            status.revision,
            status.state.value,
            task.definition.digest,
            definition,
            Raw(shrunk(status, room)),
            task.cell,
            task.result,
            ()
            if stored is None or stored.body.deleted
            else earlier(stored, len(status.events) - own),
            own,
            0 if stored is None or stored.body.deleted else stored.body.linked,
            token,
            place=(stored.body.place or stored.seq)
            if stored is not None and _same_order(task, stored)
            else 0,
            dropped=0 if stored is None or stored.body.deleted else stored.body.dropped,
        )

    def tombstone(
        self, stored: StoredRecord, events: Sequence[TaskEvent], now: int, status: Status | None
    ) -> RecordBody:
        """What is left of a deleted task; `events` are those of this write, `status` is the one
        before the deletion."""
        old = stored.body
        moves = moves_of(old, stored.seq)
        kept = moves[-(16 - len(events)) :]
        if sum(len(encode(event)) for _, event in kept) > self._room() // 2:
            kept = [(seq, without_errors(event)) for seq, event in kept]
        ended = [e.target for e in events if e.target is not None]
        state = ended[-1].value if ended else old.state
        return RecordBody(
            RECORD_VERSION,
            old.id,
            events[-1].revision,
            state,
            old.digest,
            NOTHING,
            NOTHING,
            seqs=tuple(seq for seq, _ in kept),
            own=len(events),
            deleted=now,
            events=(*(event for _, event in kept), *events),
            dropped=old.dropped,
            left=None if status is None else tombstone_of(status),
            queue=queue_of(stored),
        )

    def _room(self) -> int:
        """How many bytes the parts of a record may take together."""
        return self.js.most_bytes - _BESIDES

    def excess(self, body: RecordBody) -> tuple[int, int]:
        """How many bytes too many the parts of a record take, and how many they may take."""
        room = self._room()
        size = len(body.definition) + len(body.status) + len(body.result or b"")
        if body.deleted:
            size += sum(len(event.result or b"") for event in body.events)
        return size - room, room

    def write(
        self, body: RecordBody, subject: str, *, guard: int, purge: str = "", ttl: int = 0
    ) -> Write:
        """The guarded write of a version; `purge` names the schedule that it deletes. Raises
        `Unwritable` if no message can hold it."""
        headers = {GUARD: str(guard), GUARDED: self.subjects.task(body.id)}
        if not subject.endswith(".r"):
            headers["Nats-Schedule"] = NEVER
            headers["Nats-Schedule-Target"] = self.subjects.never
        if purge and purge != subject:
            headers["Nats-Schedule-Next"] = "purge"
            headers["Nats-Scheduler"] = purge
        if ttl:
            headers["Nats-TTL"] = f"{ttl}s"
        data = encode(body)
        if len(data) > self.js.most_bytes - _HEADERS:
            raise Unwritable(f"it takes {len(data):,} bytes, more than the server's max_payload")
        return subject, data, headers

    def purged_by(self, stored: StoredRecord, subject: str) -> str:
        """The schedule to delete when the record is written over: its own message if that is one,
        else its timer."""
        if stored.is_pending and stored.subject != subject:
            return stored.subject
        return self.timer_of(stored)

    def timer_of(self, stored: StoredRecord) -> str:
        """The subject of the record's own timer, if it has one of its own."""
        task = stored.task
        at = None if task is None or task.state is State.UNKNOWN else next_timer(task)
        return "" if at is None else self.subjects.timer(at, stored.body.id, stored.body.revision)

    def archive(self, stored: StoredRecord, revision: int) -> Write | None:
        """The write that saves moves for which the record at `revision` has no room. It is made
        before that of the record, and with the same guard: if a process that came too late to move
        the task wrote it again afterwards, the archive would stand behind newer moves, and readers
        of the log would take its moves for read."""
        if revision % ARCHIVED != 1 or revision <= 2 * ARCHIVED:
            return None
        first = revision - 2 * ARCHIVED
        moves = [m for m in moves_of(stored.body, stored.seq) if first <= m[1].revision < first + 8]
        if not moves or stored.task is None:
            return None
        archive = Archive(
            stored.body.id,
            stored.task.status.created_at,
            tuple(event for _, event in moves),
            tuple(seq for seq, _ in moves),
        )
        guard = {GUARD: str(stored.guard), GUARDED: self.subjects.task(stored.body.id)}
        return self.subjects.archive(stored.body.id, first), encode(archive), guard


def queue_of(stored: StoredRecord) -> str:
    """The queue of a record; empty if it cannot be read."""
    task = stored.task
    return "" if task is None or task.state is State.UNKNOWN else task.definition.queue


def earlier(stored: StoredRecord, count: int) -> tuple[int, ...]:
    """Sequences of the newest `count` moves that the record holds."""
    if count <= 0:
        return ()
    seqs = (*stored.body.seqs, *(stored.seq for _ in range(stored.body.own)))
    return seqs[-count:]


def unchanged(stored: StoredRecord, *, linked: int | None = None) -> RecordBody:
    """The body of a rewrite that is no move."""
    old = stored.body
    return RecordBody(
        old.v,
        old.id,
        old.revision,
        old.state,
        old.digest,
        old.definition,
        old.status,
        old.cell,
        old.result,
        (*old.seqs, *(stored.seq for _ in range(old.own))),
        0,
        old.linked if linked is None else linked,
        old.token,
        place=old.place or stored.seq,
        dropped=old.dropped,
    )


def _same_order(task: Task, stored: StoredRecord) -> bool:
    return stored.task is not None and stored.task.status.order == task.status.order


def comes_back(task: Task, stored: StoredRecord) -> bool:
    """Whether a pending task returns to its former place in the sub-queue."""
    return not stored.is_pending and _same_order(task, stored)
