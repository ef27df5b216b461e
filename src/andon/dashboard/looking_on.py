"""A list of tasks that a live page shows: searches for tasks that no index finds, a part with each
reading, until a page is full or all tasks were read.

From then on a reading costs what it costs for any list, however few tasks match: the records that
were found are read again, and the newest tasks are searched.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.contract.queries import Page
from andon.contract.query_filter import matches
from andon.dashboard.patience import within
from andon.dashboard.reading_tasks import FIRST_LOOK_S, is_listed, list_of
from andon.dashboard.views.tasks import PAGE, TaskFilter, TaskList
from andon.engine.paging import full_page

if TYPE_CHECKING:
    from andon.contract.queries import Query
    from andon.dashboard.reading import Reader
    from andon.engine.base import Engine
    from andon.model.task import Task

LOOK_S = 0.5
"""How long one reading may search."""


class LookingOn:
    """The list of a filter, read repeatedly."""

    def __init__(self, asked: TaskFilter) -> None:
        self.asked = asked
        self.is_over = True  #: whether the search is over
        self._cursor = ""
        self._found: dict[str, Task] | None = None  #: None: a page of it is found at once

    async def read(self, reader: "Reader") -> TaskList:
        """The list as far as it was found."""
        engine = await reader.engine()
        query = self.asked.query()
        if self._found is None:
            page = await self._look(reader, engine, query, FIRST_LOOK_S)
            if page.cursor and len(page.tasks) < PAGE:  # it was cut short
                self._found = {task.id: task for task in page.tasks}
                self.is_over, self._cursor = False, page.cursor
            return await list_of(reader, self.asked, page)
        if not self.is_over:
            left = PAGE - len(self._found)
            more = replace(query, cursor=self._cursor, limit=left)
            page = await self._look(reader, engine, more, LOOK_S)
            self._found |= {task.id: task for task in page.tasks}
            self._cursor = page.cursor
            self.is_over = len(self._found) >= PAGE or not page.cursor
        else:
            await self._read_again(reader, engine, query)
        return await list_of(reader, self.asked, Page(tuple(self._found.values()), self._cursor))

    async def _look(
        self, reader: "Reader", engine: "Engine", query: "Query", seconds: float
    ) -> Page:
        keep = is_listed(self.asked)
        goes_on = reader.while_nobody_waits(seconds)
        return await within(full_page(engine, query, keep=keep, goes_on=goes_on, keeps_most=True))

    async def _read_again(self, reader: "Reader", engine: "Engine", query: "Query") -> None:
        """Read the tasks found again, and search the newest for more."""
        assert self._found is not None
        newest = replace(query, newest_first=True, due_first=False, cursor="")
        page = await self._look(reader, engine, newest, 0.0)
        again = await within(engine.get(list(self._found))) if self._found else []
        known = {task.id: task for task in page.tasks}
        known |= {task.id: task for task in again if task is not None and matches(query, task)}
        place = _due if query.due_first else _created
        ordered = sorted(known.values(), key=place, reverse=query.newest_first)
        self._found = {task.id: task for task in ordered[:PAGE]}


def _created(task: "Task") -> tuple[int, str]:
    return task.status.created_at, task.id


def _due(task: "Task") -> tuple[int, str]:
    return task.status.run_at or 0, task.id
