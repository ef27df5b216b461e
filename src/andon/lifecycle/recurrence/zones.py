"""Local time in a time zone, and the changes of its clocks. Pure but for the tz database, which
`zoneinfo` reads: the system's, and where it has none, the package `tzdata`.

Here and beside it a time is a whole number of seconds since 1970 UTC. What a clock on the wall
shows is a number of the same kind, a *wall*: the seconds from 1970-01-01T00:00 on that clock. The
difference of both is the offset.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from importlib import resources
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from andon.model.errors import InvalidSubmission

DAY = 86_400

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_STEP = 3 * DAY
"""Offsets are compared at times so far apart. Two changes of one clock are never that near: tests
look for changes in shorter steps, in every zone."""

BLOCK = 120 * _STEP
"""Changes are looked for, and remembered, in stretches of this length: about a year."""

LAST = 8_000 * 365 * DAY
"""Nothing recurs later than this, in the year 9964: dates end with 9999, and what looks for changes
looks some years ahead."""

_LONGEST_REPEAT = 25 * 3600
"""Clocks are set back by a day at the most."""


class ClockChange(NamedTuple):
    """A time at which the clocks are set, from one offset to another."""

    at: int
    before: int
    after: int

    @property
    def shown_before(self) -> int:
        """The wall that the clocks would have shown."""
        return self.at + self.before

    @property
    def shown_after(self) -> int:
        """The wall that they show."""
        return self.at + self.after


class Zone:
    """The clocks of one zone."""

    def __init__(self, info: ZoneInfo) -> None:
        self._info = info
        self._found: dict[int, tuple[ClockChange, ...]] = {}

    def offset(self, at: int) -> int:
        """By how many seconds the clocks are ahead of UTC."""
        offset = (_EPOCH + timedelta(seconds=at)).astimezone(self._info).utcoffset()
        assert offset is not None, "a ZoneInfo knows its offset at any time"
        return round(offset.total_seconds())

    def next_change(self, after: int, until: int) -> ClockChange | None:
        """The first change later than `after`, up to and with `until`."""
        return next(self.changes(after, until), None)

    def changes(self, after: int, until: int) -> Iterator[ClockChange]:
        """The changes later than `after`, up to and with `until`, in order."""
        for block in range(after // BLOCK, until // BLOCK + 1):
            for change in self._changes_of(block):
                if after < change.at <= until:
                    yield change

    def repeat_around(self, at: int) -> ClockChange | None:
        """The change that lets the clocks show twice what they show at `at`."""
        wall = at + self.offset(at)
        for change in self.changes(at - _LONGEST_REPEAT, at + _LONGEST_REPEAT):
            if change.shown_after <= wall < change.shown_before:
                return change
        return None

    def reached(self, at: int) -> int:
        """The latest wall that the clocks have shown up to `at`: later than what they show then, if
        they were set back shortly before."""
        shown = at + self.offset(at)
        for change in self.changes(at - _LONGEST_REPEAT, at):
            shown = max(shown, change.shown_before - 1)
        return shown

    def _changes_of(self, block: int) -> tuple[ClockChange, ...]:
        found = self._found.get(block)
        if found is None:  # threads may both look: they find the same
            found = self._found[block] = tuple(self._look(block * BLOCK))
        return found

    def _look(self, start: int) -> Iterator[ClockChange]:
        """Changes from `start` for a block, the start not included, the end included."""
        before = self.offset(start)
        for low in range(start, start + BLOCK, _STEP):
            after = self.offset(low + _STEP)
            if after != before:
                yield ClockChange(self._when(low, low + _STEP, before), before, after)
            before = after

    def _when(self, low: int, high: int, before: int) -> int:
        """The first time after `low` at which the offset is another than `before`."""
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.offset(middle) == before else (low, middle)
        return high


def zone(name: str) -> Zone:
    """The zone of this name; `InvalidSubmission` with the nearest name if there is none."""
    found = _known(name)
    if found is None:
        raise InvalidSubmission(_unknown(name), field="tz")
    return found


@lru_cache(maxsize=1024)
def _known(name: str) -> Zone | None:
    if name not in _packaged() and name not in available_timezones():
        return None  # also a name in other letters, which only some file systems would find
    try:
        return Zone(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


@lru_cache(maxsize=1)
def _packaged() -> frozenset[str]:
    """The names in the package `tzdata`: one file, where asking the system means a walk."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text().split())


def _unknown(name: str) -> str:
    shown = repr(name[:80])
    if not name:
        return 'tz is "", which names no time zone; leave it out for UTC.'
    near = _nearest(name[:80])
    if near:
        return f"Time zone {shown} is not known; did you mean {near!r}?"
    return f"Time zone {shown} is not known; name one of the tz database, such as 'Europe/Berlin'."


def _nearest(name: str) -> str:
    known = sorted(_packaged() | available_timezones(), key=len, reverse=True)
    names = {one.rpartition("/")[2].lower(): one for one in known}  # the city alone will do
    names |= {one.lower(): one for one in known}
    wanted = name.strip().replace(" ", "_").lower()
    near = get_close_matches(wanted, names, n=1, cutoff=0.8)
    return names[near[0]] if near else ""
