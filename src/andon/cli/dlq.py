"""`andon dlq`: dead letters, the tasks that ended badly and are kept to be looked at."""

import click

from andon.cli.acting import Asked, act, which, with_command
from andon.cli.filters import filters, oldest_first
from andon.cli.session import Session, common
from andon.engine.filtering import Filters
from andon.lifecycle.commands import Delete


@click.group()
def dlq() -> None:
    """Browse, resubmit and purge dead letters.

    Dead letters are failed, stalled, dropped, expired and unreachable tasks whose policy says that
    they are to be saved.
    """


@dlq.command("list")
@filters
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option("--cursor", default="", help="Go on after the last page.")
@oldest_first
@common
async def list_letters(
    session: Session, *, filters: Filters, limit: int, cursor: str, oldest_first: bool
) -> None:
    """List dead letters; those of the newest tasks first."""
    from andon.cli.tasks import list_page

    await list_page(
        session,
        filters,
        limit=limit,
        cursor=cursor,
        newest_first=not oldest_first,
        dead_letters=True,
        empty="There are no dead letters here.",
    )


@dlq.command()
@click.argument("task_id", metavar="ID")
@click.option("--traceback", is_flag=True, help="With Andon's own frames in the traceback.")
@common
async def show(session: Session, *, task_id: str, traceback: bool) -> None:
    """Show one dead letter: its error, where it was raised, and why it was not retried."""
    from andon.cli.show import show_task

    await show_task(session, task_id, whole=traceback)


@dlq.command()
@common
@which
async def resubmit(session: Session, *, asked: Asked) -> None:
    """Run dead letters again, with a new budget of tries."""
    await act(session, asked, "resubmitted", lambda engine: engine.retry, dead_letters=True)


@dlq.command()
@common
@which
async def purge(session: Session, *, asked: Asked) -> None:
    """Remove dead letters for good."""
    await act(session, asked, "deleted", with_command(Delete()), dead_letters=True)
