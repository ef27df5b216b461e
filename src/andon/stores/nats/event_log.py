"""Reads the event log: every record carries its newest moves, with the sequence of each.

The stream keeps only the newest message of a task, so a reader finds a move either in the message
that wrote it or in a later one that took its place. A cursor names, for each partition, the
position read up to; the floor, below which every move is known to have been returned; and how many
moves were returned of a message for which a page had no room. A move is returned once as long as
its reader keeps up, or while no task moves; a reader that is catching up while tasks move on may
get one twice.
"""

import asyncio
import time
from collections import ChainMap
from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec.structs import replace

from andon.contract.queries import EventPage, History
from andon.lifecycle.constants import HISTORY_KEPT, SUBMIT_WINDOW_MS
from andon.model.task import TaskEvent
from andon.stores.kit.codec import Undecodable
from andon.stores.nats.changes import changes_since
from andon.stores.nats.context import StoreContext
from andon.stores.nats.jetstream import CONFLICT, GUARD, PATIENCE_S, seq_of
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.record_codec import StoredRecord, decode_archive, decode_record, moves_of
from andon.stores.nats.subjects import ARCHIVED

_FASTEST = 20_000
_LONGEST_UNTRIMMED_S = 60.0
"""The most moves a second: a log far from its bound is checked again only when it can have reached
the bound, or after so long."""

_PAGE = 500
_NEAR = 64
"""How many sequences before the end the newest record is looked for first."""

_COUNT_DIGITS = 19

_NUMBERS = (3, 4)
"""With how many numbers a position is written, see `Position`."""

_GIVEN = 200_000
"""How many tasks are remembered for readers that are catching up; beyond that a reader may get a
move twice."""


class Position(msgspec.Struct):
    """Up to where a reader has read in one partition."""

    at: int = 0  #: all messages up to here were read
    floor: int = 0  #: all moves up to here were returned
    part: int = 0  #: how many moves were returned of a message after `at`
    of: int = 0  #: which message that is, as it may be gone at the reader's next call


