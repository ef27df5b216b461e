"""The times that a specification names, in order. Pure. Times here are whole seconds UTC."""

import heapq
from collections.abc import Iterator
from functools import lru_cache
from itertools import count as counted
from itertools import islice, takewhile

from andon.lifecycle.recurrence.clocks import fires
from andon.lifecycle.recurrence.cron import Cron, parse
from andon.lifecycle.recurrence.exclusions import Exclusions
from andon.lifecycle.recurrence.zones import LAST, Zone, zone
from andon.model.recurrence import Recurrence

MOST_LEFT_OUT = 10_000
"""After so many exclusions in a row there is no further time: a search must end."""


class Times:
    """A specification made ready to be asked. `InvalidSubmission` for one that names no times."""

    def __init__(self, recurrence: Recurrence) -> None:
        self.zone: Zone = zone(recurrence.tz)
        self.crons: tuple[Cron, ...] = tuple(parse(text) for text in recurrence.cron)
        self.exclusions = Exclusions(recurrence.exclude)
        self._every = recurrence.every
        self._anchor = (recurrence.anchor or 0) // 1000
        self._start = None if recurrence.start is None else -(-recurrence.start // 1000)
        self._end = LAST if recurrence.end is None else min(-(-recurrence.end // 1000), LAST)

    def after(self, after: int) -> Iterator[int]:
        """The times strictly later than `after`, in order, each once."""
        if self._start is not None:
            after = max(after, self._start - 1)
        left_out = 0
        resume: int | None = after
        while resume is not None and left_out < MOST_LEFT_OUT:
            begin, resume = resume, None
            for at in self._named(begin):
                if at >= self._end:
                    return
                free = self.exclusions.free_from(at, self.zone) if self.exclusions else None
                if free is not None:
                    left_out += 1
                    resume = free - 1
                    break
                left_out = 0
                yield at

    def next(self, after: int) -> int | None:
        """The first time strictly later than `after`."""
        return next(self.after(after), None)

    def latest(self, after: int, until: int) -> int | None:
        """The last time later than `after`, up to and with `until`. Its cost grows with the
        logarithm of what lies between, not with the number of times."""
        low, back = None, 1
        while low is None:  # go back by longer and longer steps
            begin = max(after, until - back)
            low = self._within(begin, until)
            if low is None and begin <= after:
                return None
            back *= 2
        high = until
        while high - low > 1:  # `low` is a time; whether one lies beyond `middle` only falls
            middle = (low + high) // 2
            found = self._within(middle, until)
            if found is None:
                high = middle
            else:
                low = found
        return self._within(low, until) or low

    def count(self, after: int, before: int, most: int) -> int:
        """How many times are later than `after` and before `before`, counted up to `most`."""
        if self._every is not None and not self.exclusions:
            first = self.next(after)
            end = min(before, self._end)
            if first is None or first >= end:
                return 0
            return min((end - 1 - first) // self._every + 1, most)
        return sum(1 for _ in islice(takewhile(lambda at: at < before, self.after(after)), most))

    def _within(self, after: int, until: int) -> int | None:
        found = self.next(after)
        return None if found is None or found > until else found

    def _named(self, after: int) -> Iterator[int]:
        """All that is named, before exclusions; what several expressions name, once."""
        if self._every is not None:
            missed = (after - self._anchor) // self._every
            yield from counted(self._anchor + (missed + 1) * self._every, self._every)
            return
        if len(self.crons) == 1:
            yield from fires(self.crons[0], self.zone, after)
            return
        last = after
        for at in heapq.merge(*(fires(cron, self.zone, after) for cron in self.crons)):
            if at > last:
                yield at
                last = at


@lru_cache(maxsize=1024)
def times_of(recurrence: Recurrence) -> Times:
    """The times of a specification. Remembered, since the same schedules fire again and again."""
    return Times(recurrence)
