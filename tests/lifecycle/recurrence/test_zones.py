"""Every zone of the tz database, around every change of its clocks in five years."""

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest

from andon.lifecycle.recurrence.times import times_of
from andon.lifecycle.recurrence.zones import zone
from andon.model.recurrence import Recurrence
from lifecycle.recurrence.reference import (
    EPOCH,
    EXPRESSIONS,
    MINUTE,
    WARM_UP,
    expected,
    walk,
)

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
LAST = datetime(2031, 1, 1, tzinfo=UTC)
STEP = timedelta(hours=12)
AROUND = timedelta(hours=5)
FARTHEST = timedelta(hours=15)
"""No clock is farther from UTC."""

OF_EACH = 3
"""Expressions that are compared at one change: others at the next, so that all see all hours. Zones
whose clocks do the same there get the same, so that the reference is asked once for them."""

NAMES = sorted(zoneinfo.available_timezones())
STEPS = [(FIRST + n * STEP).replace(tzinfo=None) for n in range((LAST - FIRST) // STEP + 1)]


def changes(name: str) -> list[datetime]:
    """The minutes in which the clocks of the zone are set."""
    info, found = ZoneInfo(name), set[datetime]()
    offsets = [info.utcoffset(wall) for wall in STEPS]
    for place in range(1, len(STEPS)):
        if offsets[place] != offsets[place - 1]:
            low, high = STEPS[place - 1], STEPS[place]
            found.add(change_between(info, low.replace(tzinfo=UTC), high.replace(tzinfo=UTC)))
    return sorted(found)


def change_between(info: ZoneInfo, low: datetime, high: datetime) -> datetime:
    low, high = low - FARTHEST, high + FARTHEST
    before = low.astimezone(info).utcoffset()
    while high - low > MINUTE:
        middle = low + (high - low) // MINUTE // 2 * MINUTE
        if middle.astimezone(info).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high


def found(text: str, name: str, start: datetime, end: datetime) -> Iterator[int]:
    """What the code under test finds, in minutes since 1970 UTC."""
    first, last = ((at - EPOCH) // timedelta(seconds=1) for at in (start, end))
    times = times_of(Recurrence(cron=(text,), tz=name)).after(first - 1)
    for at in takewhile(lambda at: at < last, times):
        assert at % 60 == 0
        yield at // 60


def test_there_are_zones_to_look_at() -> None:
    assert len(NAMES) > 400
    assert {"Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca"} <= set(NAMES)


@pytest.mark.slow
def test_every_zone_agrees_with_the_reference_around_every_change() -> None:
    compared, wrong = set[str](), list[str]()
    for name in NAMES:
        info = ZoneInfo(name)
        for at in changes(name) or [FIRST + STEP]:
            start, end = at - AROUND, at + AROUND
            runs = walk(info, start - WARM_UP, end)
            span = (start - EPOCH) // MINUTE, (end - EPOCH) // MINUTE
            first = sum(span) + sum(offset for _, offset in runs) // 15
            for place in range(first, first + OF_EACH):
                text = EXPRESSIONS[place % len(EXPRESSIONS)]
                wanted = expected(text, runs, *span)
                later = at + (place % 3) * 20 * MINUTE  # asked anew from the change on, or after it
                rest = tuple(one for one in wanted if one >= (later - EPOCH) // MINUTE)
                if (
                    tuple(found(text, name, start, end)) != wanted
                    or tuple(found(text, name, later, end)) != rest
                ):
                    wrong.append(f"{text} in {name} around {at}")
                compared.add(text)
    assert compared == set(EXPRESSIONS)
    assert wrong == []


def test_every_change_is_found_once_whatever_is_asked_first() -> None:
    name = "Africa/Casablanca"  # two changes a month apart, at dates that no rule gives
    seconds = [(at - EPOCH) // timedelta(seconds=1) for at in changes(name)]
    span = seconds[0] - 1, seconds[-1]
    assert len(seconds) >= 9
    assert [change.at for change in zone(name).changes(*span)] == seconds
    for at in seconds:
        change = zone(name).next_change(at - 1, at)
        assert change is not None
        assert (change.at, zone(name).offset(at - 1)) == (at, change.before)
        assert zone(name).offset(at) == change.after
        assert zone(name).next_change(at, at + 3600) is None
