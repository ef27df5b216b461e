"""What a queue let through, read from the moves of its tasks: how many runs there were at once, and
how many claims in any stretch of time."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from andon.model.task import TaskEvent
from andon.model.words import Event, State


class Interval(NamedTuple):
    """A task was active from one time until another, in ms UTC; `end` None: it still is."""

    task: str
    start: int
    end: int | None


def active_intervals(events: Iterable[TaskEvent]) -> list[Interval]:
    """When each task was active. The events of each task come in their order.

    A claim is dated by the store, after it looked at what its queue has room for. The end of a run
    is dated when it was decided, before it was written: so the intervals are never longer than the
    runs were, and two that overlap did overlap.
    """
    began: dict[str, int] = {}
    found: list[Interval] = []
    for event in events:
        if event.event is Event.CLAIM:
            assert event.task not in began, f"{event.task} was claimed twice"
            began[event.task] = event.at
        elif event.source is State.ACTIVE and event.target is not State.ACTIVE:
            assert event.task in began, f"the log lacks the claim before {event}"
            found.append(Interval(event.task, began.pop(event.task), event.at))
    return found + [Interval(task, start, None) for task, start in began.items()]


def most_at_once(intervals: Iterable[Interval]) -> int:
    """The most intervals that share a moment; one that begins as another ends shares none."""
    steps: list[tuple[int, int]] = []
    for interval in intervals:
        if interval.end is None or interval.end > interval.start:
            steps.append((interval.start, 1))
            if interval.end is not None:
                steps.append((interval.end, -1))
    now = most = 0
    for _, step in sorted(steps):  # at one moment, ends come before beginnings
        now += step
        most = max(most, now)
    return most


def most_per_key(intervals: Iterable[Interval], key_of: Callable[[str], str]) -> dict[str, int]:
    """The same for each concurrency key."""
    by_key: dict[str, list[Interval]] = {}
    for interval in intervals:
        by_key.setdefault(key_of(interval.task), []).append(interval)
    return {key: most_at_once(some) for key, some in by_key.items()}


def most_beyond_rate(events: Iterable[TaskEvent], rate: float, burst: int) -> float:
    """By how many claims some stretch of time exceeded what a bucket lets through that is full at
    its begin: `burst`, and `rate` a second; not positive if none did."""
    times = sorted(event.at for event in events if event.event is Event.CLAIM)
    worst = -float(burst)
    least = float("inf")  # of the bucket's drawings before, see below
    for number, at in enumerate(times):
        # From claim i to claim n there are n - i + 1, and may be burst + rate * time.
        drawn = number - rate * at / 1000
        least = min(least, drawn)
        worst = max(worst, drawn - least + 1 - burst)
    return worst
