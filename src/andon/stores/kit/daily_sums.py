"""What a batch of events adds to the daily history, summed up before a store writes it."""

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
    add_up(events, sums)
    return sums


def add_up(
    events: "Iterable[tuple[Q, Countable]]", sums: dict[tuple[Q, int, Tally], int], times: int = 1
) -> None:
    """Add these events, each beside its queue and so many times, to the sums by queue, day and
    tally.

    Tasks that are submitted together mostly share their event; those are told by a look.
    """
    last_queue = last = key = None
    for queue, event in events:
        if event is not last or queue is not last_queue:
            last_queue, last, tally = queue, event, tally_of(event)
            key = None if tally is None else (queue, event.at // DAY_MS, tally)
        if key is not None:
            sums[key] = sums.get(key, 0) + times
