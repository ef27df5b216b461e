"""`andon schedules pause`, `resume`, `run`, `delete`, `prune` and `backfill`.

They end with exit code 1 when any schedule was refused.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from andon.cli import people
from andon.cli.output import Word
from andon.cli.schedules import keeper, matching, schedule_named
from andon.cli.session import Session, common, fail, refuse_nowhere
from andon.cli.values import WHEN, When
from andon.contract.limits import in_batches
from andon.engine.schedule_requests import BACKFILL_ASKS, Backfilled
from andon.engine.schedule_views import schedule_of, together
from andon.lifecycle.faces.fields import iso
from andon.lifecycle.recurrence.occurrences import pieces
from andon.model.wording import plural

if TYPE_CHECKING:
    from andon.engine.base import ActionResult, Engine
    from andon.engine.schedule_requests import ScheduleAct

Command = Callable[..., Any]

_yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
_dry_run = click.option("--dry-run", is_flag=True, help="Only say what it would be.")

_FILTERS = ("application", "task_name", "queue", "tag", "paused")


def _which(command: Command) -> Command:
    """Add names, filters, --all, --dry-run and --yes."""
    for option in (
        _yes,
        _dry_run,
        click.option("--all", "every", is_flag=True, help="Every schedule that goes on."),
        click.option("--paused", is_flag=True, help="Those that are paused."),
        click.option("--tag", metavar="TAG", help="Whose tasks have this tag."),
        click.option("--queue", metavar="NAME", help="Whose tasks go to this queue."),
        click.option("--task", "task_name", metavar="NAME", help="Whose tasks have this name."),
        click.option("--application", metavar="NAME", help="Declared by this application."),
        click.argument("names", nargs=-1, metavar="[NAME]..."),
    ):
        command = option(command)
    return command


@click.command("pause")
@common
@_which
async def pause(session: Session, **asked: Any) -> None:
    """Let schedules fire no more until they are resumed.

    What they have submitted goes on.
    """
    await _act(session, "pause", "paused", asked)


@click.command("resume")
@common
@_which
async def resume(session: Session, **asked: Any) -> None:
    """Let paused schedules fire again.

    What fell into the pause is not made up for; `andon schedules backfill` does that.
    """
    await _act(session, "resume", "resumed", asked)


@click.command("run")
@common
@_which
async def run(session: Session, **asked: Any) -> None:
    """Submit one task of each schedule now.

    Its times go on as they are; a paused schedule stays paused.
    """
    await _act(session, "run", "run", asked)


@click.command("delete")
@common
@_which
async def delete(session: Session, **asked: Any) -> None:
    """End schedules and remove them.

    What they have submitted stays. One that an application's code declares comes back with its next
    worker: take it out of the code, or pause it.
    """
    await _act(session, "delete", "deleted", asked)


async def _act(session: Session, act: "ScheduleAct", verb: str, asked: dict[str, Any]) -> None:
    names, every = list(dict.fromkeys(asked["names"])), asked["every"]
    chosen = {name: asked[name] for name in _FILTERS if asked[name]}
    yes, dry_run = asked["yes"], asked["dry_run"]
    if names and (every or chosen):
        raise click.UsageError("Give names, or filters or --all, not both.")
    if not (names or every or chosen):
        raise click.UsageError("Which schedules? Give their names, filters, or --all.")
    async with session.engine() as engine:
        if names:
            for name in names:
                await schedule_named(engine, name)
        else:
            names = [task.id for task in matching(await keeper(engine).live(), **chosen)]
            if not dry_run:
                _agree(session, f"{plural(len(names), 'schedule')} will be {verb}.", yes=yes)
        if dry_run:
            _say(session, [(name, f"would be {verb}") for name in names])
            return
        done = await keeper(engine).act(names, act)
        borne = await _newest(engine, names) if act == "run" else {}
    _tell(session, done, verb, borne)


async def _newest(engine: "Engine", names: Sequence[str]) -> dict[str, str]:
    """The ids of the newest tasks of schedules."""
    found: dict[str, str] = {}
    for some in in_batches(names):
        for task in await engine.get(some):
            if task is not None and task.status.schedule is not None:
                found[task.id] = task.status.schedule.last_id
    return found


def _agree(session: Session, what: str, *, yes: bool) -> None:
    """Go on only if the user confirms; where no user can be asked, only with --yes."""
    if yes:
        return
    if not people.person_present():
        raise click.UsageError(f"{what} Nobody can be asked here: add --yes.")
    if not click.confirm(f"{what} Go on?", err=True):
        session.out.note("Nothing was done.")
        fail()


def _tell(
    session: Session,
    done: "Sequence[ActionResult]",
    verb: str,
    borne: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print the outcomes. `borne`: the task that each submitted, by its name."""
    out = session.out
    for one in done:
        if out.json:
            out.record(
                {
                    "name": one.id,
                    "state": None if one.state is None else one.state.value,
                    "changed": one.changed,
                    "error": None if one.error is None else str(one.error),
                    **({"task": borne[one.id]} if one.id in borne else {}),
                }
            )
        elif one.error is not None:
            out.words([one.id, Word(str(one.error), "red")])
        else:
            out.words([one.id, verb if one.changed else "nothing to do", borne.get(one.id)])
    if any(one.error is not None for one in done):
        fail()


