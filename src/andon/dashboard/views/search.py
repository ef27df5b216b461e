"""What a text that is looked for turned out to be."""

import msgspec

from andon.dashboard.views.tasks import TaskFilter


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """How far a search has come."""

    text: str
    is_task: bool = False  #: it is the id of a task
    asked: TaskFilter | None = None  #: the list of the tasks that have it
    is_over: bool = True  #: there is nothing left to look for
