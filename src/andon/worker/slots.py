"""Slots: how many handlers run at once, and the line of those that wait for one.

A run takes its slot at the first step of its task, as its handler begins, not when it is claimed.
Handlers that wait for nothing are over within that step; one after the other, a whole claim of them
needs one slot. So a claim may bring more than may run at once (see `claims`).

What has waited for a slot for a moment is given back, for other workers to have. So is what did not
come to its first step for a moment, if there is more than may run at once: handlers that keep the
loop to themselves leave no slot taken, but others waiting.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable

from andon.worker.executors.base import RunInHand

_LONGEST_WAIT_S = 0.1
"""How long a run may wait for a slot before it is given back."""


class Slots:
    """At most `most` runs at once. `begin` is given those whose turn has come, `release` those that
    waited for too long."""

    def __init__(
        self,
        most: int,
        *,
        begin: Callable[[RunInHand], None],
        release: Callable[[RunInHand], None],
        clock: Callable[[], float],
    ) -> None:
        self._most = most
        self._begin = begin
        self._release = release
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._line: deque[tuple[RunInHand, float]] = deque()  # and since when
        self._late: asyncio.TimerHandle | None = None  #: while something waits, or did a moment ago
        self._expected_at = -math.inf  #: the newest; by the clock, as the loop's may stand still
        self.running = 0
        self.unended = 0
        """Runs that have a slot, wait for one, or are to ask for one."""
        self.given_back_at = -math.inf
        """When something that waited was given back for having waited; monotonic seconds."""

    @property
    def waiting(self) -> int:
        """Runs that have no slot yet."""
        return self.unended - self.running

    def expect(self) -> None:
        """A task was made, which is to ask for a slot at its first step."""
        self.unended += 1
        self._expected_at = self._clock()

    def take(self, run: RunInHand) -> bool:
        """Take the slot of a run that was expected; if there is none, it waits in line."""
        if self.unended > self._most and self._clock() - self._expected_at > _LONGEST_WAIT_S:
            self._give_back(run, late=True)
            return False
        if self.running < self._most:
            self.running += 1
            return True
        if self._late is None:
            self._late = self._loop.call_later(_LONGEST_WAIT_S, self._give_back_the_late)
        self._line.append((run, self._loop.time()))
        return False

    def free(self) -> None:
        """A run has ended, and whose turn it is has its slot."""
        self.unended -= 1
        if self._line:
            run, _ = self._line.popleft()
            self._begin(run)
        else:
            self.running -= 1

    def give_back(self) -> None:
        """Give back all that wait."""
        while self._line:
            self._give_back(self._line.popleft()[0])
        if self.waiting:  # their first steps come before this
            self._loop.call_soon(self.give_back)

    def _give_back_the_late(self) -> None:
        """Runs are not as quick as they were: let other workers have what waits here."""
        self._late = None
        now = self._loop.time()
        while self._line and self._line[0][1] <= now - _LONGEST_WAIT_S:
            self._give_back(self._line.popleft()[0], late=True)
        if self._line:
            since = self._line[0][1]
            self._late = self._loop.call_at(since + _LONGEST_WAIT_S, self._give_back_the_late)

    def _give_back(self, run: RunInHand, *, late: bool = False) -> None:
        self.unended -= 1
        if late:
            self.given_back_at = self._clock()
        self._release(run)
