"""Times as Taskcluster reads and writes them: RFC 3339, in whole milliseconds. Pure."""

import re
from datetime import date, time
from functools import lru_cache

from andon.lifecycle.faces.fields import iso as written

__all__ = ["Moment", "a_year_after", "read", "written"]

_EPOCH = date(1970, 1, 1)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-]\d\d:\d\d))\Z", re.ASCII
)
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS


class Moment:
    """A time in the body of a request, ms UTC."""

    __slots__ = ("ms",)

    def __init__(self, ms: int) -> None:
        self.ms = ms


def read(text: str) -> int:
    """The time in ms UTC; what is finer than a millisecond is cut off. Raises `ValueError`."""
    found = _TIME.match(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is not a date and time as in RFC 3339")
    minute, second, fraction, offset = found.groups()
    away = 0
    if offset is not None:
        if offset[1:3] > "23" or offset[4:] > "59":
            raise ValueError(f"{text[:80]!r} has an offset that is none")
        away = int(offset[:3]) * _HOUR_MS + int(offset[0] + offset[4:]) * _MINUTE_MS
    try:
        ms = _minute(minute) - away
        if second > "59":
            time(second=int(second))
    except ValueError as error:
        raise ValueError(f"{text[:80]!r} is no date and time: {error}") from None
    ms += int(second) * 1000
    if fraction is not None:
        ms += int(fraction[:3].ljust(3, "0"))
    if ms < 0:
        raise ValueError(f"{text[:80]!r} is before the year 1970")
    return ms


@lru_cache(maxsize=1024)
def _minute(text: str) -> int:
    """When a minute of a day begins in UTC, ms. Remembered: what comes is mostly of a few."""
    day = (date(int(text[:4]), int(text[5:7]), int(text[8:10])) - _EPOCH).days
    in_day = time(int(text[11:13]), int(text[14:]))
    return day * _DAY_MS + in_day.hour * _HOUR_MS + in_day.minute * _MINUTE_MS


def a_year_after(ms: int) -> int:
    """The same day and time of the next year; of a 29 February, the 1 March."""
    day, time_of_day = divmod(ms, _DAY_MS)
    return _a_year_later(day) * _DAY_MS + time_of_day


@lru_cache(maxsize=256)
def _a_year_later(day: int) -> int:
    """The same day of the next year, both counted from 1970."""
    found = date.fromordinal(_EPOCH.toordinal() + day)
    year = found.year + 1
    if year > date.max.year:
        return day
    if (found.month, found.day) == (2, 29):
        return (date(year, 3, 1) - _EPOCH).days
    return (found.replace(year=year) - _EPOCH).days
