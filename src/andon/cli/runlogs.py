"""`andon logs`: what the runs of a task have logged, or log."""

from typing import TYPE_CHECKING

import click

from andon.cli.session import Session, common
from andon.lifecycle.faces.fields import iso
from andon.model.errors import TaskNotFound
from andon.model.words import State
from andon.stores.base import task_topic

if TYPE_CHECKING:
    from andon.artifacts.base import Artifacts, LogLine
    from andon.engine.base import Engine
    from andon.model.task import Task

FOLLOW_S = 1.0
"""How often a run's log is looked at while it is followed; lines are kept about once a second."""


@click.command()
@click.argument("task_id", metavar="ID")
@click.option("--run", type=click.IntRange(0), metavar="N", help="Of this run; default: of all.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what is logged, until it has ended.")
@common
async def logs(session: Session, *, task_id: str, run: int | None, follow: bool) -> None:
    """Print what the runs of a task have logged.

    That is what a handler logged by whichever logger, and what its command or child process wrote
    to stderr (a child also to stdout). With --json one object a line.
    """
    async with session.engine() as engine:
        task = await _task(engine, task_id)
        printer = _Printer(session, await engine.artifacts(), task_id, run)
        with engine.listen([task_topic(task_id)]) as moved:
            await printer.print(task)
            while follow and not _is_over(task, run):
                await moved.wait(FOLLOW_S)
                task = await _task(engine, task_id)
                await printer.print(task)
        if follow:
            await printer.rest(task)


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


class _Printer:
    def __init__(
        self, session: Session, artifacts: "Artifacts", task_id: str, run: int | None
    ) -> None:
        self._session = session
        self._artifacts = artifacts
        self._task_id = task_id
        self._run = run
        self._cursors: dict[int, str] = {}

    async def print(self, task: "Task") -> int:
        """Print the lines that are new; how many."""
        runs = [run.number for run in task.status.runs] if self._run is None else [self._run]
        count = 0
        for run in runs:
            while True:
                page = await self._artifacts.read_log(
                    self._task_id, run, self._cursors.get(run, "")
                )
                if not page.lines:
                    break
                self._cursors[run] = page.cursor
                for line in page.lines:
                    self._line(run, line)
                count += len(page.lines)
        return count

    async def rest(self, task: "Task") -> None:
        """What a run logged last is kept a moment after its end: wait for one quiet look."""
        import asyncio

        await asyncio.sleep(2 * FOLLOW_S)
        await self.print(task)

    def _line(self, run: int, line: "LogLine") -> None:
        out = self._session.out
        if out.json:
            out.record(
                {
                    "task_id": self._task_id,
                    "run": run,
                    "at": iso(line.at),
                    "level": line.level,
                    "text": line.text,
                }
            )
        else:
            out.line(f"{iso(line.at)} run {run} {line.level:7} {line.text}")
