"""The result of a search for a text."""

import msgspec

from andon.dashboard.views.tasks import TaskFilter


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a search."""

    text: str
    is_task: bool = False  #: the text is the id of a task
    asked: TaskFilter | None = None  #: the list of the tasks that have it
    is_over: bool = True  #: all tasks were searched
