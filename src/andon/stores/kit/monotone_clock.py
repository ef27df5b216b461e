"""The clock of an embedded store: wall time in ms UTC that never goes back and knows its jumps.

Times are compared across processes and restarts, so they are wall time; leases are promises about
elapsed time, so a wall clock that was set, or a machine that slept, must not end them (R19).
"""

import threading
import time
from collections.abc import Callable

MOST_APART_MS = 50
"""Most that the clocks of two processes on one machine are taken to differ."""


def wall_ms() -> int:
    """Wall time in ms since 1970 UTC; may be set back or forth at any time."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Elapsed time in ms since some fixed moment; stands still while the machine sleeps."""
    return time.monotonic_ns() // 1_000_000


class MonotoneClock:
    """Store time: follows the wall clock forwards, and keeps its own pace when that is set back.
    If it is a little ahead, as of another process, it waits until the wall clock is there: what two
    processes write is dated alike.

    Any thread may ask: leases are renewed from a thread of their own.

    A `wall` given alone is its own steady clock: virtual time may be advanced by any amount and
    has not jumped.
    """

    def __init__(
        self,
        wall: Callable[[], int] | None = None,
        *,
        steady: Callable[[], int] | None = None,
    ) -> None:
        self._wall = wall or wall_ms
        self._steady = steady or wall or steady_ms
        self._lock = threading.Lock()
        self._last = self._wall()
        self._last_steady = self._steady()
        self._ahead = self._last - self._last_steady

    def now(self) -> int:
        """Milliseconds since 1970 UTC, never less than before."""
        with self._lock:
            return self._advance()

    def catch_up(self, seen: int) -> None:
        """Be no earlier than a time that another process has written. Rounding sets the clocks of
        two processes a millisecond apart; what is further ahead than `MOST_APART_MS` comes of a
        clock that was set since, and is no time to follow."""
        with self._lock:
            if seen - self._advance() <= MOST_APART_MS:
                self._last = max(self._last, seen)

    def jumped(self) -> int:
        """Milliseconds that store time ran ahead of elapsed time since this was last asked."""
        with self._lock:
            ahead = self._advance() - self._last_steady
            jump, self._ahead = ahead - self._ahead, ahead
            return jump

    def _advance(self) -> int:
        # The wall clock first: a thread that has to wait between the two would else be ahead of it
        # by its wait from then on. Conditions rather than `max`: every report asks what time it is.
        wall, steady = self._wall(), self._steady()
        ahead = self._last - wall
        if ahead <= 0:
            self._last = wall
        elif ahead > MOST_APART_MS and steady > self._last_steady:
            self._last += steady - self._last_steady
        self._last_steady = steady
        return self._last
