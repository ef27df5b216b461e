"""One-minute roll-ups: computes a minute from two readings of what the store counts anyway. Pure.

A reading is what the daily history has (exact counts of what was submitted and of runs that ended,
written by the moves themselves), how many runs are in hand, and a bounded sample of the runs that
ended. The difference of two readings a minute apart is a minute. Runs begun are computed: those in
hand now, less those before, plus those that ended.

Nothing is interpolated. Where two readings lie further apart, the minutes between are missing;
unless their counts are equal, which says that nothing happened in between.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict, replace

from andon.lifecycle.constants import DAY_MS
from andon.lifecycle.daily import Tally, tally_of
from andon.lifecycle.faces.fields import iso
from andon.model.fleet import QueueStats, Tallied
from andon.model.minutes import (
    BANDS_MS,
    OTHERS,
    MinuteBase,
    MinuteCounts,
    MinuteHistory,
    MinutePoint,
    MinuteRow,
    MinuteSeries,
    MinuteSlot,
)
from andon.model.task import Run, Task, TaskEvent
from andon.model.words import State

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

KEPT_HOURS = 24
"""Hours that are kept, besides the one that is being filled."""

MOST_MINUTES = KEPT_HOURS * 60

APART_MS = 100_000
"""Two readings further apart than this are no minute."""

MOST_QUEUES = 100
MOST_TYPES = 50
"""Names that a minute keeps; the rest of them is one."""

SLOT_VERSION = 1

_BANDS = len(BANDS_MS) + 1
_Totals = dict[str, tuple[int, int, int]]
_PLACE = {Tally.SUBMITTED.value: 0, Tally.FINISHED.value: 1, Tally.FAILED.value: 2}


class Sample:
    """Runs that ended, as a bounded look at the event log found them."""

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole
        self.queues: dict[str, _Bands] = {}
        self.types: dict[str, _Bands] = {}

    def add(self, event: TaskEvent, task: Task) -> None:
        """Count one run that this event ended. A run that the record no longer has is left out."""
        run = next((one for one in reversed(task.status.runs) if one.number == event.run), None)
        if run is None or run.claimed_at is None:
            return
        for bands in (
            self.queues.setdefault(task.definition.queue, _Bands()),
            self.types.setdefault(task.definition.name, _Bands()),
        ):
            bands.add(event, run)


class _Bands:
    def __init__(self) -> None:
        self.finished = self.failed = 0
        self.wait = [0] * _BANDS
        self.run = [0] * _BANDS

    def add(self, event: TaskEvent, run: Run) -> None:
        if tally_of(event) is Tally.FAILED:
            self.failed += 1
        else:
            self.finished += 1
        claimed = run.claimed_at or event.at
        self.wait[bisect_left(BANDS_MS, claimed - run.scheduled_at)] += 1
        self.run[bisect_left(BANDS_MS, event.at - claimed)] += 1

    def counts(self, counts: MinuteCounts) -> MinuteCounts:
        return replace(
            counts,
            sampled=self.finished + self.failed,
            wait=tuple(self.wait),
            run=tuple(self.run),
        )


def ends_a_run(event: TaskEvent) -> bool:
    """Whether the event is one of those that a sample looks at."""
    return event.source is State.ACTIVE and tally_of(event) is not None


def totals_from(found: Iterable[Tallied], day: int) -> _Totals:
    """The counts of a day and those after it, by queue."""
    totals: dict[str, list[int]] = {}
    for one in found:
        place = _PLACE.get(one.tally)
        if place is not None and one.day >= day:
            totals.setdefault(one.queue, [0, 0, 0])[place] += one.count
    return {queue: (of[0], of[1], of[2]) for queue, of in totals.items()}


def base_from(
    found: Sequence[Tallied], stats: Iterable[QueueStats], now: int, cursor: str
) -> MinuteBase:
    """Where a minute that begins now counts from."""
    return MinuteBase(now, totals_from(found, now // DAY_MS), _states(stats), cursor)


def is_near(base: MinuteBase, now: int) -> bool:
    """Whether what was counted since is of one minute."""
    return now - base.at <= APART_MS


def is_quiet(base: MinuteBase, found: Iterable[Tallied], stats: Iterable[QueueStats]) -> bool:
    """Whether nothing was counted since, and what waits and runs is what waited and ran."""
    same = totals_from(found, base.at // DAY_MS) == base.totals
    return same and _states(stats) == base.states


def _states(stats: Iterable[QueueStats]) -> dict[str, tuple[int, int]]:
    states = {one.queue: _waits_and_runs(one) for one in stats}
    return {queue: of for queue, of in states.items() if any(of)}


def _waits_and_runs(stats: QueueStats) -> tuple[int, int]:
    counts = stats.counts
    return counts.get(State.PENDING.value, 0), counts.get(State.ACTIVE.value, 0)


def row_of(
    base: MinuteBase,
    found: Sequence[Tallied],
    stats: Sequence[QueueStats],
    sample: Sample,
    *,
    quiet_from: int,
    now: int,
) -> MinuteRow | None:
    """The minute that ended last before `now`, counted from `base`, before which nothing was
    counted since `quiet_from`; None if they lie too far apart to be one."""
    if not is_near(base, now):
        return None
    after = totals_from(found, base.at // DAY_MS)
    of_now = {one.queue: one for one in stats}
    queues: dict[str, MinuteCounts] = {}
    for name in after.keys() | of_now.keys() | sample.queues.keys():
        counts = _counts(name, base, after, of_now.get(name))
        bands = sample.queues.get(name)
        if bands is not None:
            counts = bands.counts(counts)
        if counts != MinuteCounts():
            queues[name] = counts
    types = {
        name: bands.counts(MinuteCounts(finished=bands.finished, failed=bands.failed))
        for name, bands in sample.types.items()
    }
    return MinuteRow(
        now // MINUTE_MS - 1,
        base.at,
        now,
        quiet_from,
        _most(queues, MOST_QUEUES),
        _most(types, MOST_TYPES),
        sample.whole,
    )


def _counts(name: str, base: MinuteBase, after: _Totals, stats: QueueStats | None) -> MinuteCounts:
    submitted, finished, failed = (
        max(0, now - before)
        for now, before in zip(
            after.get(name, (0, 0, 0)), base.totals.get(name, (0, 0, 0)), strict=True
        )
    )
    pending, active = (0, 0) if stats is None else _waits_and_runs(stats)
    started = max(0, active - base.states.get(name, (0, 0))[1] + finished + failed)
    return MinuteCounts(submitted, started, finished, failed, pending, active)


def _most(named: dict[str, MinuteCounts], most: int) -> dict[str, MinuteCounts]:
    """Those that did most by name, the rest as one."""
    if len(named) <= most:
        return named
    by_work = sorted(named.items(), key=lambda one: -_work(one[1]))
    kept = dict(by_work[:most])
    kept[OTHERS] = added(counts for _, counts in by_work[most:])
    return kept


def _work(counts: MinuteCounts) -> int:
    return counts.submitted + counts.started + counts.finished + counts.failed


def added(several: Iterable[MinuteCounts]) -> MinuteCounts:
    """The sum of several queues or types, or of several minutes of one: pending and active then
    mean nothing."""
    counts = list(several)
    if not counts:
        return MinuteCounts()
    submitted, started, finished, failed, pending, active, sampled = map(
        sum, zip(*map(_numbers, counts), strict=True)
    )
    whole = MinuteCounts(submitted, started, finished, failed, pending, active, sampled)
    if not sampled:
        return whole
    wait, run = _sum(one.wait for one in counts), _sum(one.run for one in counts)
    return replace(whole, wait=wait, run=run)


def _numbers(one: MinuteCounts) -> tuple[int, ...]:
    return (
        one.submitted, one.started, one.finished, one.failed, one.pending, one.active, one.sampled,
    )  # fmt: skip


def _sum(several: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Band by band; those without a sample have none."""
    return tuple(map(sum, zip(*filter(None, several), strict=True))) or (0,) * _BANDS


