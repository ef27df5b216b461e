"""How long the board waits for its store, and how often it reads it again."""

import asyncio
import math
from collections.abc import Awaitable, Sequence
from typing import NamedTuple, TypeVar

from andon.model.errors import StoreUnavailable

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long the board waits for an answer before the store counts as away, s."""

EVERY = {
    "alerts": 5.0,
    "andon": 0.5,
    "bulk": 0.5,
    "flow": 2.0,
    "history": 15.0,
    "letters": 3.0,
    "log": 1.0,
    "looking": 0.5,
    "queue": 0.5,
    "schedules": 2.0,
    "store": 1.0,
    "task": 0.5,
    "tasks": 2.0,
    "type": 15.0,
    "types": 15.0,
    "workers": 2.0,
}
"""Seconds from one reading of a source to the next, by kind of source. Each source is read once
however many viewers it has."""

LONGEST_S = 5.0
"""The most seconds between two tries to read a source that cannot be read."""

RESTS = 60.0
"""The rest of all sources together, as a multiple of the cost of their readings: costly sources are
read more seldom, so that viewers take no noticeable share of processor time from the tasks."""

RESTS_LOOKING = 1.0
"""The same for a search that has not found anything yet: it has an end, and a viewer waits for
it."""

WAITING_COUNTS = 0.25
"""Which share of the time that a reading waits is counted as processor time of the store. The other
part is the way to the store, and on a busy machine the wait for a processor: these cost nothing."""

MOST_REST_S = 60.0
"""No reading that viewers see is older than this, s, whatever it costs."""

_TOLD = (2, 5, 15, 60)
"""The ages in seconds that viewers are shown, few so that the text does not change all the time."""

AWAY = "The store does not answer. What you see is as it was; it goes on by itself."


def until_next(every: float, failures: int) -> float:
    """Seconds until a source is read again that is read every so many seconds, and could not be
    read the last times."""
    return min(max(LONGEST_S, every), every * (1 + failures))


def fair_share(wants: Sequence[float], whole: float) -> float:
    """The most of a whole that each may have: what those that want less leave is for the others.
    Infinite if there is enough for all."""
    left = whole
    for taken, want in enumerate(sorted(wants)):
        each = left / (len(wants) - taken)
        if want > each:
            return each
        left -= want
    return math.inf


def told_age(every: float, rest: float) -> int:
    """The age in seconds to show for a reading; 0 if it is as old as usual."""
    if rest < 2 * every or rest <= 1:
        return 0
    return next((one for one in _TOLD if rest <= one), _TOLD[-1])


def cost_of(elapsed: float, busy: float) -> float:
    """Seconds that a reading cost: it took so many, and for so many of them this process was busy,
    with that or with something else."""
    busy = min(busy, elapsed)
    return busy + WAITING_COUNTS * (elapsed - busy)


class _Wanted(NamedTuple):
    every: float
    rests: float
    costs: tuple[float, float]  #: seconds that the last two readings cost

    @property
    def cost(self) -> float:
        """The smaller of the two: a reading that had to wait for something else does not cost more
        for that."""
        return min(self.costs)

    @property
    def share(self) -> float:
        """Seconds of reading for a second of rest, if the source is read as often as wanted."""
        return self.cost / self.every


class Budget:
    """The share of time that all readings of one board may take, and so when each source is read
    again."""

    def __init__(self) -> None:
        self._wanted: dict[str, _Wanted] = {}

    def rest(self, topic: str, every: float, rests: float, cost: float) -> float:
        """Seconds until a topic is read again that should be read every so many seconds and was
        read just now. All topics with the same `rests` share one budget."""
        before = self._wanted.get(topic)
        wanted = _Wanted(every, rests, (before.costs[1] if before else 0.0, cost))
        self._wanted[topic] = wanted
        shares = [one.share for one in self._wanted.values() if one.rests == rests]
        longest = max(every, MOST_REST_S)
        return min(longest, max(every, wanted.cost / fair_share(shares, 1 / rests)))

    def forget(self, topic: str) -> None:
        """Forget a topic that has no viewers any more."""
        self._wanted.pop(topic, None)


async def within(work: Awaitable[T], seconds: float = PATIENCE_S) -> T:
    """The result of a reading, within the time. Raises `StoreUnavailable` if it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise StoreUnavailable(f"The store has not answered for {seconds:.0f} seconds.") from error
