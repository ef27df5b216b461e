"""How long to wait before something that failed is tried again: a store, a service, a connection.
(The delays between the runs of a task are in `delays`.) Pure."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from random import Random

_MOST_DOUBLINGS = 30


class ExponentialBackoff(NamedTuple):
    """Pauses that double with each failure in a row, up to a longest one."""

    first_s: float
    longest_s: float

    def bound(self, failures: int) -> float:
        """The most seconds to wait after so many failures in a row, from 1 on."""
        return min(self.first_s * 2 ** min(failures - 1, _MOST_DOUBLINGS), self.longest_s)

    def pause(self, failures: int, rng: "Random") -> float:
        """Seconds to wait after so many failures in a row, from 1 on. Half of it is random, so that
        a fleet does not come back at once."""
        return self.bound(failures) * (0.5 + 0.5 * rng.random())
