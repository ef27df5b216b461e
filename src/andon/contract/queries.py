"""Queries for lists of tasks, and the pages of their answers."""

import msgspec

from andon.model.task import Task, TaskEvent
from andon.model.words import State


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What to list. One indexed axis is used, the rest filters what it yields.

    Example:
        from andon import State
        from andon.contract.queries import Query

        async for task in app.find(Query(states=(State.FAILED,), newest_first=True)):
            print(task.id, task.error)
    """

    states: tuple[State, ...] = ()  #: none named: every state
    queue: str | None = None  #: name of the queue
    name: str | None = None  #: of the task type
    key: str | None = None  #: concurrency key
    group: str | None = None  #: the name that the tasks share
    worker: str | None = None  #: only active tasks have one
    tag: str | None = None  #: one of their tags
    id_prefix: str | None = None  #: how the id begins
    dead_letters: bool = False  #: only what is kept as a dead letter
    newest_first: bool = False  #: else in the order they were created
    due_first: bool = False
    """By due time, the soonest first: only tasks that wait for a time have one, those that are
    `scheduled` or wait in `retry`. One whose due time changes between two pages may be met twice,
    or not."""
    limit: int = 100  #: tasks on one page, at most
    cursor: str = ""  #: where the page before ended
    bare: bool = False
    """Only the fields for a list, and what a record waits for, are needed. A store that has these
    at hand leaves out arguments, headers, result, progress, events, errors and all runs but the
    last. Its pages after the first may show tasks as they were up to a second before."""


class Page(msgspec.Struct, frozen=True):
    """A page, possibly short. An empty `cursor` means there is no more."""

    tasks: tuple[Task, ...]
    cursor: str = ""


class EventPage(msgspec.Struct, frozen=True):
    """Events after a cursor. `gap`: some were trimmed before they were read; or the log has lost
    what the reader had read, as a replica's has that took over too soon, and goes on from its end:
    look at the records again."""

    events: tuple[TaskEvent, ...]
    cursor: str
    gap: bool = False


class History(msgspec.Struct, frozen=True):
    """All moves of one task, up to 1,000, then the number dropped."""

    events: tuple[TaskEvent, ...]
    dropped: int = 0


class ReadyKind(msgspec.Struct, frozen=True):
    """Tasks of one kind that one queue has ready: at least one."""

    queue: str
    kind: str  #: as `lifecycle.routing.kind_of` writes it
    oldest_at: int | None = None  #: ms UTC since which about the oldest waits, where that is known
