"""Local times that a schedule leaves out. Pure."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from andon.lifecycle.recurrence.cron import Cron, parse
from andon.lifecycle.recurrence.zones import Zone
from andon.model.errors import InvalidSubmission

_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_DATED = re.compile(r"\s*\d{4}-", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?\Z", re.ASCII)


class Exclusions:
    """What the exclusions of one specification cover. `InvalidSubmission` for one that is none."""

    def __init__(self, texts: Sequence[str]) -> None:
        ranges: list[tuple[int, int]] = []
        self._crons: list[Cron] = []
        for text in texts:
            if _DATED.match(text) or not (" " in text.strip() or text.strip().startswith("@")):
                ranges.append(_range(text))
            else:
                self._crons.append(_cron(text))
        self._starts, self._ends = _joined(ranges)

    def __bool__(self) -> bool:
        return bool(self._starts or self._crons)

    def until(self, wall: int) -> int | None:
        """The wall before which all from `wall` on is left out; None if `wall` is not."""
        place = bisect_right(self._starts, wall) - 1
        until = self._ends[place] if place >= 0 and wall < self._ends[place] else None
        for cron in self._crons:
            if cron.minute_matches(wall):
                until = max(until or 0, cron.alike_until(wall))
        return until

    def free_from(self, at: int, zone: Zone) -> int | None:
        """The next time after `at` at which it may be otherwise; None if `at` is not left out.

        A change of the clocks is such a time: they may then show again what is not left out.
        """
        offset = zone.offset(at)
        until = self.until(at + offset)
        if until is None:
            return None
        change = zone.next_change(at, until - offset)
        return until - offset if change is None else change.at


def _cron(text: str) -> Cron:
    if not text.strip().startswith("@") and len(text.split()) != 5:
        raise InvalidSubmission(
            f"The exclusion {text[:80]!r} has not the five fields of a cron expression (minute "
            "hour day-of-month month day-of-week): whole minutes are left out.",
            field="exclude",
        )
    return parse(text, "exclude")


def _range(text: str) -> tuple[int, int]:
    """First wall, and the first one after it."""
    first, slash, last = text.strip().partition("/")
    if not slash:
        last = first
    low, high = _wall(first), _wall(last)
    if low is None or high is None or (not slash and not _DATE.match(first)):
        raise InvalidSubmission(
            f"The exclusion {text[:80]!r} is no date (2026-12-25), no range of dates or times "
            "(2026-12-24/2027-01-01, 2026-12-24T18:00/2026-12-27T06:00) and no cron expression of "
            "five fields (* * 25 12 *).",
            field="exclude",
        )
    if high[1] <= low[0]:
        raise InvalidSubmission(f"The exclusion {text!r} ends before it starts.", field="exclude")
    return low[0], high[1]


def _wall(text: str) -> tuple[int, int] | None:
    """What the text names, as a first wall and the first one after it: a day, or one moment."""
    is_date = _DATE.match(text) is not None
    if not is_date and not _TIME.match(text):
        return None
    try:
        found = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None
    wall = (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    return wall, wall + (86_400 if is_date else 0)


def _joined(ranges: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """The ranges as starts and ends, in order, none touching another."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(ranges):
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends
