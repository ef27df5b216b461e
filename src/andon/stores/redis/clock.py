"""A server's clock as known here: the newest time it told, plus the time since.

So it never runs ahead of the server, and never goes back. It also knows when the server's time
jumped against ours, or when the server was not heard of for long: leases must wait then (R19).
"""

import threading
import time
from collections.abc import Callable

from andon.lifecycle.constants import JUMP_MS, LEASE_PATIENCE_MS


class RemoteClock:
    """Store time in ms UTC. Any thread may ask and tell.

    A `virtual` clock stands for the server's: its jumps are no jumps.
    """

    def __init__(self, virtual: Callable[[], int] | None = None) -> None:
        self.virtual = virtual
        self._lock = threading.Lock()
        self._told = virtual() if virtual is not None else time.time_ns() // 1_000_000
        self._told_at = time.monotonic_ns()
        self._heard = virtual is not None
        self._last = 0
        self._asked_in_vain_since: int | None = None
        self._patience = 0

    @property
    def given(self) -> bytes:
        """The time that scripts are given: none, unless it is virtual."""
        return b"" if self.virtual is None else str(self.now()).encode()

    def now(self) -> int:
        """Milliseconds since 1970 UTC, never less than before."""
        if self.virtual is not None:
            self._last = max(self._last, self.virtual())
            return self._last
        with self._lock:
            elapsed = (time.monotonic_ns() - self._told_at) // 1_000_000
            self._last = max(self._last, self._told + elapsed)
            return self._last

    def tell(self, now: int) -> None:
        """Take the time that a server gave with a reply."""
        if self.virtual is not None:
            return
        with self._lock:
            at = time.monotonic_ns()
            estimate = self._told + (at - self._told_at) // 1_000_000
            if not self._heard:
                self._heard = True
                self._last = 0  # what was known before was our own clock
            else:
                away = self._asked_in_vain_since
                if now - estimate > JUMP_MS or (
                    away is not None and (at - away) // 1_000_000 > JUMP_MS
                ):
                    self._patience = now + LEASE_PATIENCE_MS
                if now < estimate and now >= estimate - JUMP_MS:
                    self._asked_in_vain_since = None
                    return  # an older reply, or one that was long on its way
            self._asked_in_vain_since = None
            self._told, self._told_at = now, at

    def silence(self) -> None:
        """Note that the server does not answer."""
        with self._lock:
            if self._asked_in_vain_since is None:
                self._asked_in_vain_since = time.monotonic_ns()

    @property
    def patience(self) -> int:
        """Store time until which leases are not taken for run out."""
        return self._patience
