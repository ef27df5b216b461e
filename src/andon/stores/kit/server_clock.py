"""A server's clock as this process knows it: the newest time that it sent, and the time since then.

So it never runs ahead of the server: the time was true before it arrived. It never goes back
either. It notices when the server's time jumped against ours, or when the server did not answer for
long: lease expiry must wait then (docs/rulings.md, R19).
"""

import threading
import time
from collections.abc import Callable

from andon.lifecycle.constants import JUMP_MS, LEASE_PATIENCE_MS


class ServerClock:
    """Store time in ms UTC. Any thread may read and set it.

    A `virtual` clock stands for the server's: its jumps are no jumps.

    Servers that were set back by more than `JUMP_MS` are followed if `follows`: then `now` stands
    still until they have caught up. Otherwise the newest time counts; a store that keeps the server
    from going behind it sends this time along.
    """

    def __init__(self, virtual: Callable[[], int] | None = None, *, follows: bool = False) -> None:
        self.virtual = virtual
        self.newest = 0  #: the newest that the server sent
        self._follows = follows
        self._lock = threading.Lock()
        # The server's time, and when it arrived in monotonic seconds: replaced together, so that
        # readers need no lock. Before the first answer it is our own time.
        self._newest = (time.time_ns() // 1_000_000, time.monotonic())
        self._last = 0
        self._asked_in_vain_since: float | None = None
        self._patience = 0

    def now(self) -> int:
        """Milliseconds since 1970 UTC; never less than before, once the server has answered."""
        if self.virtual is not None:
            self._last = max(self._last, self.virtual())
            return self._last
        told, heard = self._newest
        estimate = told + int((time.monotonic() - heard) * 1000)
        if not self._follows:
            return estimate
        last = self._last
        if estimate == last:
            return last  # no need of the lock, as for most calls in a millisecond
        with self._lock:
            self._last = max(self._last, estimate)
            return self._last

    def tell(self, at: int) -> None:
        """Take the time that the server gave with a reply."""
        if self.virtual is not None:
            return
        if at == self.newest and self._asked_in_vain_since is None:
            return  # a reply of the same millisecond says nothing new
        with self._lock:
            told, before = self._newest
            heard = time.monotonic()
            estimate = told + int((heard - before) * 1000)
            away = self._asked_in_vain_since
            self._asked_in_vain_since = None
            if not self.newest:
                self._last = 0  # what was known before was our own clock
            else:
                jumped = at - estimate > JUMP_MS
                if jumped or (away is not None and (heard - away) * 1000 > JUMP_MS):
                    self._patience = at + LEASE_PATIENCE_MS
                if at < estimate and not (self._follows and at < estimate - JUMP_MS):
                    return  # an older reply, or one that was long on its way
            self.newest = max(self.newest, at)
            self._newest = at, heard

    def silence(self) -> None:
        """Note that the server does not answer."""
        with self._lock:
            if self._asked_in_vain_since is None:
                self._asked_in_vain_since = time.monotonic()

    @property
    def patience(self) -> int:
        """Store time until which no lease counts as expired."""
        return self._patience
