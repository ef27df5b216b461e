"""A sorted collection that is cheap to change anywhere: sorted runs of bounded length."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

P = TypeVar("P", str, tuple[int, str])

_LONGEST_RUN = 1024


class Ordered(Generic[P]):
    """Places in ascending order; adding and removing costs O(log n) and one bounded shift."""

    def __init__(self) -> None:
        self._runs: list[list[P]] = []
        self._lasts: list[P] = []  # the greatest place of each run
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, place: P) -> None:
        """Add a place that is not there yet."""
        self._size += 1
        if not self._runs:
            self._runs.append([place])
            self._lasts.append(place)
            return
        at = min(bisect_left(self._lasts, place), len(self._runs) - 1)
        run = self._runs[at]
        insort(run, place)
        self._lasts[at] = run[-1]
        if len(run) > _LONGEST_RUN:
            half = len(run) // 2
            self._runs.insert(at + 1, run[half:])
            self._lasts.insert(at, run[half - 1])
            del run[half:]

    def remove(self, place: P) -> bool:
        """Remove a place that is there; whether any other is left."""
        at = bisect_left(self._lasts, place)
        run = self._runs[at]
        index = bisect_left(run, place)
        assert run[index] == place
        del run[index]
        self._size -= 1
        if run:
            self._lasts[at] = run[-1]
        else:
            del self._runs[at], self._lasts[at]
        return bool(self._runs)

    def after(self, place: P | None) -> Iterator[P]:
        """Places greater than `place` (None: all), ascending."""
        at = 0 if place is None else bisect_right(self._lasts, place)
        for run in self._runs[at:]:
            yield from run if place is None else run[bisect_right(run, place) :]
            place = None

    def before(self, place: P | None) -> Iterator[P]:
        """Places less than `place` (None: all), descending."""
        at = len(self._runs) if place is None else bisect_left(self._lasts, place) + 1
        for run in reversed(self._runs[:at]):
            yield from reversed(run if place is None else run[: bisect_left(run, place)])
            place = None
