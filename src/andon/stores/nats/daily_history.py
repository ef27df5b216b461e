"""Keeps the daily history: the sum of all write summaries, and of the event log where these have
gaps.

Each process writes summaries of its own writes (`write_summaries`), so no write of a task counts
anything. The timekeeper adds up the blocks of the stream for which the summaries are complete, from
the position where the last timekeeper stopped. A gap that is older than `EVERY_MS` will not be
filled, so from its block on the log is read, which costs a read of each record. Counts and the new
position are written in one atomic batch, guarded by the old position: of two timekeepers one is
refused, and one that dies leaves nothing half done. A reader of the history reads from the log what
no summary covers yet.

What was not added up is lost with its record's last trace: seven days after the deletion, or when
the id is used again ten minutes after it.
"""

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from andon.lifecycle.constants import DAY_MS
from andon.lifecycle.daily import KEPT_DAYS, Countable, first_day
from andon.model.fleet import Tallied
from andon.model.words import Event, State
from andon.stores.kit.codec import Undecodable, encode
from andon.stores.kit.daily_sums import summed
from andon.stores.nats.context import StoreContext
from andon.stores.nats.event_log import EventLog
from andon.stores.nats.jetstream import CONFLICT, GUARD, GUARDED, Write, seq_of, subject_of
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_cache import LOG_AGE_S, RecordCache
from andon.stores.nats.record_codec import decode_archive, decode_record
from andon.stores.nats.write_summaries import (
    BLOCK,
    Counts,
    Summary,
    add,
    aligned,
    complete_up_to,
    decode_summary,
)

if TYPE_CHECKING:
    from andon.model.task import TaskEvent

log = logging.getLogger("andon.nats")

EVERY_MS = 150_000
"""How often it is added up if no caller asks for the history. A block with a gap is read the next
time: before the submit window is over, after which the id of a deleted task, and with it what is
left of the task, may be written over."""

SUMMARY_S = 60.0
"""How long after the first write that it covers a process writes a summary."""

_PAGE = 2_000

_TRIES = 5
"""How often the write of a summary is tried again: other processes may move the position
meanwhile."""

_UNWRITTEN = 64
"""How many summaries are kept for another try; each that is given up leaves a gap."""

_TTL_S = (KEPT_DAYS + 1) * 86_400
"""The server deletes the counts of a day so long after the last was added."""


class Position(msgspec.Struct, array_like=True):
    """Up to where a partition was added up, and when."""

    upto: int = 0  #: every move written with a message up to this one was counted
    at: int = 0  #: ms UTC
    exact: bool = False
    """The summaries covered everything up to here. Otherwise those of this block may contain what
    was counted from the log, and cannot be used. Older releases leave it out."""

    @property
    def start(self) -> int | None:
        """From where on the summaries can be added up; None if they cannot be."""
        is_start = self.exact or not self.upto or self.upto == aligned(self.upto)
        return self.upto if is_start else None


_decode_position = msgspec.msgpack.Decoder(Position).decode
_decode_counts = msgspec.msgpack.Decoder(dict[str, dict[str, int]]).decode


class _State:
    """Position, counts and summaries of one partition, as of one moment."""

    def __init__(self, records: RecordCache, found: Sequence[Reply], end: int) -> None:
        self.end = end
        self.position, self.guard = Position(), 0
        self.counts: Counts = {}
        self.summaries: list[tuple[int, Summary]] = []
        at, summary, day = (
            records.subjects.of("n", *tokens) for tokens in (("at",), ("w", ""), ("day", ""))
        )
        for msg in found:
            subject, seq = subject_of(msg), seq_of(msg)
            if subject == at:
                self.position, self.guard = _decode_position(msg.data), seq
            elif subject.startswith(day):
                self.counts[int(subject.removeprefix(day))] = _decode_counts(msg.data)
            elif subject.startswith(summary):
                try:
                    self.summaries.append((seq, decode_summary(msg.data)))
                except Undecodable:
                    continue  # Andon did not write it: a gap

    def complete(self) -> tuple[int, Counts]:
        """Up to where the summaries are complete, and their sum up to there."""
        start = self.position.start
        return (
            (self.position.upto, {})
            if start is None
            else complete_up_to(start, self.end, self.summaries)
        )


class _Unwritten:
    """A summary to be written, and where."""

    def __init__(self, records: RecordCache, name: str, summary: Summary) -> None:
        self.records = records
        self.name = name
        self.summary = summary
        self.may_be_stored = False  #: a try was made, and its outcome is not known
        self.is_done = False


