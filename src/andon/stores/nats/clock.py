"""The server's clock as last told: never ahead of it, and never going back."""

import threading
import time
from datetime import datetime


class ServerClock:
    """The newest time the server told, plus the monotonic time since."""

    def __init__(self) -> None:
        self._told = 0
        self._at = 0.0
        self._lock = threading.Lock()

    def tell(self, at: int) -> None:
        """The server said that it is `at`, ms UTC."""
        with self._lock:
            if at > self._now():
                self._told, self._at = at, time.monotonic()

    def now(self) -> int:
        """Ms UTC."""
        with self._lock:
            return self._now()

    def _now(self) -> int:
        return self._told + int((time.monotonic() - self._at) * 1000) if self._told else 0


def ms_of(stamp: str) -> int:
    """Ms UTC of a time as the server writes it, with up to nine digits after the point."""
    whole, _, rest = stamp.rstrip("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 1000 + int(f"{rest[:3]:0<3}" or 0)
