"""Live rates: how fast tasks come and end, from counters read twice. Pure."""

from collections import deque
from collections.abc import Iterable

import msgspec

from andon.model.fleet import QueueHistory

WINDOW_MS = 10_000
"""Rates are those of the last ten seconds."""

KEPT_MS = 180_000
"""A line of the last three minutes is drawn."""


class Counted(msgspec.Struct, frozen=True):
    """Tasks that were submitted, and runs that ended."""

    submitted: int = 0
    processed: int = 0
    failed: int = 0


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """How fast it goes, per second."""

    submitted: float = 0.0
    processed: float = 0.0
    failed: float = 0.0
    is_known: bool = False  #: False until counters were read twice


class _Sample(msgspec.Struct, frozen=True):
    at: int
    days: dict[tuple[str, str], Counted]  #: by queue and day


class Sampler:
    """Counters as they were read, the newest last."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def add(self, now: int, histories: Iterable[QueueHistory]) -> None:
        """Take in what the store says now."""
        days = {
            (history.queue, day.day): Counted(day.submitted, day.processed, day.failed)
            for history in histories
            for day in history.days
        }
        if self._samples and now <= self._samples[-1].at:
            return
        self._samples.append(_Sample(now, days))
        while self._samples[0].at < now - KEPT_MS:
            self._samples.popleft()

    def rates(self, queues: Iterable[str] | None = None) -> Rates:
        """The rates of these queues, or of all."""
        if len(self._samples) < 2:
            return Rates()
        newest = self._samples[-1]
        before = next(s for s in self._samples if s.at >= newest.at - WINDOW_MS)
        if before is newest:
            before = self._samples[-2]
        seconds = (newest.at - before.at) / 1000
        wanted = None if queues is None else set(queues)
        grown = _grown(before, newest, wanted)
        return Rates(
            submitted=grown.submitted / seconds,
            processed=grown.processed / seconds,
            failed=grown.failed / seconds,
            is_known=True,
        )

    def line(self, queues: Iterable[str] | None = None) -> list[tuple[int, float, float]]:
        """Runs that ended per second, and those of them that failed, from sample to sample: when
        (ms UTC), and how many."""
        wanted = None if queues is None else set(queues)
        points: list[tuple[int, float, float]] = []
        for before, after in zip(self._samples, list(self._samples)[1:], strict=False):
            seconds = (after.at - before.at) / 1000
            grown = _grown(before, after, wanted)
            points.append((after.at, grown.processed / seconds, grown.failed / seconds))
        return points


def _grown(before: _Sample, after: _Sample, queues: set[str] | None) -> Counted:
    """What came in between. A day that was not there before began at zero; a queue that was
    deleted meanwhile counts for nothing."""
    submitted = processed = failed = 0
    for place, now in after.days.items():
        if queues is not None and place[0] not in queues:
            continue
        then = before.days.get(place) or Counted()
        submitted += max(0, now.submitted - then.submitted)
        processed += max(0, now.processed - then.processed)
        failed += max(0, now.failed - then.failed)
    return Counted(submitted, processed, failed)


def per_second(value: float) -> str:
    """A rate in few letters: `0`, `0.3`, `12`, `3.4k`."""
    if value < 0.05:
        return "0"
    if value < 10:
        return f"{value:.1f}"
    return f"{value:.0f}" if value < 1_000 else f"{value / 1_000:.1f}k"
