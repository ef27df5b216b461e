"""A slow reference for cron expressions in time zones: it asks every minute what the clocks show.

It shares nothing with the code it is held against: it has a parser of its own, knows no changes of
the clocks but those that it walks into, and computes no time but by adding a minute. The rules:

- by the clock (minute or hour begins with `*`): each minute at which the clocks show a match;
- fixed times: each minute at which the clocks first show a match, or have gone past one unshown.
"""

import calendar
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

WARM_UP = timedelta(hours=4)
"""How long before a span the walk begins, to know what the clocks have shown: longer than any
clock was set back by in the years that are compared."""

DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")

Runs = tuple[tuple[int, int], ...]
"""What a zone's clocks do in a span: minutes since 1970 UTC, and their offset from then on."""


class Expression:
    """A cron expression of five fields."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.minute, self.hour, self.dom, self.month, self.dow = text.upper().split()
        self.by_clock = self.minute.startswith("*") or self.hour.startswith("*")
        self.both_days = self.dom.startswith("*") or self.dow.startswith("*")
        self.of_day = {
            hour * 60 + minute
            for hour in numbers(self.hour, 0, 23)
            for minute in numbers(self.minute, 0, 59)
        }
        self.months = numbers(self.month, 1, 12, MONTHS)
        self._on: dict[int, set[int]] = {}

    def matches(self, wall: int) -> bool:
        """`wall` counts minutes from 1970 on the clock."""
        day, of_day = divmod(wall, 1440)
        try:
            return of_day in self._on[day]
        except KeyError:
            matches = self.matches_date((EPOCH + timedelta(days=day)).date())
            self._on[day] = self.of_day if matches else set()
            return of_day in self._on[day]

    def matches_date(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_month = any(matches_dom(term, day) for term in self.dom.split(","))
        by_week = any(matches_dow(term, day) for term in self.dow.split(","))
        return (by_month and by_week) if self.both_days else (by_month or by_week)


def matches_dom(term: str, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    if term == "L":
        return day.day == last
    if term == "LW":
        weekdays = [n for n in range(1, last + 1) if day.replace(day=n).weekday() < 5]
        return day.day == weekdays[-1]
    return day.day in numbers(term, 1, 31)


def matches_dow(term: str, day: date) -> bool:
    of_week = day.isoweekday() % 7
    same = [n for n in month_days(day) if day.replace(day=n).isoweekday() % 7 == of_week]
    if term.endswith("L"):
        return int(term[:-1]) % 7 == of_week and day.day == same[-1]
    if "#" in term:
        wanted, nth = term.split("#")
        (of_wanted,) = numbers(wanted, 0, 7, DAYS)
        return of_wanted % 7 == of_week and same.index(day.day) + 1 == int(nth)
    return of_week in {n % 7 for n in numbers(term, 0, 7, DAYS)}


def month_days(day: date) -> range:
    return range(1, calendar.monthrange(day.year, day.month)[1] + 1)


def numbers(field: str, low: int, high: int, names: Sequence[str] = ()) -> set[int]:
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            begin, end = low, high
        else:
            begin = number(first, low, names)
            end = number(last, low, names) if last else (high if step else begin)
        found |= set(range(begin, end + 1, int(step or 1)))
    return found


def number(text: str, low: int, names: Sequence[str]) -> int:
    return names.index(text) + low if text in names else int(text)


def walk(zone: ZoneInfo, start: datetime, end: datetime) -> Runs:
    """Every minute of the span is asked for its offset; what stays the same is noted once."""
    runs: list[tuple[int, int]] = []
    before: timedelta | None = None
    for minute in range((start - EPOCH) // MINUTE, (end - EPOCH) // MINUTE):
        offset = datetime.fromtimestamp(minute * 60, zone).utcoffset()
        assert offset is not None
        if offset != before:
            runs.append((minute, offset // MINUTE))
            before = offset
    return tuple(runs)


@lru_cache(maxsize=2048)
def expected(text: str, runs: Runs, start: int, end: int) -> tuple[int, ...]:
    """The minutes (since 1970 UTC) from `start` to before `end` at which the expression fires; the
    walk began before."""
    expression = parsed(text)
    found: list[int] = []
    highest = runs[0][0] + runs[0][1] - 1
    for at, wall in shown(runs, end):
        if expression.by_clock or wall == highest + 1:
            fires = expression.matches(wall)
        else:
            fires = any(expression.matches(passed) for passed in range(highest + 1, wall + 1))
        highest = max(highest, wall)
        if fires and at >= start:
            found.append(at)
    return tuple(found)


@lru_cache(maxsize=64)
def parsed(text: str) -> Expression:
    return Expression(text)


def shown(runs: Runs, end: int) -> Iterator[tuple[int, int]]:
    """Every minute of the span, and what the clocks show then."""
    for place, (first, offset) in enumerate(runs):
        last = runs[place + 1][0] if place + 1 < len(runs) else end
        for at in range(first, last):
            yield at, at + offset


EXPRESSIONS = (
    "30 2 * * *",
    "0 0 * * *",
    "15,45 0-4 * * *",
    "59 23 * * *",
    "0 3 * * 0",
    "30 1 L * *",
    "20 2 * * 7L",
    "0 0 1,15 * 1#2",
    "5 0-23/2 * * *",
    "0 2 LW 3-11 *",
    "*/15 2 * * *",
    "0 * * * *",
    "*/20 * * * *",
    "* 0 * * *",
    "*/30 1-3 * * SUN",
    "5 */2 * * *",
    "10 */3 */2 * MON-FRI",
)
"""What is compared: fixed times and such by the clock, near the hours at which clocks are set."""
