"""The daily history: the event log added up, with the position up to which it was.

No write of a task counts anything. Who keeps house, or asks for the history, reads on in the log
from where the last one stopped, and writes the new position and the counts in one atomic batch,
guarded by the position that was read: of two who add the same moves one is refused, and of one that
dies nothing is left. A round reads to the end of the log, so that every move up to the position was
counted, in whichever message it was met.

What was not added up is lost with its record's last trace, seven days after the deletion; a
running timekeeper adds up every minute.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from andon.lifecycle.daily import KEPT_DAYS, first_day
from andon.model.fleet import Tallied
from andon.stores.codec import encode
from andon.stores.nats.core import Core
from andon.stores.nats.events import Log
from andon.stores.nats.heads import Heads
from andon.stores.nats.wire import GUARD, Write, seq_of, subject_of
from andon.stores.tallying import summed

if TYPE_CHECKING:
    from andon.model.task import TaskEvent

EVERY_MS = 60_000
"""How often the log is added up where nobody asks for the history."""

_PAGE = 500
_ATTEMPTS = 10
_TTL_S = (KEPT_DAYS + 1) * 86_400
"""Counts of a day go by themselves, so long after the last was added."""

Counts = dict[str, dict[str, int]]
"""What was counted on one day: by queue and tally."""


class Position(msgspec.Struct, array_like=True):
    """How far the log of a partition was added up, and when."""

    upto: int = 0  #: every move written with a message up to this one was counted
    at: int = 0  #: ms UTC


_decode_position = msgspec.msgpack.Decoder(Position).decode
_decode_counts = msgspec.msgpack.Decoder(Counts).decode


class Daily:
    """The daily history of all partitions."""

    def __init__(self, core: Core, log: Log) -> None:
        self._core = core
        self._log = log
        self._next = 0.0  # monotonic seconds

    async def read(self, queue: str | None, days: range) -> list[Tallied]:
        """What was counted of a queue, or of all, on these days."""
        found: list[Tallied] = []
        for heads in self._core.heads:
            await self._add_up(heads)
            counts = await self._counts(heads, days)
            found += (
                Tallied(name, day, tally, n)
                for day, of_day in counts.items()
                for name, of in of_day.items()
                if queue is None or name == queue
                for tally, n in of.items()
            )
        return found

    async def keep(self) -> None:
        """Add up what was written, if nobody has for a while."""
        if time.monotonic() < self._next:
            return
        now, latest = self._core.clock.now(), 0
        for heads in self._core.heads:
            position, _ = await self._position(heads)
            if now - position.at >= EVERY_MS:
                await self._add_up(heads)
                position.at = now
            latest = max(latest, position.at)
        self._next = time.monotonic() + max(latest + EVERY_MS - now, 1_000) / 1000

    async def _add_up(self, heads: Heads) -> None:
        for _ in range(_ATTEMPTS):
            position, guard = await self._position(heads)
            sums, upto = await self._round(heads, position.upto)
            if upto == position.upto or await self._write(heads, sums, upto, guard):
                return
        raise heads.wire.unavailable("others are adding up the daily history all the time")

    async def _position(self, heads: Heads) -> tuple[Position, int]:
        found = await heads.last([heads.names.of("n", "at")])
        return (_decode_position(found[0].data), seq_of(found[0])) if found else (Position(), 0)

    async def _round(self, heads: Heads, floor: int) -> tuple[dict[int, Counts], int]:
        """What all moves after a position add, and the position after them."""
        sums: dict[int, Counts] = {}
        oldest, upto = first_day(self._core.clock.now()), floor
        counted: dict[str, int] = {}  # of each task that was met, up to where its moves were
        archived: dict[str, list[TaskEvent]] = {}  # of which an archive does not say the queue
        while True:
            messages, _ = await self._log.messages(heads, upto + 1, _PAGE)
            if not messages:
                return sums, upto
            events: list[tuple[str, TaskEvent]] = []
            for seq, task_id, moves, queue in messages:
                last = counted.get(task_id, floor)
                fresh = [event for move, event in moves if move > last]
                counted[task_id] = max([last, *(move for move, _ in moves)])
                upto = seq
                if queue is None:
                    archived.setdefault(task_id, []).extend(fresh)
                elif queue:
                    events += ((queue, event) for event in (*archived.pop(task_id, ()), *fresh))
            for (queue, day, tally), n in summed(events).items():
                if day >= oldest:
                    of = sums.setdefault(day, {}).setdefault(queue, {})
                    of[tally] = of.get(tally, 0) + n

    async def _write(self, heads: Heads, sums: dict[int, Counts], upto: int, guard: int) -> bool:
        """Write the sums and the position; False if another was faster."""
        counts = await self._counts(heads, sorted(sums))
        for day, of_day in sums.items():
            there = counts.setdefault(day, {})
            for queue, of in of_day.items():
                before = there.setdefault(queue, {})
                for tally, n in of.items():
                    before[tally] = before.get(tally, 0) + n
        position = encode(Position(upto, self._core.clock.now()))
        ttl = {"Nats-TTL": f"{_TTL_S}s"}
        writes: list[Write] = [
            (heads.names.of("n", "day", str(day)), encode(of), ttl) for day, of in counts.items()
        ]
        writes.append((heads.names.of("n", "at"), position, {GUARD: str(guard)}))
        return await heads.wire.atomic(heads.names.stream, writes)

    async def _counts(self, heads: Heads, days: Sequence[int]) -> dict[int, Counts]:
        if not days:
            return {}
        found = await heads.last([heads.names.of("n", "day", str(day)) for day in days])
        return {int(subject_of(m).rpartition(".")[2]): _decode_counts(m.data) for m in found}
