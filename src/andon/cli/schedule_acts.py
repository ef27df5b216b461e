"""`andon schedules pause`, `resume`, `run`, `delete`, `prune` and `backfill`.

They end with exit code 1 when any schedule was refused.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from andon.cli import people
from andon.cli.output import Word, plural
from andon.cli.schedules import keeper, matching, schedule_named
from andon.cli.session import Session, common, fail
from andon.cli.values import WHEN, When

if TYPE_CHECKING:
    from andon.engine.base import Acted, Engine
    from andon.engine.schedule_requests import Backfilled, ScheduleAct

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
        _tell(session, await keeper(engine).act(names, act), verb)


def _agree(session: Session, what: str, *, yes: bool) -> None:
    """Go on only if somebody says so; where nobody can be asked, only by --yes."""
    if yes:
        return
    if not people.somebody_there():
        raise click.UsageError(f"{what} Nobody can be asked here: add --yes.")
    if not click.confirm(f"{what} Go on?", err=True):
        session.out.note("Nothing was done.")
        fail()


def _tell(session: Session, done: "Sequence[Acted]", verb: str) -> None:
    out = session.out
    for one in done:
        if out.json:
            out.record(
                {
                    "name": one.id,
                    "state": None if one.state is None else one.state.value,
                    "changed": one.changed,
                    "error": None if one.error is None else str(one.error),
                }
            )
        elif one.error is not None:
            out.words([one.id, Word(str(one.error), "red")])
        else:
            out.words([one.id, verb if one.changed else "nothing to do"])
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
    raise NotImplementedError


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
        await schedule_named(engine, name)
        first = start.on(engine.now())
        last = engine.now() if end is None else end.on(engine.now())
        would = await keeper(engine).backfill(name, first, last, dry_run=True)
        if dry_run or not would.range.count:
            _summed(session, name, would, dry_run=True)
            return
        raise NotImplementedError
