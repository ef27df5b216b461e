"""The andon: states as stations, the flow between them, queues with their cords, and workers."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from andon.dashboard.views.looks import Look, look_of
from andon.dashboard.views.rates import Rates
from andon.engine.waiting import KindWait
from andon.lifecycle.routing import parse_kind
from andon.lifecycle.waiting import Why
from andon.model.fleet import QueueConfig, QueueStats, WorkerInfo
from andon.model.rates import rate_text
from andon.model.words import LIVE, WAITING, State, in_order

WAITS = in_order(LIVE - {State.PENDING, State.ACTIVE})
ENDS = (State.COMPLETED, State.FAILED, State.CANCELLED)
_WRONG = (Why.NO_WORKER, Why.NO_CODE, Why.KEY_BLOCKED)

RARE_ENDS = (State.STALLED, State.DROPPED, State.EXPIRED, State.UNREACHABLE, State.UNKNOWN)
"""End states that have a station only while tasks are in them."""


class Station(msgspec.Struct, frozen=True):
    """One state and how many tasks are in it."""

    state: str
    count: int
    look: Look


class Kept(msgspec.Struct, frozen=True):
    """Why tasks of one type do not start."""

    text: str
    is_wrong: bool  #: only a person can end that: a worker is missing, or its code


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """One queue on the board."""

    name: str
    paused: bool
    pending: int
    active: int
    later: int  #: scheduled, in retry, or blocked
    completed: int
    failed: int  #: dead letters
    dead_letters: int
    parked: int
    oldest_at: int | None  #: ms UTC since which the oldest pending task waits
    rates: Rates
    limits: str  #: in words; empty if there are none
    workers: int  #: that claim from it
    waits: tuple[Kept, ...]  #: what keeps its tasks from starting

    @property
    def total(self) -> int:
        """Tasks that have not ended."""
        return self.pending + self.active + self.later


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """Workers, summed up."""

    workers: int
    running: int  #: that claim
    active: int
    slots: int

    @property
    def share(self) -> float:
        """The share of slots that is in use, 0 to 1."""
        return min(1.0, self.active / self.slots) if self.slots else 0.0


class Andon(msgspec.Struct, frozen=True, kw_only=True):
    """The whole board."""

    now: int
    waits: list[Station]
    ready: Station
    runs: Station
    ends: list[Station]
    dead_letters: int
    oldest_at: int | None
    rates: Rates
    line: list[tuple[int, float, float]]
    queues: list[QueueRow]
    fleet: Fleet | None  #: None: the visitor may not see them

    @property
    def paused(self) -> list[str]:
        """Queues whose cord is pulled."""
        return [row.name for row in self.queues if row.paused]


def andon_of(
    rows: Sequence[tuple[QueueConfig, QueueStats]],
    workers: Sequence[WorkerInfo] | None,
    waits: Sequence[KindWait],
    *,
    now: int,
    rates: Callable[[Iterable[str]], Rates],
    line: Callable[[Iterable[str]], list[tuple[int, float, float]]],
) -> Andon:
    """The board of these queues. `workers` None: the visitor may not see them."""
    names = [config.name for config, _ in rows]
    counts = dict.fromkeys(State, 0)
    for _, stats in rows:
        for state, number in stats.counts.items():
            if state in counts:
                counts[State(state)] += number
    oldest = [stats.oldest_pending_at for _, stats in rows if stats.oldest_pending_at is not None]
    ends = [*ENDS, *(state for state in RARE_ENDS if counts[state])]
    return Andon(
        now=now,
        waits=[_station(state, counts) for state in WAITS],
        ready=_station(State.PENDING, counts),
        runs=_station(State.ACTIVE, counts),
        ends=[_station(state, counts) for state in ends],
        dead_letters=sum(stats.dead_letters for _, stats in rows),
        oldest_at=min(oldest, default=None),
        rates=rates(names),
        line=line(names),
        queues=queue_rows(rows, workers or (), waits, rates=rates),
        fleet=None if workers is None else fleet_of(workers),
    )


def queue_rows(
    rows: Sequence[tuple[QueueConfig, QueueStats]],
    workers: Sequence[WorkerInfo],
    waits: Sequence[KindWait],
    *,
    rates: Callable[[Iterable[str]], Rates],
) -> list[QueueRow]:
    """Queues by name."""
    return [
        QueueRow(
            name=config.name,
            paused=config.paused,
            pending=_count(stats, State.PENDING),
            active=_count(stats, State.ACTIVE),
            later=_count(stats, *(WAITING - {State.PENDING})),
            completed=_count(stats, State.COMPLETED),
            failed=_count(stats, State.FAILED, *RARE_ENDS),
            dead_letters=stats.dead_letters,
            parked=stats.parked,
            oldest_at=stats.oldest_pending_at,
            rates=rates([config.name]),
            limits=limits_of(config),
            workers=sum(config.name in one.queues and one.state == "running" for one in workers),
            waits=tuple(
                Kept(f"{parse_kind(one.kind).name}: {one.text}", one.why in _WRONG)
                for one in waits
                if one.queue == config.name and not config.paused
            ),
        )
        for config, stats in rows
    ]


def fleet_of(workers: Sequence[WorkerInfo]) -> Fleet:
    """Workers, summed up."""
    return Fleet(
        workers=len(workers),
        running=sum(one.state == "running" for one in workers),
        active=sum(one.active for one in workers),
        slots=sum(one.concurrency for one in workers),
    )


def limits_of(config: QueueConfig) -> str:
    """A queue's limits in words."""
    parts: list[str] = []
    if config.max_concurrent is not None:
        parts.append(f"{config.max_concurrent:,} at once")
    if config.max_concurrent_per_key is not None:
        parts.append(f"{config.max_concurrent_per_key:,} per key")
    if config.rate_limit is not None:
        parts.append(rate_text(config.rate_limit))
    if config.max_size is not None:
        parts.append(f"at most {config.max_size:,} pending")
    return ", ".join(parts)


def _station(state: State, counts: dict[State, int]) -> Station:
    return Station(state.value, counts[state], look_of(state))


def _count(stats: QueueStats, *states: State) -> int:
    return sum(stats.counts.get(state.value, 0) for state in states)
