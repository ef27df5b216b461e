"""Shows the next times of a schedule, and explains what a clock change does to each. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

from andon.lifecycle.recurrence.cron import Cron
from andon.lifecycle.recurrence.occurrences import next_occurrence
from andon.lifecycle.recurrence.times import Times, times_of
from andon.lifecycle.recurrence.zones import ClockChange
from andon.model.recurrence import ExplainedTime, Recurrence

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_NAMED = 3
"""Times that a note names one by one."""


def explain(
    recurrence: Recurrence, name: str, *, after: int, most: int = 20, fired: int = 0
) -> list[ExplainedTime]:
    """The next occurrences later than `after` (ms UTC), at most so many, with notes."""
    times = times_of(recurrence)
    rows: list[ExplainedTime] = []
    while len(rows) < most:
        found = next_occurrence(recurrence, name, after=after, fired=fired + len(rows))
        if found is None:
            break
        at = found.at // 1000
        offset = times.zone.offset(at)
        rows.append(
            ExplainedTime(
                found,
                _local(at, offset),
                (_EPOCH + timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%SZ"),
                tuple(_notes(times, after // 1000, at)),
            )
        )
        after = found.at
    return rows


def _notes(times: Times, before: int, at: int) -> Iterator[str]:
    """What the clocks do to the time `at`, and did since the time before it."""
    changes = list(times.zone.changes(before, at))
    if not times.crons:
        for change in changes:
            yield f"{_told(change)}; the interval counts on."
        return
    for change in changes:
        yield from _leapt(times, change, at)
    repeat = times.zone.repeat_around(at)
    if repeat is not None:
        yield from _repeated(times, repeat, at)


def _leapt(times: Times, change: ClockChange, at: int) -> Iterator[str]:
    """The note on times that the clocks skip."""
    by_clock: list[int] = []
    fixed: list[int] = []
    for cron in times.crons:
        for wall in _within(cron, change.shown_before, change.shown_after):
            if times.exclusions.until(wall) is None:
                (by_clock if cron.by_clock else fixed).append(wall)
    told, then = _told(change), _shown(change.shown_after)[11:]
    if fixed and at == change.at:
        yield f"{told}: fires at {then} for {_listed(fixed)}, which the clocks do not show."
    elif fixed:
        yield f"{told}: {_listed(fixed)} would fire at {then}, which is excluded."
    if by_clock:
        yield f"{told}: does not fire for {_listed(by_clock)}, which the clocks do not show."


def _repeated(times: Times, change: ClockChange, at: int) -> Iterator[str]:
    wall = at + times.zone.offset(at)
    twice = any(cron.by_clock and cron.matches(wall) for cron in times.crons)
    if not twice:
        yield f"{_told(change)}: shown twice, and fires the first time only."
    elif at < change.at:
        yield f"{_told(change)}: shown twice, and fires both times; this is the first."
    else:
        yield f"{_told(change)}: shown twice, and fires both times; this is the second."


def _within(cron: Cron, first: int, end: int) -> Iterator[int]:
    for wall in cron.walls(first):
        if wall >= end:
            return
        yield wall


def _told(change: ClockChange) -> str:
    way = "forward" if change.after > change.before else "back"
    day, _, since = _shown(change.shown_before).partition("T")
    to_day, _, to = _shown(change.shown_after).partition("T")
    to = to if to_day == day else f"{to_day} {to}"
    return f"Clocks go {way} on {day} from {since} to {to}"


def _listed(walls: list[int]) -> str:
    """The times of day, the first few of them by name."""
    walls = sorted(set(walls))
    named = [_shown(wall)[11:] for wall in walls[:_MOST_NAMED]]
    if len(walls) > _MOST_NAMED:
        return f"{', '.join(named)} and {len(walls) - _MOST_NAMED:,} more"
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


def _shown(wall: int) -> str:
    """What the clocks show, without seconds if they are none."""
    shown = _EPOCH + timedelta(seconds=wall)
    return shown.strftime("%Y-%m-%dT%H:%M:%S" if wall % 60 else "%Y-%m-%dT%H:%M")


def _local(at: int, offset: int) -> str:
    zone = timezone(timedelta(seconds=offset))
    return (_EPOCH + timedelta(seconds=at)).astimezone(zone).isoformat()
