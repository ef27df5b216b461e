"""The server's clock as this process knows it: the newest time it was told, and the time since."""

import threading
import time
from collections.abc import Callable


class ServerTime:
    """Never goes back, and never runs ahead of the server: what it was told was true before it was
    heard. Any thread may ask. With a `clock` that is the time, for the server too."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._newest = (0, 0.0)  # told, heard: replaced as one, so that readers need no lock

    @property
    def virtual(self) -> bool:
        """Whether time is not the server's."""
        return self._clock is not None

    def now(self) -> int:
        """Milliseconds since 1970 UTC."""
        if self._clock is not None:
            return self._clock()
        told, heard = self._newest
        return told + int((time.monotonic() - heard) * 1000)

    def argument(self) -> int:
        """What statements are given: the newest time told, which the server will not go behind; or
        the time itself, as a negative number."""
        return -self._clock() if self._clock is not None else self._newest[0]

    def told(self, at: int) -> None:
        """The server said what time it is."""
        heard = time.monotonic()
        with self._lock:
            before, since = self._newest
            if at >= before + int((heard - since) * 1000):
                self._newest = at, heard
