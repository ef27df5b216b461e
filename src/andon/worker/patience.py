"""How long to wait before asking again a store that did not answer."""

import random

FIRST_S = 0.1
MOST_S = 5.0


class Patience:
    """Jittered waits that grow from 0.1 to 5 s until the next success."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._wait = FIRST_S

    def failed(self) -> float:
        """Seconds to wait now. Half of it is random, so that a fleet does not return at once."""
        wait, self._wait = self._wait, min(self._wait * 2, MOST_S)
        return wait * (0.5 + 0.5 * self._rng.random())

    def succeeded(self) -> None:
        """Begin anew with the short wait."""
        self._wait = FIRST_S
