"""How long to wait before asking again a store that did not answer."""

import random

from andon.lifecycle.backoff import ExponentialBackoff

_BACKOFF = ExponentialBackoff(0.1, 5.0)


class Backoff:
    """Jittered waits that grow from 0.1 to 5 s until the next success."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._failures = 0

    def failed(self) -> float:
        """Seconds to wait now."""
        self._failures += 1
        return _BACKOFF.pause(self._failures, self._rng)

    def succeeded(self) -> None:
        """Begin anew with the short wait."""
        self._failures = 0
