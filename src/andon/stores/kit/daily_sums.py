"""Sums up what a batch of events adds to the daily history, before a store writes it."""

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, TypeVar

from andon.lifecycle.constants import DAY_MS
from andon.lifecycle.daily import Tally, tally_of

if TYPE_CHECKING:
    from andon.lifecycle.daily import Countable

Q = TypeVar("Q", bound=Hashable)


def summed(events: "Iterable[tuple[Q, Countable]]") -> dict[tuple[Q, int, Tally], int]:
    """How much these events, each beside its queue, add to a count: by queue, day and tally."""
    sums: dict[tuple[Q, int, Tally], int] = {}
    for queue, event in events:
        tally = tally_of(event)
        if tally is not None:
            key = (queue, event.at // DAY_MS, tally)
            sums[key] = sums.get(key, 0) + 1
    return sums