def slot_of(hour: int) -> int:
    """Which of the stored slots takes this hour: they are written in turn."""
    return hour % (KEPT_HOURS + 1)


def hour_of(at: int) -> int:
    """Hours since 1970 of a time in ms UTC."""
    return at // HOUR_MS


def slot_with(slot: MinuteSlot | None, base: MinuteBase, row: MinuteRow | None) -> MinuteSlot:
    """What is stored next: the hour of the new base, with its minutes and this one."""
    hour = hour_of(base.at)
    rows = slot.rows if slot is not None and slot.hour == hour else ()
    if row is not None:
        rows = (*(one for one in rows if one.minute < row.minute), row)
    return MinuteSlot(SLOT_VERSION, hour, base, rows)


def minute_history(
    slots: Iterable[MinuteSlot],
    found: Sequence[Tallied],
    stats: Sequence[QueueStats],
    *,
    now: int,
    minutes: int,
    by_type: bool = False,
    name: str | None = None,
) -> MinuteHistory:
    """The last minutes that are over, of one name or of each. `found` and `stats`: what is counted
    now, which tells whether anything happened since the newest minute that is stored."""
    kept = sorted((one for one in slots), key=lambda one: one.hour)
    rows = sorted((row for one in kept for row in one.rows), key=lambda row: row.minute)
    end = now // MINUTE_MS
    newest = kept[-1].base if kept else None
    quiet_tail = newest is not None and is_quiet(newest, found, stats)
    if rows and rows[-1].minute < end - 1 and not quiet_tail and now % MINUTE_MS < LATE_MS:
        end -= 1  # it ended a moment ago, and is not rolled up yet
    first = end - minutes
    known: set[int] = set()
    for row in rows:
        known.add(row.minute)
        known.update(range(row.quiet_from // MINUTE_MS, row.since // MINUTE_MS))
    if newest is not None and quiet_tail:
        known.update(range(newest.at // MINUTE_MS, end))
    within = [row for row in rows if first <= row.minute < end]
    return MinuteHistory(
        since=first * MINUTE_MS,
        until=end * MINUTE_MS,
        missing=tuple(one * MINUTE_MS for one in range(first, end) if one not in known),
        series=_series(within, by_type=by_type, name=name),
        whole=all(row.whole for row in within),
    )


LATE_MS = 20_000
"""Within this a minute that ended may be not yet rolled up."""


def _series(
    rows: Iterable[MinuteRow], *, by_type: bool, name: str | None
) -> tuple[MinuteSeries, ...]:
    points: dict[str, list[MinutePoint]] = {}
    for row in rows:
        named: Mapping[str, MinuteCounts] = row.types if by_type else row.queues
        seconds = (row.until - row.since) / 1000
        for one, counts in named.items():
            if name is None or one == name:
                point = MinutePoint(row.minute * MINUTE_MS, counts, seconds)
                points.setdefault(one, []).append(point)
    return tuple(MinuteSeries(one, tuple(of)) for one, of in sorted(points.items()))


def minutes_document(found: MinuteHistory) -> dict[str, Any]:
    """The history as JSON has it: times as ISO 8601 in UTC."""
    return {
        "since": iso(found.since),
        "until": iso(found.until),
        "missing": [iso(at) for at in found.missing],
        "bands_ms": list(found.bands_ms),
        "whole": found.whole,
        "series": [
            {
                "name": one.name,
                "points": [
                    {"at": iso(point.at), "seconds": point.seconds, **asdict(point.counts)}
                    for point in one.points
                ],
            }
            for one in found.series
        ],
    }


def median_band(bands: Sequence[int]) -> str:
    """The band in which the middle one of so many times lies, in words; empty where there are
    none."""
    half, seen = sum(bands) / 2, 0
    for place, number in enumerate(bands):
        seen += number
        if number and seen >= half:
            above = place == len(BANDS_MS)
            ms = BANDS_MS[-1] if above else BANDS_MS[place]
            return f"{'>' if above else '<='} {f'{ms} ms' if ms < 1000 else f'{ms // 1000} s'}"
    return ""