def _say(session: Session, lines: Sequence[tuple[str, str]]) -> None:
    for name, text in lines:
        if session.out.json:
            session.out.record({"name": name, "would": text})
        else:
            session.out.words([name, text])


@click.command("prune")
@click.argument("app")
@_dry_run
@_yes
@common
async def prune(session: Session, *, app: str, dry_run: bool, yes: bool) -> None:
    """Delete the schedules that an application declared once and declares no more.

    APP is its code, as `andon worker` takes it: what that declares stays. Deploy it everywhere
    before: a worker of an older release declares them again.
    """
    from andon.cli.apps import load_app

    application = load_app(app, url=session.given_url)
    refuse_nowhere(application.url, creates=False)
    try:
        gone = await application.schedules.prune(dry_run=True)
        if dry_run or not gone:
            _say(session, [(one.id, "would be deleted") for one in gone])
            if not gone:
                session.out.note("All schedules of this application are declared in its code.")
            return
        what = ", ".join(one.id for one in gone[:_NAMED]) + (", …" if gone[_NAMED:] else "")
        _agree(session, f"{plural(len(gone), 'schedule')} will be deleted: {what}.", yes=yes)
        _tell(session, await application.schedules.prune(), "deleted")
    finally:
        await application.close()


_NAMED = 5
"""Schedules that a question names."""


@click.command("backfill")
@click.argument("name")
@click.option("--start", type=WHEN, required=True, metavar="TIME", help="The first time.")
@click.option("--end", type=WHEN, metavar="TIME", help="Before this time; now, if none is given.")
@_dry_run
@_yes
@common
async def backfill(
    session: Session, *, name: str, start: When, end: When | None, dry_run: bool, yes: bool
) -> None:
    """Submit the tasks of past times, from --start to before --end.

    Their ids are those that they would have had, so what has run is not run again as long as its
    record is kept. They do not wait for one another, whatever --overlap says.
    """
    async with session.engine() as engine:
        task = await schedule_named(engine, name)
        now = engine.now()
        first, last = start.on(now), now if end is None else end.on(now)
        backfilling = keeper(engine)
        would = await backfilling.backfill(name, first, last, dry_run=True)
        if dry_run or not would.range.count:
            _sum_up(session, name, would)
            return
        if would.range.more:
            await backfilling.backfill(name, first, last)  # which says what to do instead
        if would.range.count > BACKFILL_ASKS:
            many = plural(would.range.count, "task")
            _agree(session, f"{many} will be submitted by {name}.", yes=yes)
        recurrence = schedule_of(task, name).recurrence
        done = Backfilled(would.range)
        with _progress(session, would.range.count) as progress:
            for part in pieces(recurrence, name, start=first, end=last, most=_PIECE):
                one = await backfilling.backfill(name, *part, yes=True)
                done = together(done, one)
                progress(one.range.count)
    _sum_up(session, name, done, is_done=True)
    if done.refused:
        fail()


_PIECE = 1_000
"""Occurrences that are submitted before the next are made."""


@contextmanager
def _progress(session: Session, total: int) -> Generator[Callable[[int], None]]:
    """How far it is, on a terminal."""
    if not session.out.terminal or total <= _PIECE:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("submitting"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("submitting", total=total)
        yield lambda count: progress.advance(task, count)


def _sum_up(session: Session, name: str, done: Backfilled, *, is_done: bool = False) -> None:
    out, found = session.out, done.range
    first = None if found.first is None else iso(found.first.at)
    last = None if found.last is None else iso(found.last.at)
    if out.json:
        counts = {
            "count": found.count,
            "more": found.more,
            "created": done.created,
            "existed": done.existed,
            "refused": len(done.refused) + done.more_refused,
        }
        errors = dict(done.refused)
        out.document(
            {"name": name, "first": first, "last": last, **counts, "dry_run": not is_done}
            | {"errors": errors}
        )
        return
    if not found.count:
        out.note(f"{name} has no times in this range.")
        return
    for task_id, why in done.refused:
        out.words([task_id, Word(why, "red")])
    if not is_done:
        more = "more than " if found.more else ""
        out.words([name, f"would be {more}{plural(found.count, 'task')}", f"{first} to {last}"])
        return
    parts = [f"{plural(done.created, 'task')} submitted"]
    parts += [f"{done.existed:,} there already"] if done.existed else []
    refused = len(done.refused) + done.more_refused
    parts += [f"{refused:,} refused"] if refused else []
    out.words([name, ", ".join(parts), f"{first} to {last}"])
