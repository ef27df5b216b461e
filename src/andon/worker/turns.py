"""Which partition a worker asks next, so that none waits and idle workers ask few.

- Workers begin at partitions drawn by chance, so that a fleet is spread from the start.
- A worker stays where it is given all it asks for, because the next claim there will be too; but
  no longer than a moment, so that a partition with a long line keeps nobody for itself.
- Who was told that there may be work, or has just had some, looks everywhere. The slow poll, which
  only stands behind lost hints, looks at a share: together the idle workers look at every
  partition some `LOOKERS` times in each round, however many partitions there are.
"""

import math
import random
from collections.abc import Callable

STAY_S = 1.0
"""Longest that a worker stays with a partition that gives it all it asks for."""

LOOKERS = 3
"""How many idle workers look at a partition in one round of slow polls, on the average."""


class Turns:
    """The partitions of a store as one worker walks them. `clock` gives monotonic seconds."""

    def __init__(self, partitions: int, *, rng: random.Random, clock: Callable[[], float]) -> None:
        self._partitions = partitions
        self._clock = clock
        self._since = clock()
        self.partition = rng.randrange(partitions)  #: to ask now

    def looks(self, *, polls: bool, idle: int) -> int:
        """How many partitions to look at before sleeping; `polls` if nobody told of work, `idle`
        workers are there to share the looking."""
        if not polls:
            return self._partitions
        return min(max(math.ceil(LOOKERS * self._partitions / max(idle, 1)), 1), self._partitions)

    def filled(self) -> None:
        """The partition gave all that was asked for: stay, for a moment."""
        if self._clock() - self._since >= STAY_S:
            self.move_on()

    def move_on(self) -> None:
        """To the next partition."""
        self.partition = (self.partition + 1) % self._partitions
        self._since = self._clock()
