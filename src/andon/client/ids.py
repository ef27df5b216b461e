"""Ids that sort by the time they were made, so that a list of tasks by id is a list by age.

An id is 32 lower-case hex digits: 12 of milliseconds since 1970, 20 of randomness. Within one
process each id is greater than the one before, also within a millisecond and when the machine's
clock is set back. The time only orders ids; nothing is ever compared with it.
"""

import os
import threading
import time
from collections.abc import Callable

_RANDOM_BITS = 80
_COUNTED_BITS = 40
"""The lower half of the randomness is counted on within a millisecond; what stands before it is
written once a millisecond. Its top bit begins clear, so that counting cannot overflow."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class IdMaker:
    """Makes ids; safe to call from many threads.

    `wall` gives ms UTC and `draw` random bits, so that a simulation replays the same ids.
    """

    def __init__(
        self,
        *,
        wall: Callable[[], int] = _wall_ms,
        draw: Callable[[int], int] | None = None,
    ) -> None:
        self._wall = wall
        self._draw = draw or _system_bits
        self._lock = threading.Lock()
        self._ms = -1
        self._head = ""
        self._tail = 0

    def __call__(self) -> str:
        """The next id."""
        with self._lock:
            now = self._wall()
            if now > self._ms:
                self._ms = now
                drawn = self._draw(_RANDOM_BITS)
                self._head = f"{now:012x}{drawn >> _COUNTED_BITS:010x}"
                self._tail = drawn & (1 << _COUNTED_BITS - 1) - 1
            else:
                self._tail += 1
            return f"{self._head}{self._tail:010x}"

    def forget(self) -> None:
        """Start anew: a forked child must not count on from where its parent stands."""
        self._lock = threading.Lock()
        self._ms = -1


def _system_bits(bits: int) -> int:
    return int.from_bytes(os.urandom(bits // 8), "big")


new_id = IdMaker()
"""The ids of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=new_id.forget)
