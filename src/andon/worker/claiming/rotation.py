"""Chooses the partition a worker claims from next, so that no partition waits long and idle workers
ask few.

- Each worker goes round in an order of its own, drawn by chance. So a fleet is spread from the
  start, and spreads again within a round when work appears elsewhere. If all workers went the same
  way, workers that once met would stay together.
- A worker stays at a partition that fills its claim, because the next claim will be filled, too;
  but only for a moment, so that a partition with a long queue keeps no worker to itself: the fewer
  workers there are for the partitions, the shorter.
- A worker that got a hint, or has just had work, asks every partition. The slow poll, which only
  makes up for lost hints, asks a share of them: together the idle workers look at every partition
  some `LOOKERS` times in each round, however many partitions there are.
"""

import math
import random
from collections.abc import Callable

SHORTEST_STAY_S, LONGEST_STAY_S = 0.1, 1.0
"""How long a worker stays with a partition that gives it all it asks for. Leaving costs a claim at
each of the others, if those have nothing."""

ROUND_S = 2.0
"""How long all workers together take, within those bounds, to ask every partition."""

LOOKERS = 3
"""How many idle workers look at a partition in one round of slow polls, on the average."""


class PartitionRotation:
    """The partitions of a store as one worker walks them. `clock` gives monotonic seconds."""

    def __init__(self, partitions: int, *, rng: random.Random, clock: Callable[[], float]) -> None:
        self._partitions = partitions
        self._clock = clock
        self._since = clock()
        self._round = list(range(partitions))
        rng.shuffle(self._round)
        self._at = 0
        self.partition = self._round[0]  #: the one to ask now
        self.workers = 1  #: that are alive, as last known
        self.idle = 1  #: of those, the ones with room; this one included

    def partitions_to_poll(self, *, polls: bool) -> int:
        """How many partitions to ask before sleeping; `polls`: no hint came, this is a poll."""
        if not polls:
            return self._partitions
        return min(math.ceil(LOOKERS * self._partitions / self.idle), self._partitions)

    def filled(self) -> None:
        """The partition filled the claim: stay, for a moment."""
        stay = ROUND_S * self.workers / self._partitions
        if self._clock() - self._since >= min(max(stay, SHORTEST_STAY_S), LONGEST_STAY_S):
            self.move_on()

    def move_on(self) -> None:
        """To the next partition."""
        self._at = (self._at + 1) % self._partitions
        self.partition = self._round[self._at]
        self._since = self._clock()
