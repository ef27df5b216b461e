"""The daily history: how much was counted of each queue, by day and tally."""

from collections import Counter, defaultdict

from andon.lifecycle.daily import Tally, day_of, first_day
from andon.model.fleet import Tallied


class Days:
    """Counts of the days that are kept."""

    def __init__(self) -> None:
        self._counts: defaultdict[int, Counter[tuple[str, str]]] = defaultdict(Counter)

    def add(self, queue: str, at: int, tally: Tally | None) -> None:
        """Count an event of a task of this queue, at that time (ms UTC)."""
        if tally is not None:
            self._counts[day_of(at)][queue, tally] += 1

    def read(self, queue: str | None, since: int) -> list[Tallied]:
        """What was counted of a queue, or of all, from a day on."""
        return [
            Tallied(name, day, tally, n)
            for day, counts in self._counts.items()
            if day >= since
            for (name, tally), n in counts.items()
            if queue is None or name == queue
        ]

    def trim(self, now: int) -> None:
        """Forget the days that are not kept any more."""
        for day in [day for day in self._counts if day < first_day(now)]:
            del self._counts[day]
