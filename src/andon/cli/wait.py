"""`andon wait`: until tasks have ended, with their progress."""

import asyncio
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from andon.cli.errors import CommandFailed
from andon.cli.ids import sure_ids
from andon.cli.session import Session, common, fail
from andon.cli.values import DURATION
from andon.model.errors import AndonError, TaskNotFound
from andon.model.words import OVER, State

if TYPE_CHECKING:
    from andon.engine.base import Engine, Submission
    from andon.model.task import Task

Tell = Callable[["Task"], None]

_SUBMITTED = frozenset(
    [
        "name",
        "version",
        "queue",
        "args",
        "payload_base64",
        "dependencies",
        "group",
        "key",
        "unique_key",
        "tags",
        "headers",
    ]
)
"""Native fields that are known from a submission."""


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--timeout", type=DURATION, help="Give up after so long, with exit code 1.")
@common
async def wait(session: Session, *, ids: tuple[str, ...], timeout: float | None) -> None:
    """Wait until tasks have ended.

    Prints each with the state it ended in. Exit code 0 if all have completed.
    """
    async with session.engine() as engine:
        await wait_for(session, engine, await sure_ids(session, engine, ids), timeout=timeout)


async def wait_for(
    session: Session,
    engine: "Engine",
    ids: Sequence[str],
    *,
    timeout: float | None,
    submission: "Submission | None" = None,
) -> None:
    """Wait for all of them and print how they ended; for one that was submitted just now, what it
    returned."""
    latest: dict[str, Task] = {}
    errors: dict[str, AndonError] = {}

    async def follow(task_id: str, tell: Tell) -> None:
        try:
            async for task in engine.watch(task_id):
                latest[task_id] = task
                tell(task)
        except TaskNotFound as error:
            errors[task_id] = error

    in_time = True
    with _bars(session, ids) as tell:
        try:
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(follow(task_id, tell) for task_id in ids))
        except TimeoutError:
            in_time = False
            unread = [task_id for task_id in ids if task_id not in latest | errors]
            for task in await engine.get(unread):
                if task is not None:
                    latest[task.id] = task
    for task_id in ids:
        _tell_end(session, task_id, latest.get(task_id), errors.get(task_id), submission)
    if not in_time:
        late = [
            task_id for task_id in ids if task_id not in errors and not _ended(latest.get(task_id))
        ]
        first = latest.get(late[0]) if late else None
        where = "" if first is None else f"; {late[0]} is {first.state.value}"
        raise CommandFailed(
            f"{len(late)} of {len(ids)} have not ended within {timeout:g} s{where}."
        )
    if errors or any(task.state is not State.COMPLETED for task in latest.values()):
        fail()


def _ended(task: "Task | None") -> bool:
    return task is not None and task.state in OVER


def _tell_end(
    session: Session,
    task_id: str,
    task: "Task | None",
    error: AndonError | None,
    submission: "Submission | None",
) -> None:
    from andon.cli.shown import state_word
    from andon.lifecycle.rendering import document

    out = session.out
    if error is not None:
        out.note(f"andon: {error}")
        return
    if task is None:
        return
    if out.json:
        if submission is None:
            out.record(document(session.profile, task))
        else:
            out.document(_document(session, task, submission))
        return
    last = task.status.last_error
    failed = "" if last is None or task.state is State.COMPLETED else last.message
    if submission is None:
        out.words([task_id, state_word(session.profile, task), failed])
    elif task.state is State.COMPLETED:
        out.encoded(task.result or b"null")
    elif _ended(task):
        name = state_word(session.profile, task).text
        reason = "" if task.status.reason is None else f" ({task.status.reason.value})"
        out.note(f"andon: Task {task_id} ended {name}{reason}{f': {failed}' if failed else ''}.")


def _document(session: Session, task: "Task", submission: "Submission") -> dict[str, Any]:
    """The record as JSON has it. For one that was deleted with its end, the submission gives the
    submitted fields; those that the store filled in are not known any more."""
    from andon.lifecycle.discarded import defined, is_bare
    from andon.lifecycle.rendering import document
    from andon.model.task import Definition
    from andon.model.words import DEFAULT_QUEUE

    if not is_bare(task) or task.id != submission.id:
        return document(session.profile, task)
    s = submission
    named = Definition(
        id=s.id,
        name=s.name,
        version=s.version,
        queue=DEFAULT_QUEUE if s.queue is None else s.queue,
        args=s.args,
        dependencies=s.dependencies,
        group=s.group,
        key=s.key,
        unique_key=s.unique_key,
        tags=s.tags,
        headers=s.headers,
    )
    known = document(session.profile, task)
    told = document(session.profile, defined(task, named))
    return {name: told[name] for name in told if name in known or name in _SUBMITTED}


@contextmanager
def _bars(session: Session, ids: Sequence[str]) -> Generator[Tell]:
    """Progress bars on stderr, on a terminal; one for all when there are many."""
    if not sys.stderr.isatty() or session.out.json:
        yield lambda task: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    from andon.cli.output import STYLES
    from andon.model.cleaning import clean

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        if len(ids) > 10:
            whole = progress.add_task(f"{len(ids)} tasks", total=len(ids), note="")
            ended: set[str] = set()

            def count(task: "Task") -> None:
                if _ended(task):
                    ended.add(task.id)
                    progress.update(whole, completed=len(ended))

            yield count
            return
        bars = {task_id: progress.add_task(task_id, total=100, note="") for task_id in ids}

        def show(task: "Task") -> None:
            cell, status = task.cell, task.status
            percent = status.progress if cell is None else cell.progress
            message = status.progress_message if cell is None else cell.message
            style = STYLES.get(task.state.value, "") or "default"
            progress.update(
                bars[task.id],
                completed=percent,
                description=f"{task.id} [{style}]{task.state.value}[/]",
                note=clean(message),
            )

        yield show
