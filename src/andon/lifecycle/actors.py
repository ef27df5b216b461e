"""Actors: the names in the events of moves made by hand. Pure.

Moves that follow from others (a timer, a dependency, the bound of a queue) carry none, even if a
move by hand caused them.
"""

from msgspec.structs import replace

from andon.lifecycle.apply import Moved
from andon.model.text import one_line, storable
from andon.model.words import Event

MOST_ACTOR = 100
"""Characters of an actor's name; what is longer is cut."""

BY_HAND = frozenset(
    (
        Event.CANCEL,
        Event.REQUEST_CANCEL,
        Event.SCHEDULE,
        Event.RUN_NOW,
        Event.RESCHEDULE,
        Event.REPRIORITISE,
        Event.ARCHIVE,
        Event.EDIT,
        Event.RERUN,
        Event.DELETE,
        Event.PAUSE,
        Event.RESUME,
        Event.REVISE,
    )
)
"""Events of moves that a user or program asks for."""


def actor_name(name: str) -> str:
    """The name as events carry it: one line, storable, of at most `MOST_ACTOR` characters."""
    return one_line(storable(name[:MOST_ACTOR]).strip())[:MOST_ACTOR]


def done_by(moved: Moved, actor: str) -> Moved:
    """The same move with its actor in the event, where it is one that is made by hand."""
    if not actor or moved.event.event not in BY_HAND:
        return moved
    event = replace(moved.event, actor=actor)
    status = moved.status
    if status is not None and status.events:
        status = replace(status, events=(*status.events[:-1], event))
    return replace(moved, event=event, status=status)
