"""The daily history: how much was counted of each queue, by day and tally."""

from collections import Counter

from andon.lifecycle.daily import first_day
from andon.model.fleet import Tallied
from andon.model.task import TaskEvent
from andon.stores.kit.daily_sums import summed


class Days:
    """Counts of the days that are kept."""

    def __init__(self) -> None:
        self._counts: dict[int, Counter[tuple[str, str]]] = {}

    def add(self, queue: str, event: TaskEvent) -> None:
        """Count an event of a task of this queue."""
        for (name, day, tally), n in summed([(queue, event)]).items():
            self._counts.setdefault(day, Counter())[name, tally] += n

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
