"""`andon tasks show`: one task as a page to read."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from andon.cli.ids import one_named
from andon.cli.last import remember
from andon.cli.output import Cell, Output, Word
from andon.cli.session import Session, common
from andon.lifecycle.births import owed_ids
from andon.lifecycle.faces.fields import iso
from andon.model.errors import TaskNotFound
from andon.model.wording import ago, span, times_of
from andon.model.words import State

if TYPE_CHECKING:
    from andon.contract.queries import History
    from andon.lifecycle.profiles import Profile
    from andon.lifecycle.waiting import Wait
    from andon.model.task import Run, Task, TaskError, TaskEvent

_LONGEST = 2_000


@click.command("show")
@click.argument("task_id", metavar="ID")
@click.option("--traceback", is_flag=True, help="With Andon's own frames in the traceback.")
@common
async def show(session: Session, *, task_id: str, traceback: bool) -> None:
    """Show one task with its runs and its history."""
    await show_task(session, task_id, whole=traceback)


async def show_task(session: Session, task_id: str, *, whole: bool = False) -> None:
    """Print one task as a page; `whole`: its traceback with Andon's own frames.

    Raises `TaskNotFound`.
    """
    from andon.engine.fleet import waits_for
    from andon.lifecycle.rendering import document

    profile, out = session.profile, session.out
    async with session.engine() as engine:
        task_id = await one_named(session, engine, task_id)
        [task] = await engine.get([task_id])
        if task is None:
            raise TaskNotFound(task_id)
        remember(session.url, task_id)
        history = await engine.history(task_id)
        wait = await engine.wait_of(task)
        now = engine.now()
    if out.json:
        known = document(profile, task, history.events, now=now)
        out.document(known | waits_for(wait) if profile.name == "native" else known)
    elif task.definition.name == "?":
        out.pairs([("id", task.id), ("state", task.state.value)])
        out.note("This record does not decode. Remove it with: andon tasks delete.")
    elif profile.name == "native":
        _page(out, task, history, wait, now)
        _traceback(out, task, whole=whole)
    else:
        _foreign(out, profile, task, history)


def _page(out: Output, task: "Task", history: "History", wait: "Wait | None", now: int) -> None:
    out.pairs(_facts(out, task, wait, now), title=f"{task.definition.name}  {task.id}")
    if task.status.runs:
        _heading(out, "runs")
        for run in task.status.runs:
            words = _run(run, _error(task), now)
            out.words(words if out.terminal else ["run", *words])
    _heading(out, "history")
    if history.dropped:
        out.note(f"{history.dropped:,} older moves are not kept.")
    before: int | None = None
    for event in history.events:
        words = _move(out, event, before)
        out.words(words if out.terminal else ["event", *words])
        before = event.at


def _traceback(out: Output, task: "Task", *, whole: bool) -> None:
    """Where the newest error was raised, as long as it is one that matters."""
    from andon.lifecycle.tracebacks import folded
    from andon.model.cleaning import clean

    error = _error(task)
    if error is None or not error.traceback:
        return
    _heading(out, "traceback")
    out.line(clean(error.traceback.rstrip() if whole else folded(error.traceback)))


def _error(task: "Task") -> "TaskError | None":
    """The newest error; none of a task that has completed after all."""
    return None if task.state is State.COMPLETED else task.status.last_error


def _heading(out: Output, text: str) -> None:
    if out.terminal:
        out.words([""])
        out.words([Word(text, "bold")])


def _facts(out: Output, task: "Task", wait: "Wait | None", now: int) -> Iterator[tuple[str, Cell]]:
    from andon.cli.shown import note_of, state_word
    from andon.lifecycle.explaining import not_retried
    from andon.lifecycle.parents import waits_for
    from andon.lifecycle.profiles import profile

    d, s, policy = task.definition, task.status, task.policy
    if not out.terminal:
        yield "id", task.id
        yield "name", d.name
    yield "state", state_word(profile("native"), task)
    yield "why", note_of(task, out, now, says_error=False)
    yield "waits", None if wait is None else Word(wait.text, "yellow")
    yield "version", d.version or None
    yield "queue", d.queue
    yield "priority", s.priority or None
    yield "arguments", _body(d.args)
    yield "result", None if task.result is None else _body(task.result)
    error = _error(task)
    yield "error", None if error is None else f"{error.code}: {error.message}"
    yield "not retried", not_retried(task) or None
    yield "tries", f"{s.tries} of {policy.max_retries + 1}"
    yield "fence", s.fence or None
    for name, at in times_of(task):
        yield name, _time(out, at, now)
    yield "depends on", ", ".join(waits_for(task))
    yield "needs", None if d.needs is None else f"{d.needs:,} of {len(d.dependencies):,}"
    yield "predecessor", d.predecessor or None
    yield "successor", s.successor or None
    yield "follows up", d.bearer or None
    yield "owes", ", ".join(owed_ids(s))
    yield "unique key", d.unique_key
    yield "key", d.key
    yield "group", d.group
    yield "tags", ", ".join(d.tags)
    yield "headers", ", ".join(f"{name}={value}" for name, value in d.headers.items())


def _time(out: Output, at: int | None, now: int) -> str | None:
    if at is None:
        return None
    return f"{iso(at)}  ({ago(at, now)})" if out.terminal else iso(at)


def _body(body: bytes) -> str:
    text = body.decode(errors="replace")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(body):,} bytes)"


def _run(run: "Run", shown: "TaskError | None", now: int) -> list[Cell]:
    """One run on a line; of the error that the page has `shown` the code only."""
    ended = run.resolved_at
    took = ""
    if run.claimed_at is not None:
        took = span(((ended or now) - run.claimed_at) / 1000)
    resolved = "waiting" if run.claimed_at is None else "running"
    if run.resolved_reason is not None:
        resolved = run.resolved_reason.value
    style = "green" if resolved == "success" else "" if ended is None else "red"
    return [
        f"#{run.number}",
        iso(run.claimed_at or run.scheduled_at),
        Word(f"{run.created_reason.value} → {resolved}", style),
        took,
        run.worker,
        _in_a_word(run.error, shown),
    ]


def _in_a_word(error: "TaskError | None", shown: "TaskError | None") -> str | None:
    if error is None:
        return None
    return error.code if error == shown else f"{error.code}: {error.message}"


def _move(out: Output, event: "TaskEvent", before: int | None) -> list[Cell]:
    from andon.cli.events import by_whom
    from andon.cli.shown import native_word

    source = "" if event.source is None else event.source.value
    target = native_word(event.target)
    arrow = Word(f"{source} → {target.text}" if source else target.text, target.style)
    if event.source is event.target:
        arrow = Word(source, "dim")
    return [
        iso(event.at),
        "" if before is None else f"+{span((event.at - before) / 1000)}",
        event.event.value,
        arrow,
        "" if event.reason is None else event.reason.value,
        "" if event.run is None else f"run {event.run}",
        event.worker,
        by_whom(event),
    ]


def _foreign(out: Output, profile: "Profile", task: "Task", history: "History") -> None:
    from andon.lifecycle.rendering import document

    fields = document(profile, task, history.events)
    moves: Iterable[dict[str, object]] = fields.pop("history")
    out.pairs((name, _plain(value)) for name, value in fields.items())
    _heading(out, "history")
    for move in moves:
        words: list[Cell] = [_plain(value) for value in move.values()]
        out.words(words if out.terminal else ["event", *words])


def _plain(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
