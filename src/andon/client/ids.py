"""Ids that sort by the time they were made, so that a list of tasks by id is a list by age.

An id is 32 lower-case hex digits: 12 of milliseconds since 1970, 20 of randomness. Within one
process each id is greater than the one before, also within a millisecond and when the machine's
clock is set back. The time only orders ids; nothing is ever compared with it.
"""

import itertools
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator

_RANDOM_BITS = 80
_COUNTED_BITS = 40
"""The lower half of the randomness is counted on within a millisecond; what stands before it is
written once a millisecond. Its top bit begins clear, so that counting cannot overflow."""

_MARK = 1 << _COUNTED_BITS
"""Set above what is counted, so that `hex` gives all its digits, after three of its own."""


class IdMaker:
    """Makes ids; safe to call from many threads.

    `wall` gives ms UTC and `draw` random bits, so that a simulation replays the same ids.

    Example:
        from andon import Andon
        from andon.client.ids import IdMaker

        next_id = IdMaker()
        assert next_id() < next_id()
        app = Andon("memory://", ids=next_id)
    """

    def __init__(
        self,
        *,
        wall: Callable[[], int] | None = None,
        draw: Callable[[int], int] | None = None,
    ) -> None:
        self._wall_ns = time.time_ns if wall is None else lambda: wall() * 1_000_000
        self._draw = draw or secrets.randbits
        self.forget()

    def __call__(self) -> str:
        """The next id."""
        # All three at once, so that no lock is needed within a millisecond: half the cost of an id.
        until, head, tails = self._now
        at = self._wall_ns()
        if at >= until:
            head, tails = self._next(at)
        return head + hex(next(tails))[3:]

    def _next(self, at: int) -> tuple[str, Iterator[int]]:
        """The parts that the ids of this millisecond are made of; those of a later one, if another
        thread has gone on meanwhile."""
        with self._lock:
            until, head, tails = self._now
            if at >= until:
                now = at // 1_000_000
                drawn = self._draw(_RANDOM_BITS)
                head = f"{now:012x}{drawn >> _COUNTED_BITS:010x}"
                tails = itertools.count(_MARK | drawn & (_MARK >> 1) - 1)
                self._now = ((now + 1) * 1_000_000, head, tails)
            return head, tails

    def forget(self) -> None:
        """Start anew: a forked child must not count on from where its parent stands."""
        self._lock = threading.Lock()
        self._now: tuple[int, str, Iterator[int]] = (0, "", iter(()))
        """The ns at which the millisecond ends, and what its ids are made of."""


new_id = IdMaker()
"""The ids of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=new_id.forget)
