"""The event log: one sequence per partition, read by cursor, trimmed from its old end."""

import secrets

from andon.contract.queries import EventPage
from andon.lifecycle.constants import EVENTS_KEPT_MS
from andon.model.task import TaskEvent


class _Sequence:
    """Events of one partition; `start` is the number of those trimmed."""

    def __init__(self) -> None:
        self.start = 0
        self.events: list[TaskEvent] = []

    @property
    def end(self) -> int:
        return self.start + len(self.events)


class EventLog:
    """Every event of a store, kept for a time and a number.

    A cursor is the log's own mark and a position per partition. The mark tells a cursor of an
    earlier process, which is answered with a gap, from one of this log.
    """

    def __init__(self, partitions: int, max_events: int) -> None:
        self._mark = secrets.token_hex(4)
        self._sequences = [_Sequence() for _ in range(partitions)]
        self._most = max(max_events // partitions, 1)

    def append(self, partition: int, event: TaskEvent) -> None:
        """Add the newest event."""
        self._sequences[partition].events.append(event)

    def read(self, cursor: str, limit: int) -> EventPage:
        """Events after the cursor; a cursor that names nothing kept here reads on with a gap."""
        positions, gap = self._positions(cursor)
        found: list[TaskEvent] = []
        for partition, sequence in enumerate(self._sequences):
            offset = positions[partition] - sequence.start
            more = sequence.events[offset : offset + limit - len(found)]
            positions[partition] += len(more)
            found += more
        return EventPage(tuple(found), self._cursor(positions), gap)

    def end(self) -> str:
        """The cursor after the newest event."""
        return self._cursor([sequence.end for sequence in self._sequences])

    def trim(self, now: int, limit: int) -> int:
        """Drop up to `limit` events that are too old or too many."""
        dropped = 0
        for sequence in self._sequences:
            events = sequence.events
            most = min(len(events), limit - dropped)
            count = min(max(len(events) - self._most, 0), most)
            while count < most and events[count].at < now - EVENTS_KEPT_MS:
                count += 1
            del events[:count]
            sequence.start += count
            dropped += count
        return dropped

    def _positions(self, cursor: str) -> tuple[list[int], bool]:
        oldest = [sequence.start for sequence in self._sequences]
        if not cursor:
            return oldest, False
        mark, *numbers = cursor.split(".")
        ours = mark == self._mark and len(numbers) == len(oldest)
        if not ours or not all(n.isascii() and n.isdecimal() and len(n) < 20 for n in numbers):
            return oldest, True
        asked = [int(number) for number in numbers]
        positions = [
            min(max(position, sequence.start), sequence.end)
            for position, sequence in zip(asked, self._sequences, strict=True)
        ]
        return positions, positions != asked

    def _cursor(self, positions: list[int]) -> str:
        return ".".join([self._mark, *map(str, positions)])
