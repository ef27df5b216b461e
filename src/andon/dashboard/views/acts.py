"""The acts by hand: each in words, and with the scope that it needs."""

from typing import TYPE_CHECKING

import msgspec

from andon.lifecycle.moves import sources
from andon.model.words import Event, State

if TYPE_CHECKING:
    from andon.engine.schedule_requests import ScheduleAct


class OneAct(msgspec.Struct, frozen=True):
    """An act on one task."""

    label: str
    scope: str  #: to which the name of its queue is added
    past: str  #: the message about the task afterwards
    look: str = ""  #: `main`, `danger`, or neither


class ManyAct(msgspec.Struct, frozen=True):
    """An act on many tasks."""

    label: str
    scope: str  #: to which the name of their queue is added
    what: str  #: what it does, shown where the act is to be confirmed
    fits: frozenset[State]
    """The states in which the act does something. Schedules have a page, and acts, of their own."""


ONE = {
    "cancel": OneAct("Cancel", "tasks:cancel:", "is cancelled, or asked to stop if it runs"),
    "cancel-by-force": OneAct(
        "Cancel by force",
        "tasks:cancel:",
        "is cancelled; its run changes nothing any more",
        "danger",
    ),
    "rerun": OneAct("Run again", "tasks:change:", "runs again", "main"),
    "run-now": OneAct("Run now", "tasks:change:", "may run now", "main"),
    "archive": OneAct("Archive", "tasks:change:", "is a dead letter"),
    "delete": OneAct("Delete", "tasks:change:", "is deleted", "danger"),
}
"""Acts on one task by their name in forms; `views.task.acts_on` says which of them a task's state
allows."""

MANY = {
    "cancel": ManyAct(
        "Cancel",
        "tasks:cancel:",
        "Tasks that wait end as cancelled; those that run are asked to stop.",
        sources(Event.CANCEL) - {State.RECURRING},
    ),
    "retry": ManyAct(
        "Run again",
        "tasks:change:",
        "What has ended runs anew, and what waits for a time runs now.",
        sources(Event.RERUN, Event.RUN_NOW) - {State.RECURRING},
    ),
    "archive": ManyAct(
        "Archive",
        "tasks:change:",
        "What waits becomes a dead letter, and does not run.",
        sources(Event.ARCHIVE),
    ),
    "delete": ManyAct(
        "Delete",
        "tasks:change:",
        "Records of what has ended go, with their results, logs and artifacts.",
        sources(Event.DELETE),
    ),
}
"""Acts on many by their name in forms."""

OF_SCHEDULES: "dict[ScheduleAct, str]" = {
    "pause": "is paused",
    "resume": "goes on",
    "run": "has borne one task now",
}
"""The acts on a schedule, and the message afterwards."""
