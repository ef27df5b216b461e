"""Waiting awake for an answer that is about to come.

Who submits one task after another waits some 60 µs for each answer, and then for a processor that
fell asleep meanwhile: to wake it takes nearly as long again (docs/decisions/redis-store.md). So a
request that leaves closely upon the answer before it may be waited for awake: its socket is looked
at again and again for a moment, and the answer is then read by the event loop as ever.

Whether that pays is measured, not supposed: it does not where the server shares our processor, or
is on another machine. Some requests are waited for asleep, some awake, and then many the way that
was quicker; and only asleep while the event loop has other work to do.
"""

import math
import select
import statistics
from collections.abc import Callable
from enum import Enum, auto
from time import perf_counter, thread_time

CLOSELY_S = 0.0001
"""How soon upon an answer the next request must leave, in seconds."""

LONGEST_S = 0.00015
"""How long the event loop does nothing but look, in seconds."""

TRIED = 8
"""How many requests are waited for in each way before one is chosen."""

CHOSEN = 512
"""How many are then waited for in that way: four times as many each time when it is asleep, up to
`MOST_CHOSEN`. (To be looked for awake makes a server that shares our processor leave it.)"""

MOST_CHOSEN = 32_768

_RESTS = 0.6
"""The part of a wait in which a thread works that has nothing else to do, at the most."""


class _Phase(Enum):
    ASLEEP = auto()  #: tried
    AWAKE = auto()  #: tried
    CHOSEN = auto()


class Awake:
    """Decides for the requests of one connection, and waits."""

    def __init__(
        self,
        is_there: Callable[[], object],
        *,
        clock: Callable[[], float] = perf_counter,
        worked: Callable[[], float] = thread_time,
    ) -> None:
        self._is_there = is_there
        self._clock = clock
        self._worked = worked
        self._answered = -math.inf
        self._sent: float | None = None
        self._chosen = CHOSEN
        self._begin(_Phase.ASLEEP)

    def _begin(self, phase: _Phase, *, awake: bool = False) -> None:
        self._phase = phase
        self._awake = awake
        self._left = self._chosen if phase is _Phase.CHOSEN else TRIED
        #: Whether it is to be told of answers. It costs a microsecond, so not while it chose sleep.
        self.watches = awake or phase is not _Phase.CHOSEN
        self._took: list[float] = []
        self._work = 0.0

    def wait(self) -> None:
        """A request has left, and no other is on its way: wait for its answer if that pays."""
        if not self.watches:
            self._left -= 1
            if not self._left:
                self._begin(_Phase.ASLEEP)
            return
        sent = self._clock()
        if sent - self._answered > CLOSELY_S:
            return
        self._sent = sent
        if self._awake:
            end = sent + LONGEST_S
            while not self._is_there() and self._clock() < end:
                pass
        else:
            self._work -= self._worked()

    def answered(self) -> None:
        """An answer was read, and none is waited for now."""
        self._answered = now = self._clock()
        sent, self._sent = self._sent, None
        if sent is None:
            return
        if not self._awake:
            self._work += self._worked()
        if self._phase is not _Phase.CHOSEN:
            self._took.append(now - sent)
        self._left -= 1
        if not self._left:
            self._choose()

    def _choose(self) -> None:
        match self._phase:
            case _Phase.ASLEEP:
                self._asleep = statistics.median(self._took)
                if self._work < _RESTS * sum(self._took):
                    self._begin(_Phase.AWAKE, awake=True)
                else:  # the event loop had other work
                    self._begin(_Phase.CHOSEN)
            case _Phase.AWAKE:
                sooner = statistics.median(self._took) < self._asleep
                self._chosen = CHOSEN if sooner else min(4 * self._chosen, MOST_CHOSEN)
                self._begin(_Phase.CHOSEN, awake=sooner)
            case _Phase.CHOSEN:
                self._begin(_Phase.ASLEEP)


def awake_at(socket: int) -> Awake | None:
    """For a connected socket; None where sockets cannot be looked at so."""
    look = look_at(socket)
    return None if look is None else Awake(look)


def look_at(socket: int) -> Callable[[], object] | None:
    """Says whether something can be read there, or never will."""
    if not hasattr(select, "poll"):
        return None
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    look = poll.poll
    return lambda: look(0)
