"""Adaptive spinning: a thread looks at a socket again and again for an answer that comes soon.

A caller that submits one task after another waits for each answer, and then for a processor that
fell asleep meanwhile. To wake it takes as long as Redis needs (docs/decisions/waiting-spins.md). So
the wait for the answer to a request that leaves soon after the answer before it may spin for a
moment; the event loop then reads the answer as ever.

Whether spinning pays is measured: it does not where the server shares our processor, or is on
another machine. Some requests are waited for in both ways by turns, and then many in the way that
was quicker. While the event loop has other work to do, or answers come too late, no wait spins.
"""

import math
import select
import statistics
from collections.abc import Callable
from enum import Enum, auto
from time import perf_counter, thread_time
from typing import Any

CLOSELY_S = 0.0003
"""How soon upon an answer the next request must leave, in seconds."""

TRIED = 8
"""How many requests are waited for in each way before one is chosen."""

CHOSEN = 512
"""How many are then waited for in that way: four times as many each time when it is asleep, up to
`MOST_CHOSEN`. (Spinning makes a server that shares our processor leave it.)"""

MOST_CHOSEN = 32_768

_RESTS = 0.6
"""The part of a wait in which a thread works that has nothing else to do, at the most."""


class _Phase(Enum):
    ASLEEP = auto()  #: to see what else the event loop does
    BY_TURNS = auto()  #: to see which way is quicker
    CHOSEN = auto()


class Spinner:
    """Decides for the requests of one connection, and waits. `longest`: how long the event loop may
    do nothing but look, in seconds."""

    def __init__(
        self,
        is_there: Callable[[], object],
        longest: float,
        *,
        clock: Callable[[], float] = perf_counter,
        worked: Callable[[], float] = thread_time,
    ) -> None:
        self._is_there = is_there
        self._longest = longest
        self._clock = clock
        self._worked = worked
        self._answered = -math.inf
        self._sent: float | None = None
        self._chosen = CHOSEN
        self._begin(_Phase.ASLEEP, TRIED)

    def _begin(self, phase: _Phase, requests: int, *, spins: bool = False) -> None:
        self._phase = phase
        self._spins = spins
        self._left = requests
        #: Whether answers are to be reported to it. That costs a microsecond, so not while it chose
        #: sleep.
        self.watches = spins or phase is not _Phase.CHOSEN
        self._took: dict[bool, list[float]] = {False: [], True: []}
        self._work = 0.0
        self._late = 0

    def wait(self) -> None:
        """A request has left, and no other is on its way: wait for its answer if that pays."""
        if not self.watches:
            self._left -= 1
            if not self._left:
                self._begin(_Phase.ASLEEP, TRIED)
            return
        sent = self._clock()
        if sent - self._answered > CLOSELY_S:
            return
        self._sent = sent
        if self._spins:
            end = sent + self._longest
            while not self._is_there():
                if self._clock() >= end:
                    self._late += 1
                    break
        elif self._phase is _Phase.ASLEEP:
            self._work -= self._worked()

    def answered(self) -> None:
        """An answer was read, and none is waited for now."""
        self._answered = now = self._clock()
        sent, self._sent = self._sent, None
        if sent is None:
            return
        if self._phase is _Phase.ASLEEP:
            self._work += self._worked()
        if self._phase is not _Phase.CHOSEN:
            self._took[self._spins].append(now - sent)
        if self._phase is _Phase.BY_TURNS:
            self._spins = not self._spins
        self._left -= 1
        if not self._left:
            self._choose()

    def _choose(self) -> None:
        asleep, spinning = self._took[False], self._took[True]
        match self._phase:
            case _Phase.ASLEEP:
                if self._work < _RESTS * sum(asleep):
                    self._begin(_Phase.BY_TURNS, 2 * TRIED, spins=True)
                else:  # the event loop had other work
                    self._begin(_Phase.CHOSEN, self._chosen)
            case _Phase.BY_TURNS:
                in_time = self._late < len(spinning) / 2
                sooner = in_time and statistics.median(spinning) < statistics.median(asleep)
                self._chosen = CHOSEN if sooner else min(4 * self._chosen, MOST_CHOSEN)
                self._begin(_Phase.CHOSEN, self._chosen, spins=sooner)
            case _Phase.CHOSEN:
                self._begin(_Phase.ASLEEP, TRIED)


def spinner_on(transport: Any, longest: float) -> Spinner | None:
    """For a connection's transport; None where its socket cannot be looked at so."""
    socket = transport.get_extra_info("socket")
    look = None if socket is None else look_at(socket.fileno())
    return None if look is None else Spinner(look, longest)


def look_at(socket: int) -> Callable[[], object] | None:
    """Says whether something can be read there, or never will."""
    if not hasattr(select, "poll"):
        return None
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    look = poll.poll
    return lambda: look(0)