class DailyHistory:
    """The daily history of all partitions."""

    def __init__(self, context: StoreContext, log: EventLog) -> None:
        self._context = context
        self._log = log
        self._next = 0.0  # monotonic seconds
        self._ends: dict[str, int] = {}  # by stream, its end at the last keeping
        self._name = secrets.token_hex(8)
        self._numbers = itertools.count()
        self._summary_timer: asyncio.TimerHandle | None = None
        self._unwritten: list[_Unwritten] = []
        for records in context.records:
            records.notes.on_first = self._begun

    def _begun(self) -> None:
        if self._summary_timer is None:
            loop = asyncio.get_running_loop()
            self._summary_timer = loop.call_later(
                SUMMARY_S, lambda: self._context.in_background(self.write_summaries())
            )

    def close(self) -> None:
        """Stop writing summaries at intervals."""
        if self._summary_timer is not None:
            self._summary_timer.cancel()
            self._summary_timer = None

    async def write_summaries(self) -> None:
        """Write summaries of what this process has written. A summary that cannot be written now is
        tried again with the next ones."""
        self.close()
        waiting, self._unwritten = self._unwritten, []
        for records in self._context.records:
            waiting += [
                _Unwritten(records, f"{self._name}.{next(self._numbers)}", summary)
                for summary in records.notes.take_summaries()
            ]
        try:
            for summary in waiting:
                summary.is_done = await self._write_summary(summary)
        finally:
            failed = [summary for summary in waiting if not summary.is_done]
            self._unwritten = [*failed, *self._unwritten][-_UNWRITTEN:]
        if failed and not self._context.js.leaving:
            self._begun()

    async def _write_summary(self, unwritten: "_Unwritten") -> bool:
        """Write one summary, or find that it is there; False to try again later.

        An earlier try may have been stored though its answer was lost, and counted since. So what
        lies before the position is left out, and the write is guarded by the position.
        """
        records = unwritten.records
        at, subject = records.subjects.of("n", "at"), records.subjects.of("n", "w", unwritten.name)
        try:
            for _ in range(_TRIES):
                there = {subject_of(msg): msg for msg in await records.last([at, subject])}
                if subject in there:
                    return True
                upto = _decode_position(there[at].data).upto if at in there else 0
                summary = {
                    number: block
                    for number, block in unwritten.summary.items()
                    if not unwritten.may_be_stored or max(number * BLOCK, 1) > upto
                }
                if not summary:
                    return True
                before, unwritten.may_be_stored = unwritten.may_be_stored, True
                guard = str(seq_of(there[at])) if at in there else "0"
                headers = {GUARD: guard, GUARDED: at, "Nats-TTL": f"{LOG_AGE_S}s"}
                write = (subject, encode(summary), headers)
                (seq,) = await records.js.write(records.subjects.stream, [write])
                if seq > CONFLICT:
                    return True
                if seq == CONFLICT:
                    unwritten.may_be_stored = before
        except Exception as error:
            log.debug("A sheet for the daily history was not written: %s", error)
        return False

    async def read(self, queue: str | None, days: range) -> list[Tallied]:
        """The counts of a queue, or of all, on these days."""
        await self.write_summaries()
        found: list[Tallied] = []
        oldest = first_day(self._context.clock.now())
        for records in self._context.records:
            state = await self._look(records)
            upto, more = state.complete()
            parts = [state.counts, more]
            if upto < state.end:
                bound = aligned(state.end)
                within, beyond = await self._read_log(records, upto, bound)
                parts += [within, beyond]
                if bound > upto:  # so that the next call need not read it again
                    await self._write(records, state, _sum([more, within]), Position(bound))
            found += (
                Tallied(name, day, tally, n)
                for day, of_day in _sum(parts).items()
                if day in days and day >= oldest
                for name, of in of_day.items()
                if queue is None or name == queue
                for tally, n in of.items()
            )
        return found

    async def add_up(self) -> None:
        """Add up what was written, if no process has done so for a while."""
        if time.monotonic() < self._next:
            return
        now, latest = self._context.clock.now(), 0
        for records in self._context.records:
            state = await self._look(records)
            at = state.position.at
            if now - at >= EVERY_MS:
                await self._add_up_partition(records, state, now)
                at = now
            latest = max(latest, at)
        self._next = time.monotonic() + max(latest + EVERY_MS - now, 1_000) / 1000

    async def _add_up_partition(self, records: RecordCache, state: _State, now: int) -> None:
        """Add up where the summaries are complete, and from the log what is old and has gaps."""
        stream = records.subjects.stream
        old = min(self._ends.get(stream, 0), state.end)
        self._ends[stream] = state.end
        upto, counts = state.complete()
        position = Position(upto, exact=True)
        # The log is not read for a block that has not filled up; for a day it is left to the
        # summaries.
        bound = old if now - state.position.at >= DAY_MS else aligned(old)
        if upto < bound:
            within, _ = await self._read_log(records, upto, bound)
            counts, position = _sum([counts, within]), Position(bound)
        if position.upto > state.position.upto:
            await self._write(records, state, counts, position)

    async def _look(self, records: RecordCache) -> _State:
        subject = records.subjects.of("n", ">")
        found = await records.snapshot([subject])
        if found is not None:
            return _State(records, *found)
        # Too many summaries for one answer. Those that are deleted meanwhile leave a gap.
        found = await records.snapshot(
            [records.subjects.of("n", "at"), records.subjects.of("n", "day", "*")]
        )
        assert found is not None
        known, end = found
        summaries = await records.read_all([records.subjects.of("n", "w", ">")])
        return _State(records, [*known, *(msg for msg in summaries if seq_of(msg) <= end)], end)

    async def _read_log(
        self, records: RecordCache, floor: int, bound: int
    ) -> tuple[Counts, Counts]:
        """The counts of all moves after a position, up to a bound and beyond it. It reads to the
        end of the log, so that every move is met, in whichever message that is."""
        within: Counts = {}
        beyond: Counts = {}
        oldest, upto = first_day(self._context.clock.now()), floor
        counted: dict[str, int] = {}  # by task, the sequence up to which its moves were counted
        while page := await self._log.read_records(records, upto + 1, _PAGE):
            upto = seq_of(page[-1])
            moves: list[tuple[int, str, Countable]] = []
            for msg in page:
                moves += await _fresh(records, msg, counted, floor)
            for sums, some in (
                (within, [(queue, move) for at, queue, move in moves if at <= bound]),
                (beyond, [(queue, move) for at, queue, move in moves if at > bound]),
            ):
                for (queue, day, tally), n in summed(some).items():
                    if day >= oldest:
                        add(sums, day, queue, tally, n)
        return within, beyond

    async def _write(
        self, records: RecordCache, state: _State, more: Counts, position: Position
    ) -> None:
        """Write the counts and the new position, unless another process was faster."""
        now = self._context.clock.now()
        more = {day: of for day, of in more.items() if day >= first_day(now)}
        sums = _sum([{day: state.counts.get(day, {}) for day in more}, more])
        position.at = now
        ttl = {"Nats-TTL": f"{_TTL_S}s"}
        writes: list[Write] = [
            (records.subjects.of("n", "day", str(day)), encode(of), ttl) for day, of in sums.items()
        ]
        guard = {GUARD: str(state.guard)}
        writes.append((records.subjects.of("n", "at"), encode(position), guard))
        last = await records.js.write_batch(records.subjects.stream, writes)
        if not last:
            return
        for seq in range(last - len(writes) + 1, last + 1):
            records.notes.note_quietly(seq)
        if any(seq <= position.upto for seq, _ in state.summaries):
            # All writes that these cover lie before them.
            subject = records.subjects.of("n", "w", ">")
            await records.purge(subject, before=position.upto + 1)


