"""One-minute roll-ups made by timekeepers, and the series shown of the last hours. Pure data;
`lifecycle.minutes` computes them."""

import msgspec

BANDS_MS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_800_000)
"""Upper bounds of the bands of wait and run time, in ms; one more band is above the last."""

OTHERS = "(others)"
"""Stands for the queues or types of a minute beyond those that are kept by name."""


class MinuteCounts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What happened in one queue, or to tasks of one type, within one minute.

    Of a queue, all but the bands is exact. Of a type, all is of the sample.
    """

    submitted: int = 0  #: tasks stored
    started: int = 0  #: runs begun, without those that were given back within the minute
    finished: int = 0  #: runs that completed or were cancelled
    failed: int = 0  #: runs that failed, each retry for itself
    pending: int = 0  #: tasks pending at its end
    active: int = 0  #: runs in hand at its end
    sampled: int = 0  #: runs that ended and were looked at for the bands
    wait: tuple[int, ...] = ()  #: of those, how many waited how long: one number for each band
    run: tuple[int, ...] = ()  #: how many ran how long


class MinuteRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One minute of a whole store."""

    minute: int  #: minutes since 1970-01-01 UTC
    since: int  #: counted from this time on, ms UTC; a few seconds after its beginning
    until: int  #: counted up to this time, ms UTC; a few seconds after its end
    quiet_from: int  #: nothing at all was counted from this time to `since`
    queues: dict[str, MinuteCounts]
    types: dict[str, MinuteCounts]
    whole: bool = True  #: the sample has every run that ended, but for discarded tasks


class MinuteBase(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where the next minute begins to count."""

    at: int  #: ms UTC by the store's clock
    totals: dict[str, tuple[int, int, int]]
    """By queue, what the daily history had on the day of `at`: submitted, finished, failed."""
    states: dict[str, tuple[int, int]]  #: by queue, tasks pending and runs in hand
    cursor: str  #: the end of the event log


class MinuteSlot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The minutes of one hour, as they are stored."""

    v: int
    hour: int  #: hours since 1970-01-01 UTC
    base: MinuteBase
    rows: tuple[MinuteRow, ...] = ()


class MinutePoint(msgspec.Struct, frozen=True, gc=False):
    """One minute of a series."""

    at: int  #: its beginning, ms UTC
    counts: MinuteCounts
    seconds: float  #: that were counted: what rates are reckoned by


class MinuteSeries(msgspec.Struct, frozen=True):
    """The minutes of one queue or type in which something happened, or was pending or active."""

    name: str
    points: tuple[MinutePoint, ...]  #: oldest first; nothing happened in those left out


class MinuteHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The last minutes, by queue or by type.

    A minute that no timekeeper rolled up is `missing`, not zero. Wait and run times are of a
    bounded sample; so are all counts by type, which say what share each has.
    """

    since: int  #: beginning of the first minute, ms UTC
    until: int  #: end of the last one
    missing: tuple[int, ...]  #: beginnings of the minutes that nothing is known of
    series: tuple[MinuteSeries, ...]  #: by name
    whole: bool  #: the samples have every run that ended
    bands_ms: tuple[int, ...] = BANDS_MS