class EventLog:
    """The event log of all partitions."""

    def __init__(self, context: StoreContext, mark: str) -> None:
        self._context = context
        self._mark = mark
        self._next_trim: dict[str, float] = {}  # by stream, monotonic seconds
        self._given: dict[str, list[dict[str, int]]] = {}
        """By cursor, for readers that are catching up in this process: the newest revision returned
        of each task that was read above the floor."""

    async def read(self, cursor: str, limit: int) -> EventPage:
        """A page after the cursor."""
        positions, gap = self._parse(cursor)
        # Only the first of the two is written to, so that a read that fails loses nothing.
        given = [ChainMap[str, int]({}, old) for old in self._given.get(cursor, self._none())]
        found: list[TaskEvent] = []
        for partition, records in enumerate(self._context.records):
            start = await self._start(records)
            position = positions[partition]
            if position.at < start:
                gap = gap or bool(cursor)
                position = positions[partition] = Position(start, start)
            elif gap:
                position = positions[partition] = Position(start, start)
            if len(found) < limit:
                seen = given[partition]
                lost = await self._page(records, position, seen, limit - len(found), found)
                gap = gap or (lost and bool(cursor))
        after = self._cursor(positions)
        if found:
            self._given.pop(cursor, None)
            self._keep(after, given)
        return EventPage(tuple(found), after, gap)

    def _none(self) -> list[dict[str, int]]:
        return [{} for _ in self._context.records]

    def _keep(self, cursor: str, given: Sequence[ChainMap[str, int]]) -> None:
        """Remember what was returned above the floor, for the next page."""
        merged: list[dict[str, int]] = []
        for new, *older in (chain.maps for chain in given):
            base = dict[str, int]() if not older else cast("dict[str, int]", older[0])
            base.update(new)
            merged.append(base)
        if any(merged):
            self._given[cursor] = merged
            while sum(len(seen) for g in self._given.values() for seen in g) > _GIVEN:
                self._given.pop(next(iter(self._given)))

    async def _page(
        self,
        records: RecordCache,
        position: Position,
        seen: ChainMap[str, int],
        limit: int,
        found: list[TaskEvent],
    ) -> bool:
        """Read on; True if the position lies beyond the end of the stream."""
        given = 0
        while given < limit:
            wanted = min(limit - given + 1, _PAGE)
            messages, _ = await self._messages(records, position.at + 1, wanted)
            if not messages:
                # Nothing stands behind the position: all that is written later will stand behind
                # it.
                position.floor = position.at
                seen.maps = [{}]
                return not given and await self._rewound(records, position)
            for seq, task_id, moves in messages:
                fresh = [
                    (move, event)
                    for move, event in moves
                    if move > position.floor and event.revision > seen.get(task_id, 0)
                ]
                part = position.part if seq == position.of else 0
                # The reader is not known to this process and has read the message in part: so many
                # moves of it were returned.
                skip = 0 if task_id in seen else part
                chosen = fresh[skip : skip + limit - given]
                for _, event in chosen:
                    found.append(replace(event, task=task_id))
                given += len(chosen)
                if chosen:
                    seen[task_id] = chosen[-1][1].revision
                    if chosen[-1][1].target is None:
                        seen[task_id] = 0  # deleted; the id may begin anew
                if skip + len(chosen) < len(fresh):
                    position.part, position.of = part + len(chosen), seq
                    return False
                position.at, position.part, position.of = seq, 0, 0
        return False

    async def _rewound(self, records: RecordCache, position: Position) -> bool:
        """Whether the stream ends before the position: it is not the one that was read."""
        end = await self._end(records)
        if end >= position.at:
            return False
        position.at = position.floor = end
        return True

    async def _messages(
        self, records: RecordCache, start: int, limit: int
    ) -> tuple[list[tuple[int, str, list[tuple[int, TaskEvent]]]], int]:
        """Records and archives in the order of the stream, with their moves."""
        page = await self.read_records(records, start, limit)
        if not page:
            return [], start - 1  # an archive is followed by its record
        # Stop at the last record, even if an archive stands behind it: records that were written in
        # front of the archive, after the first of these reads, are still to come.
        end = seq_of(page[-1])
        archives = await records.confirmed_page(records.subjects.of("h", ">"), start, limit)
        if len(archives) >= limit:
            end = min(end, seq_of(archives[-1]))
        found: list[tuple[int, str, list[tuple[int, TaskEvent]]]] = []
        for msg in page:
            seq = seq_of(msg)
            try:
                body = decode_record(msg.data)
            except Undecodable:
                continue
            moves = moves_of(body, seq)
            last = max(archived(body.revision), body.dropped)
            found.append((seq, body.id, [m for m in moves if m[1].revision > last]))
        for msg in archives:
            archive = decode_archive(msg.data)
            seqs = archive.seqs or [seq_of(msg)] * len(archive.events)
            moves = list(zip(seqs, archive.events, strict=True))
            found.append((seq_of(msg), archive.id, moves))
        return sorted((m for m in found if m[0] <= end), key=lambda m: m[0]), end

    async def read_records(self, records: RecordCache, start: int, limit: int) -> list[Reply]:
        """Records from a sequence on. An empty list means "all was read", so it must not come from
        a server that is shutting down or from a replica that lags."""
        subject = records.subjects.of("t", ">")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            page = await changes_since(records, subject, start, limit)
            if page:
                return page
            if not await records.leader_first(subject, start):
                return []
            if records.js.leaving or time.monotonic() > deadline:
                raise records.js.unavailable("a replica lacks what its leader has")
            await asyncio.sleep(0.01)

    async def _start(self, records: RecordCache) -> int:
        """Where the log begins: moves up to here were trimmed."""
        found = await records.last([records.subjects.mark])
        return int(found[0].data) if found else 0

    async def _end(self, records: RecordCache) -> int:
        info = await records.js.api(f"STREAM.INFO.{records.subjects.stream}")
        return int(info.get("state", {}).get("last_seq", 0))

    async def end(self) -> str:
        """The cursor after the newest event."""
        positions: list[Position] = []
        for records in self._context.records:
            # Settings and timers are written to the stream, too: only records count.
            end = max(await self._newest(records), await self._start(records))
            positions.append(Position(end, end))
        return self._cursor(positions)

    async def _newest(self, records: RecordCache) -> int:
        """The position of the newest record. The server would visit all records to find it, so it
        is looked for near the end first."""
        subject = records.subjects.of("t", ">")
        await records.last([])
        recent = await changes_since(records, subject, max(records.upto - _NEAR, 1), _PAGE)
        return seq_of(recent[-1]) if recent else await records.leader_newest(subject)

    async def trim(self, limit: int) -> int:
        """Move the start of the log past the moves that are too many. Returns how many those
        are."""
        most = max(self._context.location.max_events // len(self._context.records), 1)
        dropped = 0
        for records in self._context.records:
            stream, now = records.subjects.stream, time.monotonic()
            if now < self._next_trim.get(stream, 0.0):
                continue
            start = await self._start(records)
            _, more = await records.page(records.subjects.of("t", ">"), start + 1, 1)
            surplus = min(more + 1 - most, limit - dropped, 500)
            if surplus <= 0:
                left = min((most - more - 1) / _FASTEST, _LONGEST_UNTRIMMED_S)
                self._next_trim[stream] = now + left
                continue
            messages, _ = await self._messages(records, start + 1, surplus)
            count, end = 0, start
            for seq, _, moves in messages:
                fresh = sum(1 for move, _ in moves if move > start)
                if count + fresh > min(surplus, limit - dropped):
                    break
                count, end = count + fresh, seq
            if end == start:
                continue
            mark = await records.last([records.subjects.mark])
            guard = {GUARD: str(seq_of(mark[0]) if mark else 0)}
            write = (records.subjects.mark, str(end).encode(), guard)
            (seq,) = await records.js.write(records.subjects.stream, [write])
            if seq > CONFLICT:
                dropped += count
                await self._drop(records, start, end)
        return dropped

    async def _drop(self, records: RecordCache, start: int, end: int) -> None:
        """Delete messages that only the log needs."""
        now = self._context.clock.now()
        page, _ = await records.page(records.subjects.of("t", ">"), start + 1, 500)
        for msg in page:
            if seq_of(msg) > end:
                break
            try:
                body = decode_record(msg.data)
            except Undecodable:
                continue
            if body.deleted and body.deleted < now - SUBMIT_WINDOW_MS:
                request = {"filter": records.subjects.task(body.id), "seq": seq_of(msg) + 1}
                await records.js.api(f"STREAM.PURGE.{records.subjects.stream}", request)

    async def history(self, stored: StoredRecord | None) -> History:
        """The moves of a record."""
        if stored is None or stored.task is None:
            return History(())
        records = self._context.records[self._context.partition(stored.body.id)]
        moves = {e.revision: e for _, e in moves_of(stored.body, stored.seq)}
        if stored.body.revision > 2 * ARCHIVED:
            created = stored.task.status.created_at
            for msg in await records.read_all([records.subjects.of("h", stored.body.id, "*")]):
                archive = decode_archive(msg.data)
                if archive.created_at == created:
                    moves.update({e.revision: e for e in archive.events})
        kept = [revision for revision in sorted(moves) if revision > stored.body.dropped]
        events = [replace(moves[r], task=stored.body.id) for r in kept][-HISTORY_KEPT:]
        return History(tuple(events), stored.body.revision - len(events))

    def _parse(self, cursor: str) -> tuple[list[Position], bool]:
        count = len(self._context.records)
        if not cursor:
            return [Position() for _ in range(count)], False
        mark, *parts = cursor.split(".")
        numbers = [part.split("-") for part in parts]
        good = mark == self._mark and len(parts) == count
        if not good or not all(len(n) in _NUMBERS and all(map(_is_count, n)) for n in numbers):
            return [Position() for _ in range(count)], True
        return [Position(*map(int, n)) for n in numbers], False

    def _cursor(self, positions: Sequence[Position]) -> str:
        return ".".join([self._mark, *map(_written, positions)])


def _written(position: Position) -> str:
    """A position as it stands in a cursor: the last two numbers only if they are not their
    defaults."""
    at = f"{position.at}-{position.floor}-{position.part}"
    return f"{at}-{position.of}" if position.part else at


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < _COUNT_DIGITS


def archived(revision: int) -> int:
    """Up to which revision the moves of a record at `revision` are in archives."""
    if revision <= 2 * ARCHIVED:
        return 0
    return (revision - 2 * ARCHIVED - 1) // ARCHIVED * ARCHIVED + ARCHIVED
