"""Times as people write them, and a schedule's as they read them."""

from datetime import UTC, datetime
from itertools import islice
from typing import Any

from andon.lifecycle.recurrence.checking import check
from andon.lifecycle.recurrence.explaining import explain
from andon.lifecycle.recurrence.times import times_of
from andon.model.recurrence import ExplainedTime, Recurrence


def ms(text: str) -> int:
    """Milliseconds since 1970 of a time in UTC."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def shown(at: int) -> str:
    """The time in UTC of milliseconds since 1970."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def checked(**fields: Any) -> Recurrence:
    recurrence = Recurrence(**fields)
    check(recurrence)
    return recurrence


def times(after: str, number: int, **fields: Any) -> list[str]:
    """The next so many times, in UTC."""
    found = times_of(checked(**fields)).after(ms(after) // 1000)
    return [shown(at * 1000) for at in islice(found, number)]


def rows(after: str, number: int, **fields: Any) -> list[ExplainedTime]:
    return explain(checked(**fields), "nightly", after=ms(after), most=number)


def local(after: str, number: int, **fields: Any) -> list[str]:
    """The next so many times, by the clocks of the zone."""
    return [row.local for row in rows(after, number, **fields)]
