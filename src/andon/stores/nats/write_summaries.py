"""Collects write summaries: what each process wrote to a stream, for the daily history.

A process notes the sequence of each of its writes, by blocks of the stream, and what it adds to the
daily history. About a minute after the first note it writes a summary, one message, and begins the
next. Each sequence is noted once. So if the summaries cover as many sequences as a block has, they
cover the whole block, and none of it need be read.

A write that was not noted leaves a gap: those of a process that died before its summary, one whose
answer was lost, those of an older release, the few that no caller notes. At a gap the log is read
instead (`daily_history`). So a note may be missing, but must never be made twice or too early: it
follows the server's answer.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from andon.lifecycle.constants import DAY_MS
from andon.lifecycle.daily import Tally, tally_of
from andon.stores.nats.subjects import Subjects

if TYPE_CHECKING:
    from andon.lifecycle.daily import Countable
    from andon.stores.nats.jetstream import Write

BLOCK = 4_096
"""How many sequences a block has. Fewer would make summaries longer, more would mean more to read
at a gap."""

_MOST_ENTRIES = 4_000
"""How many counts one summary has; the rest goes into another."""

Counts = dict[int, dict[str, dict[str, int]]]
"""Counts by day, queue and tally."""


class Block(msgspec.Struct, array_like=True):
    """The content of one summary about one block."""

    seen: int = 0  #: sequences noted
    counts: list[tuple[str, int, str, int]] = []  #: queue, day, tally, how many


Summary = dict[int, Block]
"""By number of the block: that of a sequence is `sequence // BLOCK`."""

decode_summary = msgspec.msgpack.Decoder(Summary).decode


class WriteNotes:
    """What this process wrote to one stream since its last summary."""

    def __init__(self, subjects: Subjects) -> None:
        self.on_first: Callable[[], None] = lambda: None  #: called when a summary is needed
        self._apart = (f"{subjects.root}t.", f"{subjects.root}n.")
        self._seen: dict[int, int] = {}
        self._counts: dict[int, dict[tuple[str, int, Tally], int]] = {}
        self._is_begun = False

    def note_answers(self, writes: "Sequence[Write]", seqs: Sequence[int]) -> None:
        """Note writes that count for nothing. Writes of records are noted by the callers that know
        their moves, those of the history by `daily`."""
        apart = self._apart
        for (subject, _, _), seq in zip(writes, seqs, strict=True):
            if seq > 0 and not subject.startswith(apart):
                self.note_write(seq)

    def note_write(self, seq: int) -> None:
        """Note a write that counts for nothing."""
        block, seen = seq // BLOCK, self._seen
        seen[block] = seen.get(block, 0) + 1
        if not self._is_begun:
            self._begin()

    def note_quietly(self, seq: int) -> None:
        """The same, written with the next summary, whenever that is. (Also from another thread: a
        note that gets lost between two summaries leaves a gap.)"""
        # Read once: if the next summary begins in between, what is counted must not go into it.
        block, seen = seq // BLOCK, self._seen
        seen[block] = seen.get(block, 0) + 1

    def note_moves(self, seq: int, queue: str, events: "Iterable[Countable]") -> None:
        """Note the write of a record, with the moves that this very message made."""
        block, seen = seq // BLOCK, self._seen
        seen[block] = seen.get(block, 0) + 1
        for event in events:
            tally = tally_of(event)
            if tally is not None:
                entry = queue, event.at // DAY_MS, tally
                of = self._counts.get(block)
                if of is None:
                    of = self._counts[block] = {}
                of[entry] = of.get(entry, 0) + 1
        if not self._is_begun:
            self._begin()

    def _begin(self) -> None:
        self._is_begun = True
        self.on_first()

    def take_summaries(self) -> list[Summary]:
        """The summaries to write; new ones begin after them. One that is never written leaves a
        gap."""
        is_begun, self._is_begun = self._is_begun, False
        if not is_begun:
            return []
        seen, self._seen = self._seen, {}
        counts, self._counts = self._counts, {}
        summaries: list[Summary] = [{}]
        entries = 0
        for number, n in list(seen.items()):  # another thread may add a block meanwhile
            of = counts.get(number, {})
            entries += 1 + len(of)
            if entries > _MOST_ENTRIES and summaries[-1]:
                summaries.append({})
                entries = 1 + len(of)
            summaries[-1][number] = Block(n, [(*entry, count) for entry, count in of.items()])
        return summaries


def complete_up_to(
    start: int, end: int, summaries: Sequence[tuple[int, Summary]]
) -> tuple[int, Counts]:
    """Up to where, from a position on and up to the end of the stream, these summaries are
    complete, and their counts up to there. Each comes with its own sequence, which it cannot
    contain."""
    begun = max(start, 1)  # the first message made the stream, before any process could note it
    seen: dict[int, int] = {}
    for seq, summary in summaries:
        if seq > start:  # else all that it covers lies before, too
            seen[seq // BLOCK] = seen.get(seq // BLOCK, 0) + 1
            for number, block in summary.items():
                seen[number] = seen.get(number, 0) + block.seen
    upto = begun
    numbers: set[int] = set()
    while upto < end:
        number = (upto + 1) // BLOCK
        last = min((number + 1) * BLOCK - 1, end)
        if seen.get(number, 0) != last - upto:
            break
        upto = last
        numbers.add(number)
    counts: Counts = {}
    for seq, summary in summaries:
        if seq > start:
            for number in numbers.intersection(summary):
                for queue, day, tally, n in summary[number].counts:
                    add(counts, day, queue, tally, n)
    return (upto if numbers else start), counts


def aligned(seq: int) -> int:
    """The end of the last block that ends at or before a sequence."""
    return (seq + 1) // BLOCK * BLOCK - 1


def add(counts: Counts, day: int, queue: str, tally: str, n: int) -> None:
    """Add some counts."""
    of = counts.setdefault(day, {}).setdefault(queue, {})
    of[tally] = of.get(tally, 0) + n
