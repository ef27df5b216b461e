"""Reads the logs of a task's runs, or follows them to the end of the task."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple

from andon.artifacts.base import LogLine
from andon.contract.topics import task_topic
from andon.model.errors import TaskNotFound
from andon.model.words import State

if TYPE_CHECKING:
    from andon.artifacts.base import Artifacts
    from andon.engine.base import Engine
    from andon.model.task import Task

FOLLOW_S = 1.0
"""How often a run's log is read while it is followed; lines are kept about once a second."""


class RunLine(NamedTuple):
    """A line and the number of the run that logged it."""

    run: int
    line: LogLine


async def run_lines(
    engine: "Engine", task_id: str, *, run: int | None = None, follow: bool = False
) -> AsyncIterator[RunLine]:
    """The lines of one run, or of all in turn; with `follow` also those logged until the end.

    Raises `TaskNotFound`, and `ConfigurationError` where no place for logs is known.
    """
    task = await _task(engine, task_id)
    log = _Log(await engine.artifacts(), task_id, run)
    with engine.listen([task_topic(task_id)]) as moved:
        async for line in log.new(task):
            yield line
        while follow and not _is_over(task, run):
            await moved.wait(FOLLOW_S)
            task = await _task(engine, task_id)
            async for line in log.new(task):
                yield line
    if follow:
        # The last lines of a run are kept a moment after its end.
        await asyncio.sleep(2 * FOLLOW_S)
        async for line in log.new(task):
            yield line


async def _task(engine: "Engine", task_id: str) -> "Task":
    [task] = await engine.get([task_id])
    if task is None:
        raise TaskNotFound(task_id)
    return task


def _is_over(task: "Task", run: int | None) -> bool:
    """Whether the run, or the task, will log no more."""
    if task.status.finished_at is not None:
        return True
    newest = task.status.runs[-1].number if task.status.runs else -1
    return run is not None and (newest > run or (newest == run and task.state is State.RETRY))


class _Log:
    """How far the logs of a task's runs were read."""

    def __init__(self, artifacts: "Artifacts", task_id: str, run: int | None) -> None:
        self._artifacts = artifacts
        self._task_id = task_id
        self._run = run
        self._cursors: dict[int, str] = {}

    async def new(self, task: "Task") -> AsyncIterator[RunLine]:
        """The lines that were not read yet."""
        for run in [r.number for r in task.status.runs] if self._run is None else [self._run]:
            while True:
                cursor = self._cursors.get(run, "")
                page = await self._artifacts.read_log(self._task_id, run, cursor)
                if not page.lines:
                    break
                self._cursors[run] = page.cursor
                for line in page.lines:
                    yield RunLine(run, line)
