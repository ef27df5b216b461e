"""When something recurs: the specification of a schedule's times. Pure data.

What the fields mean together is in `andon.lifecycle.recurrence`, and in docs/recurrence.md in plain
words. Times are milliseconds since 1970 UTC, durations seconds.
"""

from typing import Literal

import msgspec


class Recurrence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The times of a schedule: by cron expressions, or at an interval.

    Example:
        from andon.model.recurrence import Recurrence

        nightly = Recurrence(cron=("0 2 * * *",), tz="Europe/Berlin", exclude=("2026-12-25",))
        often = Recurrence(every=300, jitter=30.0)
        assert nightly != often
    """

    cron: tuple[str, ...] = ()
    """Expressions of five fields, of six with seconds first, or such as `@daily`. A time that
    several of them name counts once."""
    every: int | None = None  #: whole seconds that pass between two times, instead of `cron`
    anchor: int | None = None
    """A time, a whole second, from which the interval is counted both ways; None is 1970-01-01."""
    tz: str = "UTC"  #: the zone of the tz database whose clocks `cron` and `exclude` go by
    exclude: tuple[str, ...] = ()
    """Local times that are left out: a date (`2026-12-25`), a range of dates, its last included
    (`2026-12-24/2027-01-01`), a range of times (`2026-12-24T18:00/2026-12-27T06:00`), or all
    minutes that a cron expression of five fields matches (`* * 25 12 *`)."""
    start: int | None = None  #: no time before it
    end: int | None = None  #: no time at it or after it
    count: int | None = None  #: so many occurrences at the most
    jitter: float = 0.0
    """Occurrences fall due up to so much after their times: all of one schedule by the same, which
    its name decides."""
    catch_up: Literal["latest", "none", "all"] = "latest"
    """Which of the occurrences that were missed during an outage are made up for."""
    catch_up_window: float | None = None
    """An occurrence that is later than this is not made up for; None is no limit."""


class Occurrence(msgspec.Struct, frozen=True, gc=False):
    """One time of a schedule.

    Example:
        await app.schedules.add("noon", report.draft(), cron="0 12 * * *")
        [time] = await app.schedules.next("noon", count=1)
        assert time.occurrence.id.startswith("noon:")
        await app.schedules.delete("noon")
    """

    id: str  #: id of its task: `<name>:20261123T060000Z`
    at: int  #: its time, ms UTC, a whole second
    due: int  #: when it is to be submitted: `at` and the jitter


class Firing(msgspec.Struct, frozen=True, gc=False):
    """What a schedule must do now, and when again."""

    occurrences: tuple[Occurrence, ...]  #: to submit now, the oldest first
    after: int  #: all times up to this one are dealt with; the next question begins here
    skipped: int  #: occurrences that are not made up for, counted up to a bound
    next: Occurrence | None  #: the one that follows, which may be due already; None: it has ended


class Range(msgspec.Struct, frozen=True, gc=False):
    """How many occurrences there are from one time to another.

    Example:
        await app.schedules.add("past", report.draft(), every=60)
        range = (await app.schedules.backfill("past", 10**12, 10**12 + 1, dry_run=True)).range
        assert (range.count, range.more, range.first) == (0, False, None)
        await app.schedules.delete("past")
    """

    count: int  #: so many, or `most` if there are more than that
    more: bool  #: whether there are more than were counted
    first: Occurrence | None  #: the first of them
    last: Occurrence | None  #: the last of them


class ExplainedTime(msgspec.Struct, frozen=True, gc=False):
    """A time of a schedule, to be shown.

    Example:
        await app.schedules.add("tea", report.draft(), cron="0 16 * * *", tz="Europe/London")
        for time in await app.schedules.next("tea", count=3):
            print(time.local, time.utc, *time.notes)
        await app.schedules.delete("tea")
    """

    occurrence: Occurrence  #: what falls on it
    local: str  #: the time by the clocks of the zone, with their distance from UTC
    utc: str  #: the same in UTC
    notes: tuple[str, ...] = ()  #: what a change of the clocks does to it, or did just before it
