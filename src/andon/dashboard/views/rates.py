"""Computes live rates: how many tasks come and end per second, from counters read twice. Pure."""

import itertools
from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from andon.model.fleet import QueueHistory

WINDOW_MS = 10_000
"""Rates are of the last ten seconds."""

KEPT_MS = 180_000
"""The line shows the last three minutes."""

STEP_MS = 2_000
"""The span of one point of that line."""


class Counted(msgspec.Struct, frozen=True):
    """Tasks that were submitted, and runs that ended."""

    submitted: int = 0
    processed: int = 0
    failed: int = 0


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Rates, per second."""

    submitted: float = 0.0
    processed: float = 0.0
    failed: float = 0.0
    is_known: bool = False  #: False until counters were read twice


class _Sample(msgspec.Struct, frozen=True):
    at: int
    grown: dict[str, Counted]  #: the growth since the sample before, by queue, if any


class Sampler:
    """The growth of counters from reading to reading, the newest last. Readings within a step of
    time are one sample, so that the cost of a line does not depend on how often it is read."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()
        self._days: dict[tuple[str, str], Counted] = {}  # as read last, by queue and day

    def add(self, now: int, histories: Iterable[QueueHistory]) -> None:
        """Add the counters of a reading."""
        samples = self._samples
        if samples and now <= samples[-1].at:
            return
        days = {
            (history.queue, day.day): Counted(day.submitted, day.processed, day.failed)
            for history in histories
            for day in history.days
        }
        sample = _Sample(now, _grown(self._days, days) if samples else {})
        self._days = days
        # The growth since the first sample is in the others, so nothing is added to the first.
        if len(samples) > 1 and _step(samples[-1].at) == _step(now):
            sample = _Sample(now, _sum((samples.pop().grown, sample.grown)))
        samples.append(sample)
        while _step(samples[0].at) < _step(now - KEPT_MS):
            samples.popleft()

    def rates(self, queues: Iterable[str] | None = None) -> Rates:
        """The rates of these queues, or of all."""
        if len(self._samples) < 2:
            return Rates()
        newest = self._samples[-1]
        since = [one for one in self._samples if one.at >= newest.at - WINDOW_MS]
        before, *after = since if len(since) > 1 else list(self._samples)[-2:]
        seconds = (newest.at - before.at) / 1000
        grown = _of(_sum(one.grown for one in after), queues)
        return Rates(
            submitted=grown.submitted / seconds,
            processed=grown.processed / seconds,
            failed=grown.failed / seconds,
            is_known=True,
        )

    def line(self, queues: Iterable[str] | None = None) -> list[tuple[int, float, float]]:
        """Runs that ended per second, and those of them that failed, from sample to sample: the end
        of its step (ms UTC), and how many."""
        wanted = None if queues is None else set(queues)
        points: list[tuple[int, float, float]] = []
        for before, after in itertools.pairwise(self._samples):
            seconds = (after.at - before.at) / 1000
            grown = _of(after.grown, wanted)
            ends = (_step(after.at) + 1) * STEP_MS
            points.append((ends, grown.processed / seconds, grown.failed / seconds))
        return points


def _step(at: int) -> int:
    return at // STEP_MS


def _grown(
    before: Mapping[tuple[str, str], Counted], after: Mapping[tuple[str, str], Counted]
) -> dict[str, Counted]:
    """The growth between two readings, by queue. A day that did not exist before began at zero; a
    queue that was deleted meanwhile is not counted."""
    grown: dict[str, Counted] = {}
    for (queue, day), now in after.items():
        then = before.get((queue, day)) or Counted()
        if now != then:
            more = Counted(
                max(0, now.submitted - then.submitted),
                max(0, now.processed - then.processed),
                max(0, now.failed - then.failed),
            )
            grown[queue] = _both(grown[queue], more) if queue in grown else more
    return grown


def _sum(several: Iterable[Mapping[str, Counted]]) -> dict[str, Counted]:
    summed: dict[str, Counted] = {}
    for grown in several:
        for queue, more in grown.items():
            summed[queue] = _both(summed[queue], more) if queue in summed else more
    return summed


def _of(grown: Mapping[str, Counted], queues: Iterable[str] | None) -> Counted:
    """The growth of these queues together, or of all."""
    names = grown.keys() if queues is None else grown.keys() & set(queues)
    found = Counted()
    for name in names:
        found = _both(found, grown[name])
    return found


def _both(one: Counted, other: Counted) -> Counted:
    return Counted(
        one.submitted + other.submitted,
        one.processed + other.processed,
        one.failed + other.failed,
    )


def per_second(value: float) -> str:
    """A rate in few characters: `0`, `0.3`, `12`, `3.4k`."""
    if value < 0.05:
        return "0"
    if value < 10:
        return f"{value:.1f}"
    return f"{value:.0f}" if value < 1_000 else f"{value / 1_000:.1f}k"