def _sum(parts: Sequence[Counts]) -> Counts:
    sums: Counts = {}
    for part in parts:
        for day, of_day in part.items():
            for queue, of in of_day.items():
                for tally, n in of.items():
                    add(sums, day, queue, tally, n)
    return sums


class _Move(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The fields of an event that counting needs: decoding a whole one takes several times as
    long."""

    revision: int
    at: int
    event: Event
    source: State | None
    target: State | None


class _Moves(msgspec.Struct, gc=False):
    """The fields of a status that are counted."""

    events: tuple[_Move, ...] = ()


class _InQueue(msgspec.Struct, gc=False):
    """The field of a definition that says to which queue the task belongs."""

    queue: str = "default"


_decode_moves = msgspec.msgpack.Decoder(_Moves).decode
_decode_queue = msgspec.msgpack.Decoder(_InQueue).decode


async def _fresh(
    records: RecordCache, msg: Reply, counted: dict[str, int], floor: int
) -> list[tuple[int, str, Countable]]:
    """The moves of a record that were not counted yet, each with its sequence and the queue; none
    of a record that cannot be read."""
    seq = seq_of(msg)
    try:
        body = decode_record(msg.data)
        events: Sequence[_Move | TaskEvent] = body.events
        queue = body.queue
        if not body.deleted:
            events = (*_decode_moves(body.status).events, *events)
            queue = _decode_queue(body.definition).queue
    except Undecodable:
        return []
    seqs = (*body.seqs, *(seq for _ in range(body.own)))
    count = min(len(seqs), len(events))
    last = counted.get(body.id, floor)
    counted[body.id] = seq
    if not queue or not count:
        return []
    moves = list(zip(seqs[-count:], events[-count:], strict=True))
    found: list[tuple[int, str, Countable]] = [(at, queue, move) for at, move in moves if at > last]
    first, move = moves[0]
    if first > last and move.revision > body.dropped + 1:  # there are more in archives
        for part in await records.read_all([records.subjects.of("h", body.id, "*")]):
            archive = decode_archive(part.data)
            places = archive.seqs or [seq_of(part)] * len(archive.events)
            found += (
                (at, queue, event)
                for at, event in zip(places, archive.events, strict=True)
                if at > last and event.revision < move.revision
            )
    return found
