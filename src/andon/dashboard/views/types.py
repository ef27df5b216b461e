"""Task types over the last hour and day, from the samples that the roll-ups of minutes have."""

import msgspec

from andon.lifecycle.minutes import added
from andon.model.minutes import MinuteCounts, MinuteHistory, MinuteSeries

MOST_ROWS = 100
"""How many types are listed: those with the most ended runs."""


class TypeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One type, from its samples."""

    name: str
    hour: MinuteCounts
    day: MinuteCounts  #: without how long runs waited and took


class Types(msgspec.Struct, frozen=True, kw_only=True):
    """The types with runs that ended in the last day."""

    rows: list[TypeRow]
    more: int  #: how many types are not listed
    whole: bool  #: every run that ended was sampled, except of discarded tasks
    bands_ms: tuple[int, ...]


def types_of(hour: MinuteHistory, day: MinuteHistory) -> Types:
    """A row for each type, those with the most ended runs first."""
    of_hour = {one.name: added(point.counts for point in one.points) for one in hour.series}
    ended = [(one.name, _ends_of(one)) for one in day.series]
    ended.sort(key=lambda one: (-one[1].finished - one[1].failed, one[0]))
    rows = [
        TypeRow(name=name, hour=of_hour.get(name, MinuteCounts()), day=counts)
        for name, counts in ended[:MOST_ROWS]
    ]
    more = max(0, len(ended) - MOST_ROWS)
    return Types(rows=rows, more=more, whole=hour.whole and day.whole, bands_ms=day.bands_ms)


def _ends_of(series: MinuteSeries) -> MinuteCounts:
    """Runs that ended. Bands of a whole day of many types would take long to add."""
    points = [point.counts for point in series.points]
    return MinuteCounts(
        finished=sum(one.finished for one in points), failed=sum(one.failed for one in points)
    )
