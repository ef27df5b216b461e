"""Finds the moves of which a worker must be hinted: those that others made of a run it holds. Pure.

A worker that is hinted renews all of its leases at once, so its own reports never hint it.
"""

from andon.model.task import Status
from andon.model.words import Event, State

BY_OTHERS = frozenset(
    (Event.REQUEST_CANCEL, Event.CANCEL, Event.EXPIRE, Event.LOSE, Event.SILENCE, Event.SET_ASIDE)
)
"""Moves of a run in hand that others make; its worker makes all the others."""


_ACTIVE = State.ACTIVE  # see `admission`


def interrupted_worker(before: Status, event: Event) -> str:
    """The worker whose run in hand this move ends or asks to stop, if others made the move; else
    an empty string."""
    return before.worker if before.state is _ACTIVE and event in BY_OTHERS else ""
