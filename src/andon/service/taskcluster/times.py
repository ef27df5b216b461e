"""Times as Taskcluster reads and writes them: RFC 3339, in whole milliseconds. Pure."""

import re
from datetime import UTC, datetime, timedelta, timezone

from andon.lifecycle.faces.fields import iso as written

__all__ = ["Moment", "a_year_after", "read", "written"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))\Z",
    re.ASCII,
)
_MILLISECOND = timedelta(milliseconds=1)


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
    *numbers, fraction, sign, hours, minutes = found.groups()
    offset = timedelta()
    if sign is not None:
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        if int(minutes) > 59 or int(hours) > 23:
            raise ValueError(f"{text[:80]!r} has an offset that is none")
        offset = -offset if sign == "-" else offset
    year, month, day, hour, minute, second = map(int, numbers)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone(offset))
    except ValueError as error:
        raise ValueError(f"{text[:80]!r} is no date and time: {error}") from None
    ms = (moment - _EPOCH) // _MILLISECOND + int((fraction or "0")[:3].ljust(3, "0"))
    if ms < 0:
        raise ValueError(f"{text[:80]!r} is before the year 1970")
    return ms


def a_year_after(ms: int) -> int:
    """The same day and time of the next year; of a 29 February, the 1 March."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    year = moment.year + 1
    if year > datetime.max.year:
        return ms
    if (moment.month, moment.day) == (2, 29):
        moment += timedelta(days=1)
    return (moment.replace(year=year) - _EPOCH) // _MILLISECOND
