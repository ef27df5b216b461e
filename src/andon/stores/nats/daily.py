"""The daily history: the event log added up, with the position up to which it was.

No write of a task counts anything. Who keeps house, or asks for the history, reads on in the log
from where the last one stopped, and writes the new position and the counts in one atomic batch,
guarded by the position that was read: of two who add the same moves one is refused, and of one that
dies nothing is left. A round reads to the end of the log, so that every move up to the position was
counted, in whichever message it was met.

What was not added up is lost with its record's last trace, seven days after the deletion; a
running timekeeper adds up every five minutes.
"""

import time
from collections.abc import Sequence

import msgspec

from andon.lifecycle.daily import KEPT_DAYS, Countable, first_day
from andon.model.fleet import Tallied
from andon.model.words import Event, State
from andon.stores.codec import Undecodable, encode
from andon.stores.kit.daily_sums import summed
from andon.stores.nats.bodies import NOTHING, decode_archive
from andon.stores.nats.core import Core
from andon.stores.nats.events import Log
from andon.stores.nats.heads import Heads
from andon.stores.nats.library import Reply
from andon.stores.nats.wire import GUARD, Write, seq_of, subject_of

EVERY_MS = 300_000
"""How often the log is added up where nobody asks for the history: less than the submit window,
after which the id of a deleted task, and with it what is left of that, may be written over."""

_PAGE = 2_000
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
        while page := await self._log.records(heads, upto + 1, _PAGE):
            upto = seq_of(page[-1])
            moves: list[tuple[str, Countable]] = []
            for msg in page:
                moves += await _fresh(heads, msg, counted, floor)
            for (queue, day, tally), n in summed(moves).items():
                if day >= oldest:
                    of = sums.setdefault(day, {}).setdefault(queue, {})
                    of[tally] = of.get(tally, 0) + n
        return sums, upto

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


class _Move(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What of an event is counted by: a whole one takes several times as long to decode."""

    revision: int
    at: int
    event: Event
    source: State | None
    target: State | None


class _Moves(msgspec.Struct, gc=False):
    """What of a status is counted."""

    events: tuple[_Move, ...] = ()


class _InQueue(msgspec.Struct, gc=False):
    """What of a definition says where the task belongs."""

    queue: str = "default"


class _Left(msgspec.Struct, array_like=True, gc=False):
    """A record, or what a deleted one leaves: the fields of a `Body` in their order."""

    v: int
    id: str
    revision: int
    state: str
    digest: str
    definition: msgspec.Raw
    status: msgspec.Raw
    cell: msgspec.Raw = NOTHING
    result: msgspec.Raw = NOTHING
    seqs: tuple[int, ...] = ()
    own: int = 1
    linked: int = 0
    token: str = ""
    deleted: int = 0
    events: tuple[_Move, ...] = ()
    dropped: int = 0
    place: int = 0
    left: msgspec.Raw = NOTHING
    queue: str = ""


_decode_left = msgspec.msgpack.Decoder(_Left).decode
_decode_moves = msgspec.msgpack.Decoder(_Moves).decode
_decode_queue = msgspec.msgpack.Decoder(_InQueue).decode


async def _fresh(
    heads: Heads, msg: Reply, counted: dict[str, int], floor: int
) -> list[tuple[str, Countable]]:
    """The moves of a record that were not counted yet, each beside the queue; none of one that
    cannot be read."""
    seq = seq_of(msg)
    try:
        body = _decode_left(msg.data)
        events, queue = body.events, body.queue
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
    found: list[tuple[str, Countable]] = [(queue, move) for at, move in moves if at > last]
    first, move = moves[0]
    if first > last and move.revision > body.dropped + 1:  # there are more in archives
        for part in await heads.walk([heads.names.of("h", body.id, "*")]):
            archive = decode_archive(part.data)
            places = archive.seqs or [seq_of(part)] * len(archive.events)
            found += (
                (queue, event)
                for at, event in zip(places, archive.events, strict=True)
                if at > last and event.revision < move.revision
            )
    return found
