"""The clock of an embedded store: wall time in ms UTC that never goes back and knows its jumps.

Times are compared across processes and restarts, so they are wall time; leases are promises about
elapsed time, so a wall clock that was set, or a machine that slept, must not end them
(docs/rulings.md, R19).
"""

import threading
import time
from collections.abc import Callable

MOST_APART_MS = 50
"""Most that the clocks of two processes on one machine are taken to differ."""


_MS = 1_000_000
"""In ns, which the hands tell: those of the machine are then asked without a step between."""


class MonotoneClock:
    """Store time: follows the wall clock forwards, and keeps its own pace when that is set back. If
    it is a little ahead, because another process was, it stands still until the wall clock has
    caught up: so two processes date their writes alike.

    Any thread may read it: leases are renewed from a thread of their own.

    `wall` (ms since 1970 UTC, may be set back or forth at any time) and `steady` (ms since some
    moment, stands still while the machine sleeps) are its hands. A `wall` given alone is its own
    steady one: virtual time may be advanced by any amount and has not jumped.
    """

    def __init__(
        self,
        wall: Callable[[], int] | None = None,
        *,
        steady: Callable[[], int] | None = None,
    ) -> None:
        steady = steady or wall
        self._wall_ns = time.time_ns if wall is None else _in_ns(wall)
        self._steady_ns = time.monotonic_ns if steady is None else _in_ns(steady)
        self._lock = threading.RLock()
        self._last = self._wall_ns() // _MS
        self._last_steady = self._steady_ns() // _MS
        self._ahead = self._last - self._last_steady

    def now(self) -> int:
        """Milliseconds since 1970 UTC, never less than before."""
        # The wall clock first: a thread that has to wait between the two would else be ahead of it
        # by its wait from then on. Conditions rather than `max`, which is slower: every report
        # reads the clock.
        with self._lock:
            wall, steady = self._wall_ns() // _MS, self._steady_ns() // _MS
            ahead = self._last - wall
            if ahead <= 0:
                self._last = wall
            elif ahead > MOST_APART_MS and steady > self._last_steady:
                self._last += steady - self._last_steady
            self._last_steady = steady
            return self._last

    def catch_up(self, seen: int) -> None:
        """Be no earlier than a time that another process has written. Rounding sets the clocks of
        two processes a millisecond apart; what is further ahead than `MOST_APART_MS` comes of a
        clock that was set since, and is no time to follow."""
        with self._lock:
            if seen - self.now() <= MOST_APART_MS:
                self._last = max(self._last, seen)

    def jumped(self) -> int:
        """Milliseconds that store time ran ahead of elapsed time since this was last asked."""
        with self._lock:
            ahead = self.now() - self._last_steady
            jump, self._ahead = ahead - self._ahead, ahead
            return jump


def _in_ns(hand: Callable[[], int]) -> Callable[[], int]:
    return lambda: hand() * _MS
