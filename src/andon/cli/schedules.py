"""`andon schedules`: the commands that show; those that change are in `schedule_making` and
`schedule_acts`."""

import time
from typing import TYPE_CHECKING, Any

import click

from andon.cli.errors import CommandFailed
from andon.cli.layout import Column
from andon.cli.lazy import Entry, LazyGroup
from andon.cli.schedule_options import UNCOUNTED_TIMES, adding, times_given
from andon.cli.session import Session, common
from andon.cli.values import WHEN, When
from andon.model.recurrence import Recurrence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from andon.cli.output import Cell
    from andon.engine.base import Engine
    from andon.engine.schedule_requests import ScheduleKeeper
    from andon.lifecycle.faces.fields import Fields
    from andon.model.recurrence import ExplainedTime
    from andon.model.task import Task

_ACTS, _MAKING = "andon.cli.schedule_acts", "andon.cli.schedule_making"

COMMANDS = {
    "list": Entry(
        "andon.cli.schedules:list_schedules", "List schedules that go on, by name.", "Look"
    ),
    "show": Entry(
        "andon.cli.schedules:show",
        "Show one schedule: what it does, how it stands, when it fires next.",
        "Look",
    ),
    "next": Entry(
        "andon.cli.schedules:next_times",
        "Show the next times of a schedule, or of times that are not stored yet.",
        "Look",
    ),
    "add": Entry(
        f"{_MAKING}:add", "Make a schedule: TASK is submitted at each of its times.", "Make"
    ),
    "edit": Entry(
        f"{_MAKING}:edit", "Change a schedule: what is given; all else stays as it is.", "Make"
    ),
    "pause": Entry(f"{_ACTS}:pause", "Let schedules fire no more until they are resumed.", "Act"),
    "resume": Entry(f"{_ACTS}:resume", "Let paused schedules fire again.", "Act"),
    "run": Entry(f"{_ACTS}:run", "Submit one task of each schedule now.", "Act"),
    "backfill": Entry(
        f"{_ACTS}:backfill", "Submit the tasks of past times, from --start to before --end.", "Act"
    ),
    "delete": Entry(f"{_ACTS}:delete", "End schedules and remove them.", "Act"),
    "prune": Entry(
        f"{_ACTS}:prune",
        "Delete the schedules that an application declared once and declares no more.",
        "Act",
    ),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def schedules() -> None:
    """List, make, pause and backfill schedules.

    A schedule submits a task at each of its times. Any worker or service with a timekeeper fires
    it; there is no scheduler to run. Those that code declares (`@app.task(cron=...)`) are shown,
    too.
    """


# --- for all commands ---


def keeper(engine: "Engine") -> "ScheduleKeeper":
    """The schedules behind an engine. Raises `CommandFailed` where there are none."""
    from andon.engine.schedule_requests import HasSchedules

    if not isinstance(engine, HasSchedules):
        raise CommandFailed("This store or service knows no schedules.")
    return engine.schedules


async def schedule_named(engine: "Engine", name: str) -> "Task":
    """The record of a schedule. Raises `CommandFailed` where there is none of that name."""
    [task] = await engine.get([name])
    if task is not None and task.status.schedule is not None:
        return task
    if task is not None:
        raise CommandFailed(f"{name!r} is a task and no schedule. See: andon tasks show {name}.")
    from difflib import get_close_matches

    known = [one.id for one in await keeper(engine).live()]
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "See: andon schedules list."
    raise CommandFailed(f"There is no schedule {name!r}. {hint}")


# --- list ---


@click.command("list")
@click.option("--application", metavar="NAME", help="Declared by this application.")
@click.option("--task", "task_name", metavar="NAME", help="Whose tasks have this name.")
@click.option("--queue", metavar="NAME", help="Whose tasks go to this queue.")
@click.option("--tag", metavar="TAG", help="Whose tasks have this tag.")
@click.option("--paused", is_flag=True, help="Only those that are paused.")
@common
async def list_schedules(session: Session, **asked: Any) -> None:
    """List schedules that go on, by name.

    One that has ended is shown by `andon schedules show NAME`.
    """
    from andon.cli.schedule_views import row
    from andon.engine.schedule_views import schedule_document
    from andon.lifecycle.faces import SCHEDULES, schedule_as

    async with session.engine() as engine:
        found = matching(await keeper(engine).live(), **asked)
        now = engine.now()
    out = session.out
    if out.json or session.seen_as in SCHEDULES:
        documents = [schedule_as(session.seen_as, schedule_document(task)) for task in found]
        if out.json:
            out.document(documents)
        else:
            for one in documents:
                out.pairs(_flat(one))
        return
    columns = [
        Column("schedule", named=True),
        Column("task", named=True),
        Column("times", named=False),
        Column("next", keeps=True),
        Column("fired", right=True, spare=True),
        Column("note"),
    ]
    out.table(columns, [row(task, out, now) for task in found], empty=_EMPTY)


_EMPTY = "No schedules match. Make one: andon schedules add NAME TASK --cron '0 2 * * *'."


def matching(
    found: "Sequence[Task]",
    *,
    application: str | None = None,
    task_name: str | None = None,
    queue: str | None = None,
    tag: str | None = None,
    paused: bool = False,
) -> "list[Task]":
    """Those that are asked for."""
    from andon.engine.schedule_views import is_paused, schedule_of

    def is_asked_for(task: "Task") -> bool:
        schedule = schedule_of(task, task.id)
        return (
            application in (None, schedule.application)
            and task_name in (None, schedule.template.name)
            and queue in (None, schedule.template.queue)
            and (tag is None or tag in schedule.template.tags)
            and (not paused or is_paused(task))
        )

    return [task for task in found if is_asked_for(task)]


# --- show ---


@click.command("show")
@click.argument("name")
@common
async def show(session: Session, *, name: str) -> None:
    """Show one schedule: what it does, how it stands, when it fires next."""
    from andon.cli.schedule_views import facts, show_times
    from andon.engine.schedule_views import (
        next_times,
        schedule_document,
        schedule_of,
        time_document,
    )
    from andon.lifecycle.faces import SCHEDULES, schedule_as

    async with session.engine() as engine:
        task = await schedule_named(engine, name)
        last_id = schedule_of(task, name).last_id
        [last] = await engine.get([last_id]) if last_id else [None]
        now = engine.now()
    out, times = session.out, next_times(task, now, _SHOWN)
    if session.seen_as in SCHEDULES:
        shown = schedule_as(session.seen_as, schedule_document(task, last))
        if out.json:
            out.document(shown)
        else:
            out.pairs(_flat(shown))
        return
    if out.json:
        shown = schedule_document(task, last)
        out.document(shown | {"next": [time_document(one) for one in times]})
        return
    out.pairs(facts(task, last, out, now), title=name if out.terminal else "")
    show_times(out, times, now)


def _flat(fields: "Fields") -> "Iterator[tuple[str, Cell]]":
    """Fields of another system as lines: what is no text or number as JSON."""
    import msgspec

    for name, value in fields.items():
        plain = value is None or isinstance(value, str | int)
        yield name, value if plain else msgspec.json.encode(value).decode()


_SHOWN = 5


# --- next ---


@click.command("next")
@click.argument("name", required=False)
@click.option(
    "--count",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="How many times are shown.",
)
@click.option("--from", "since", type=WHEN, metavar="TIME", help="After this time, not after now.")
@adding(UNCOUNTED_TIMES)
@common
async def next_times(
    session: Session, *, name: str | None, count: int, since: When | None, **given: Any
) -> None:
    """Show the next times of a schedule, or of times that are not stored yet.

    `andon schedules next nightly`, or `andon schedules next --cron '30 2 * * *' --tz
    Europe/Berlin`, which needs no store. Each time is shown by the clocks of its zone and in UTC;
    what daylight saving does to it is said below it.
    """
    from andon.cli.schedule_views import show_times
    from andon.engine import schedule_views

    if name is None:
        now = time.time_ns() // 1_000_000
        fields = times_given(given, now)
        if not fields:
            raise click.UsageError("Which times? Give the NAME of a schedule, --cron or --every.")
        after = now if since is None else since.on(now)
        times = _explained(Recurrence(**fields), after, count)
    else:
        if times_given(given, 0):
            raise click.UsageError("Give the NAME of a schedule or times of your own, not both.")
        async with session.engine() as engine:
            task = await schedule_named(engine, name)
            now = engine.now()
        after = now if since is None else since.on(now)
        times = schedule_views.next_times(task, after, count)
    out = session.out
    if out.json:
        out.document([schedule_views.time_document(one) for one in times])
        return
    show_times(out, times, now)
    if not times:
        out.note("None of its times is left.")


def _explained(recurrence: Recurrence, after: int, most: int) -> "list[ExplainedTime]":
    from andon.lifecycle.recurrence.checking import check
    from andon.lifecycle.recurrence.explaining import explain

    check(recurrence)
    return explain(recurrence, "schedule", after=after, most=most)
