"""One bad item in something shared: it fails alone, it is named, and it is left alone for a while.

A loop that many tasks share meets what it can neither decide nor write: a record of a newer
release, a number that overflows, a defect. The others are to go on as if it were not there; and it
is not to come again with each round.
"""

import asyncio
import logging
from collections import OrderedDict

from andon.lifecycle.backoff import ExponentialBackoff
from andon.model.errors import AndonError

log = logging.getLogger("andon.engine")

ANYTHING = (Exception,)
"""The errors that `contract.isolation.each_alone` may attribute to one item in a loop that has to
go on."""

BACKOFF = ExponentialBackoff(10.0, 3_600.0)
"""How long what failed is left alone."""

_MOST_KNOWN = 10_000


def may_be_of_one(error: BaseException) -> bool:
    """Whether an error of a shared call may be the fault of one of its items: not an error of the
    store itself, nor a connection that broke."""
    return isinstance(error, Exception) and not isinstance(error, AndonError | OSError)


class Culprits:
    """Items that failed in one loop, by name; those that failed longest ago are dropped."""

    def __init__(self, what: str) -> None:
        """`what` was tried, as log lines say it: "The timer of task"."""
        self._what = what
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()  # times, left alone until

    def failed(self, name: str, why: object) -> float:
        """Note and log a failure; the seconds for which the item is to be left alone, which grow
        with each failure."""
        times, _ = self._failed.pop(name, (0, 0.0))
        seconds = BACKOFF.bound(times + 1)
        self._failed[name] = (times + 1, asyncio.get_running_loop().time() + seconds)
        while len(self._failed) > _MOST_KNOWN:
            self._failed.popitem(last=False)
        error = why if isinstance(why, BaseException) else None
        log.error(
            "%s %s failed alone, and is left alone for %d s: %s",
            self._what,
            name,
            seconds,
            why if error is None else f"{type(error).__name__}: {error}",
            exc_info=error,
        )
        return seconds

    def is_left_alone(self, name: str) -> bool:
        """Whether the item failed a short while ago."""
        if not self._failed:
            return False
        _, until = self._failed.get(name, (0, 0.0))
        return asyncio.get_running_loop().time() < until

    def succeeded(self, name: str) -> None:
        """Forget the item's earlier failures."""
        if self._failed:
            self._failed.pop(name, None)
