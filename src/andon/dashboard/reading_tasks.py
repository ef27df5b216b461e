"""Reads for the pages of tasks: lists, one task with all that belongs to it, and its log."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from andon.contract.queries import Page
from andon.dashboard.patience import within
from andon.dashboard.requests import Refused
from andon.dashboard.views.task import (
    MOST_EDGES,
    ArtifactRow,
    EdgeView,
    LogView,
    TaskView,
    artifact_row,
    edge_of,
    view_of,
)
from andon.dashboard.views.tasks import TaskFilter, TaskList, rows_of, total_of
from andon.engine.paging import full_page
from andon.lifecycle.parents import waits_for
from andon.lifecycle.profiles import profile
from andon.model.errors import ConfigurationError, TaskNotFound
from andon.model.task import Task
from andon.model.words import State

if TYPE_CHECKING:
    from andon.artifacts.base import LogLine
    from andon.dashboard.access import Visitor
    from andon.dashboard.reading import Reader
    from andon.engine.base import Engine

MOST_LINES = 500
"""How many lines of a log are shown, the newest."""

_MOST_LOG_PAGES = 200
FIRST_LOOK_S = 0.04
"""How long a page may search for tasks that no index finds, before it is shown with those found,
and a link to go on. A live page gets more by itself (`LookingOn`)."""

LOOK_S = 1.5
"""How long a page may search to which the visitor goes on."""


async def task_list(
    reader: "Reader", asked: TaskFilter, visitor: "Visitor | None" = None
) -> TaskList:
    """A page of tasks. Raises `Refused` if the visitor may not read them."""
    if visitor is not None:
        need_to_read(visitor, asked.queue)
    engine = await reader.engine()
    page = await within(
        full_page(
            engine,
            asked.query(),
            keep=is_listed(asked),
            goes_on=for_a_moment(LOOK_S if asked.cursor else FIRST_LOOK_S),
            keeps_most=True,
        )
    )
    return await list_of(reader, asked, page)


async def list_of(reader: "Reader", asked: TaskFilter, page: Page) -> TaskList:
    """The list of the tasks found."""
    engine = await reader.engine()
    return TaskList(
        asked=asked,
        rows=rows_of(page.tasks, engine.now()),
        next=page.cursor,
        now=engine.now(),
        total=total_of(asked, await reader.queues()),
    )


def is_listed(asked: TaskFilter) -> Callable[[Task], bool] | None:
    """Which of the tasks that a filter finds are in its list; None: all. Schedules have a page of
    their own."""
    return None if asked.states else _is_no_schedule


def _is_no_schedule(task: Task) -> bool:
    return task.state is not State.RECURRING


def need_to_read(visitor: "Visitor", queue: str) -> None:
    """Raise `Refused` unless the visitor may read the tasks of a queue; if none is named, of all
    queues."""
    scope = f"tasks:read:{queue or '*'}"
    if not visitor.may(scope):
        raise Refused(
            403,
            "Not allowed",
            f"This needs the scope {scope}, which you lack."
            + ("" if queue else " Choose one of your queues on the page Queues."),
        )


async def readable_task(engine: "Engine", task_id: str, visitor: "Visitor") -> Task:
    """A task that the visitor may read. Raises `TaskNotFound`, and `Refused`."""
    [task] = await within(engine.get([task_id]))
    if task is None:
        raise TaskNotFound(task_id[:100])
    need_to_read(visitor, task.definition.queue)
    return task


async def task_page(
    reader: "Reader", task_id: str, seen_as: str, visitor: "Visitor | None" = None
) -> TaskView:
    """One task with its moves and edges. Raises `TaskNotFound`, `Refused`, and `ConfigurationError`
    for an unknown profile."""
    shown_as = profile(seen_as or "native")
    engine = await reader.engine()
    [task] = await within(engine.get([task_id]))
    if task is None:
        raise TaskNotFound(task_id[:100])
    if visitor is not None:
        need_to_read(visitor, task.definition.queue)
    history, wait, parents, children = await within(
        asyncio.gather(
            engine.history(task_id),
            engine.wait_of(task),
            _parents(engine, task),
            _children(engine, task),
        )
    )
    return view_of(
        task,
        history,
        wait=wait,
        profile=shown_as,
        redaction=reader.redaction,
        parents=parents,
        children=children,
        now=engine.now(),
    )


async def _parents(engine: "Engine", task: Task) -> Sequence[Task | None]:
    ids = waits_for(task)[:MOST_EDGES]
    return await engine.get(ids) if ids else ()


async def _children(engine: "Engine", task: Task) -> list[EdgeView]:
    page = await engine.dependents(task.id, limit=MOST_EDGES)
    return [edge_of(child.id, child) for child in page.tasks]


async def artifact_rows(reader: "Reader", task_id: str) -> list[ArtifactRow]:
    """The files that a task's runs left behind; none if they are not kept."""
    engine = await reader.engine()
    try:
        places = await engine.artifacts()
    except ConfigurationError:
        return []
    return [artifact_row(one) for one in await within(places.find(task_id))]


class LogTail:
    """The newest lines of one run's log; each reading goes on from the end of the last one."""

    def __init__(self, task_id: str, run: int | None) -> None:
        self._task_id = task_id
        self._wanted = run
        self._run: int | None = None
        self._cursor = ""
        self._lines: deque[LogLine] = deque(maxlen=MOST_LINES)
        self._count = 0

    async def read(self, reader: "Reader", visitor: "Visitor | None" = None) -> LogView:
        """The log as it is now; of the newest run if none is named."""
        engine = await reader.engine()
        [task] = await within(engine.get([self._task_id]))
        if task is None:
            raise TaskNotFound(self._task_id[:100])
        if visitor is not None:
            need_to_read(visitor, task.definition.queue)
        runs = [run.number for run in task.status.runs if run.claimed_at is not None]
        run = self._wanted if self._wanted is not None else (runs[-1] if runs else None)
        if run != self._run:
            self._run, self._cursor, self._count = run, "", 0
            self._lines.clear()
        missing = ""
        if run is not None:
            try:
                await self._on(engine, run)
            except ConfigurationError as error:
                missing = str(error)
        return LogView(
            task=self._task_id,
            queue=task.definition.queue,
            run=run,
            runs=runs,
            lines=[(line.at, line.level, line.text) for line in self._lines],
            more=self._count > len(self._lines),
            missing=missing,
        )

    async def _on(self, engine: "Engine", run: int) -> None:
        places = await engine.artifacts()
        for _ in range(_MOST_LOG_PAGES):
            page = await within(places.read_log(self._task_id, run, self._cursor))
            if not page.lines:
                return
            self._cursor = page.cursor
            self._count += len(page.lines)
            self._lines.extend(page.lines)


def for_a_moment(seconds: float) -> Callable[[int], bool]:
    """Whether to go on searching, whatever was found: until a moment has passed."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    return lambda _: loop.time() < until
