"""`andon tasks`: the commands that list and show; those that change tasks are in `acts`."""

from typing import TYPE_CHECKING

import click

from andon.cli.filters import filters, newest_first, oldest_first
from andon.cli.lazy import Entry, LazyGroup
from andon.cli.patience import Patience
from andon.cli.session import Session, common
from andon.engine.filtering import Filters

if TYPE_CHECKING:
    from andon.contract.queries import Page

_ACTS = "andon.cli.acts"

COMMANDS = {
    "list": Entry(
        "andon.cli.tasks:list_tasks",
        "List tasks, the newest first; those that wait for a time, the soonest first.",
        "Look",
    ),
    "show": Entry("andon.cli.show:show", "Show one task with its runs and its history.", "Look"),
    "dependents": Entry(
        "andon.cli.tasks:list_dependents", "List the tasks that depend on one, by id.", "Look"
    ),
    "cancel": Entry(f"{_ACTS}:cancel", "Cancel tasks that have not ended.", "Act"),
    "retry": Entry(f"{_ACTS}:retry", "Rerun what has ended, run now what waits.", "Act"),
    "rerun": Entry(f"{_ACTS}:rerun", "Run tasks again that have ended.", "Act"),
    "run-now": Entry(f"{_ACTS}:run_now", "Start waiting tasks without their wait.", "Act"),
    "schedule": Entry(f"{_ACTS}:schedule", "Release blocked tasks by hand.", "Act"),
    "reschedule": Entry(f"{_ACTS}:reschedule", "Give waiting tasks another start time.", "Act"),
    "reprioritise": Entry(
        f"{_ACTS}:reprioritise",
        "Give tasks another priority; of one that runs, it counts from its next run on.",
        "Act",
    ),
    "archive": Entry(f"{_ACTS}:archive", "Make dead letters of waiting tasks.", "Act"),
    "edit": Entry(f"{_ACTS}:edit", "Give a task that has not begun other arguments.", "Act"),
    "delete": Entry(f"{_ACTS}:delete", "Remove the records of ended tasks.", "Act"),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def tasks() -> None:
    """List, show and act on tasks.

    What acts takes ids, filters, or --all. How an id begins is enough where no other does; `-` is
    the last id that you submitted or showed, and in a pipe reads ids from stdin.
    """


@click.command("list")
@filters
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option("--cursor", default="", help="Go on after the last page.")
@newest_first
@oldest_first
@common
async def list_tasks(
    session: Session,
    *,
    filters: Filters,
    limit: int,
    cursor: str,
    newest_first: bool,
    oldest_first: bool,
) -> None:
    """List tasks, the newest first; those that wait for a time, the soonest first.

    With --state scheduled or retry (and no --key, --group or --tag) tasks come by due time.

    Where there are more than --limit, what to give as --cursor for the next page is printed to
    stderr.
    """
    if newest_first and oldest_first:
        raise click.UsageError("Give either --newest-first or --oldest-first.")
    order = newest_first if newest_first or oldest_first else None
    await list_page(session, filters, limit=limit, cursor=cursor, newest_first=order)


async def list_page(
    session: Session,
    filters: Filters,
    *,
    limit: int,
    cursor: str,
    newest_first: bool | None,
    dead_letters: bool = False,
    empty: str = "No tasks match.",
) -> None:
    """Print one page, full or the last: however many records have to be looked at for it."""
    from andon.engine.paging import full_page

    profile, out = session.profile, session.out
    query = filters.listed(
        profile,
        limit=limit,
        cursor=cursor,
        newest_first=newest_first,
        otherwise=True,
        dead_letters=dead_letters,
    )
    async with session.engine() as engine:
        await filters.check(engine)
        page = await full_page(
            engine, query, keep=filters.keep(profile), goes_on=Patience(out, "task")
        )
        print_page(session, page, engine.now(), empty=empty)


@click.command("dependents")
@click.argument("task_id", metavar="ID")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@click.option("--cursor", default="", help="Go on after the last page.")
@common
async def list_dependents(session: Session, *, task_id: str, limit: int, cursor: str) -> None:
    """List the tasks that depend on one, by id.

    Those that wait for it, those that were released by hand, and those that have ended, as long as
    their records are kept.
    """
    from andon.cli.ids import one_named

    async with session.engine() as engine:
        task_id = await one_named(session, engine, task_id)
        page = await engine.dependents(task_id, cursor, limit)
        print_page(session, page, engine.now(), empty=f"Nothing depends on task {task_id}.")


def print_page(session: Session, page: "Page", now: int, *, empty: str) -> None:
    """Print a page of tasks, and how to come to the next."""
    from andon.cli import shown
    from andon.lifecycle.rendering import document

    profile, out = session.profile, session.out
    if out.json:
        listed = [document(profile, task, now=now) for task in page.tasks]
        out.document({"tasks": listed, "cursor": page.cursor})
        return
    rows = (shown.row(profile, task, out, now) for task in page.tasks)
    out.table(shown.columns(profile), rows, empty=empty)
    if page.cursor:
        out.note(f"There may be more: --cursor {page.cursor}")
