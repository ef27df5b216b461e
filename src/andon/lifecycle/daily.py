"""The daily history of a queue: which moves are counted, on which day, and as what.

Every store counts the events that it writes, in the same step, and knows nothing of them but what
`tally_of` and `day_of` say. So the history is what the event log would add up to, if it were kept
for `KEPT_DAYS`.
"""

from collections.abc import Iterable
from datetime import date, timedelta
from enum import unique
from typing import Protocol

from andon.lifecycle.constants import DAY_MS
from andon.model.fleet import DayCounts, QueueHistory, Tallied
from andon.model.words import Event, State, Word

KEPT_DAYS = 90
"""Days that are kept, today among them."""


@unique
class Tally(Word):
    """What a move is counted as. Each counts once, as one of these or not at all."""

    SUBMITTED = "submitted"  #: a task was stored
    FINISHED = "finished"  #: a run ended otherwise than by failing: completed, or cancelled
    FAILED = "failed"  #: a run ended by failing, whether or not another follows


class Countable(Protocol):
    """The fields of an event by which it is counted."""

    @property
    def at(self) -> int: ...
    @property
    def event(self) -> Event: ...
    @property
    def source(self) -> State | None: ...
    @property
    def target(self) -> State | None: ...


_ACTIVE, _SUBMIT, _RELEASE = State.ACTIVE, Event.SUBMIT, Event.RELEASE
_SUBMITTED, _FINISHED = Tally.SUBMITTED, Tally.FINISHED
"""What every task needs, see `admission`."""
_NOT_FAILED = frozenset({State.COMPLETED, State.CANCELLED})
_NOT_ENDED = frozenset({State.ACTIVE, State.SCHEDULED, State.UNKNOWN})
"""The states that do not end a run: it goes on, was put off, or cannot be read."""


def tally_of(event: Countable) -> Tally | None:
    """What a move is counted as; None if it is not counted.

    A run is counted when it ends: once if it is retried, and once more for each retry. One that is
    given back has not ended, and takes no try: released by a worker that shuts down, snoozed, or
    handed to a worker without its code. Moves of a task that is not running end no run.
    """
    if event.source is not _ACTIVE:
        return _SUBMITTED if event.event is _SUBMIT else None
    target = event.target
    if target in _NOT_FAILED:
        return _FINISHED
    if target in _NOT_ENDED or event.event is _RELEASE:
        return None
    return Tally.FAILED


def day_of(at: int) -> int:
    """The UTC day of a time in ms UTC, as days since 1970-01-01."""
    return at // DAY_MS


def first_day(now: int, days: int = KEPT_DAYS) -> int:
    """The oldest of so many days, today among them."""
    return day_of(now) - days + 1


def histories(
    found: Iterable[Tallied], queues: Iterable[str], now: int, days: int
) -> list[QueueHistory]:
    """What was counted, as one row for each of the last `days` days of each of these queues and of
    those that something was counted of; the newest day first, queues by name."""
    counts: dict[str, dict[int, dict[str, int]]] = {queue: {} for queue in queues}
    first, today = first_day(now, days), day_of(now)
    for one in found:
        of_day = counts.setdefault(one.queue, {}).setdefault(one.day, {})
        of_day[one.tally] = of_day.get(one.tally, 0) + one.count
    return [
        QueueHistory(
            queue=queue,
            days=tuple(_day(_date(day), of.get(day, {})) for day in range(today, first - 1, -1)),
        )
        for queue, of in sorted(counts.items())
    ]


def total(days: Iterable[DayCounts], day: str = "total") -> DayCounts:
    """The sum of several rows, under a name of its own."""
    rows = [(row.submitted, row.processed, row.failed) for row in days]
    submitted, processed, failed = map(sum, zip(*rows, strict=True)) if rows else (0, 0, 0)
    return DayCounts(day=day, submitted=submitted, processed=processed, failed=failed)


def summed_up(histories: Iterable[Iterable[DayCounts]]) -> list[DayCounts]:
    """The histories of several queues, of the same days, as one."""
    return [total(rows, rows[0].day) for rows in zip(*histories, strict=True)]


def _day(day: date, of: dict[str, int]) -> DayCounts:
    failed = of.get(Tally.FAILED, 0)
    return DayCounts(
        day=day.isoformat(),
        submitted=of.get(Tally.SUBMITTED, 0),
        processed=of.get(Tally.FINISHED, 0) + failed,
        failed=failed,
    )


def _date(day: int) -> date:
    return date(1970, 1, 1) + timedelta(days=day)
