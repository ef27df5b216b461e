"""Live sources about tasks: lists, one task and its log, dead letters, searches, acts."""

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from andon.dashboard.looking_on import LookingOn
from andon.dashboard.pages import bulk as bulk_page
from andon.dashboard.pages import letters as letters_page
from andon.dashboard.pages import messages
from andon.dashboard.pages import task as one_task
from andon.dashboard.pages import tasks as tasks_page
from andon.dashboard.patience import EVERY
from andon.dashboard.reading_letters import letters
from andon.dashboard.reading_tasks import LogTail, task_page
from andon.dashboard.requests import Fields
from andon.dashboard.searching import LOOK_S, Search
from andon.dashboard.source import Source
from andon.dashboard.views.letters import Letters
from andon.dashboard.views.search import Sought
from andon.dashboard.views.task import LogView, TaskView
from andon.dashboard.views.tasks import TaskList, filter_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from htpy import Renderable

    from andon.dashboard.access import Visitor
    from andon.dashboard.bulk import Doing
    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Reader


class TasksSource(Source):
    """The first page of a list of tasks. Its topic has the query of the list."""

    def __init__(self, rest: str) -> None:
        super().__init__(rest)
        self._list = LookingOn(filter_of(Fields(parse_qsl(rest, keep_blank_values=True))))

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may(f"tasks:read:{self._list.asked.queue or '*'}")

    async def read(self, reader: "Reader") -> TaskList:
        seen = await self._list.read(reader)
        self.looks_on(is_over=self._list.is_over)
        return seen

    def draw(self, place: "Place", seen: TaskList) -> "Iterable[Renderable]":
        yield tasks_page.rows(place, seen)
        yield tasks_page.pager(place, seen)


class TaskSource(Source):
    """One task: its id, then the profile under which it is shown."""

    every = EVERY["task"]

    def __init__(self, rest: str) -> None:
        super().__init__(rest)
        self._id, _, self._seen_as = rest.partition("/")

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may_some("tasks:read:")

    async def read(self, reader: "Reader") -> TaskView:
        return await task_page(reader, self._id, self._seen_as)

    def draw(self, place: "Place", seen: TaskView) -> "Iterable[Renderable]":
        if not place.may(f"tasks:read:{seen.queue}"):
            return ()
        return one_task.fragments(place, seen)


class LogSource(Source):
    """The log of one task: its id, then the number of the run; without a number, of the newest."""

    every = EVERY["log"]

    def __init__(self, rest: str) -> None:
        super().__init__(rest)
        task_id, _, run = rest.partition("/")
        self._tail = LogTail(task_id, int(run) if run.isdecimal() else None)

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may_some("tasks:read:")

    async def read(self, reader: "Reader") -> LogView:
        return await self._tail.read(reader)

    def draw(self, place: "Place", seen: LogView) -> "Iterable[Renderable]":
        if place.may(f"tasks:read:{seen.queue}"):
            yield one_task.logs(place, seen)


class LettersSource(Source):
    """Dead letters by group, of one queue or of all."""

    every = EVERY["letters"]

    def __init__(self, rest: str) -> None:
        super().__init__(rest)
        self._queue = unquote(rest)

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may(f"tasks:read:{self._queue or '*'}")

    async def read(self, reader: "Reader") -> Letters:
        return await letters(reader, self._queue)

    def draw(self, place: "Place", seen: Letters) -> "Iterable[Renderable]":
        return letters_page.fragments(place, seen)


class SearchSource(Source):
    """A search that has found nothing yet."""

    def __init__(self, rest: str) -> None:
        super().__init__(rest)
        self._search = Search(unquote(rest))

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may("tasks:read:*")

    async def read(self, reader: "Reader") -> Sought:
        seen = await self._search.read(reader, reader.while_nobody_waits(LOOK_S))
        self.looks_on(is_over=seen.is_over)
        return seen

    def draw(self, place: "Place", seen: Sought) -> "Iterable[Renderable]":
        yield messages.sought(place, seen)


class BulkSource(Source):
    """The progress of an act on many."""

    every = EVERY["bulk"]

    def is_for(self, visitor: "Visitor") -> bool:
        return True  # a visitor who knows its name began it, or got it from that one

    async def read(self, reader: "Reader") -> "Doing | None":
        return reader.bulk.find(self.rest)

    def draw(self, place: "Place", seen: "Doing | None") -> "Iterable[Renderable]":
        return () if seen is None else bulk_page.progress(place, seen)
