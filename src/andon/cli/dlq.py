"""`andon dlq`: dead letters, the tasks that ended badly and are kept to be looked at."""

import click

from andon.cli.acting import Selection, act, which, with_command
from andon.cli.filters import filters, oldest_first
from andon.cli.layout import Column
from andon.cli.session import Session, common
from andon.engine.filtering import Filters
from andon.engine.letter_groups import LOOK, MOST_LOOKED
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
@click.option("--queue", metavar="NAME", help="Those of this queue.")
@click.option("--name", metavar="NAME", help="Those of this name.")
@click.option(
    "--look",
    type=click.IntRange(1, MOST_LOOKED),
    default=LOOK,
    show_default=True,
    metavar="N",
    help="How many dead letters to look at, those of the newest tasks.",
)
@click.option("--cursor", default="", help="Go on after the last look.")
@common
async def groups(
    session: Session, *, queue: str | None, name: str | None, look: int, cursor: str
) -> None:
    """Group dead letters by their errors: type and message, without numbers, ids and quoted values.

    The largest group first, with the id of the one that ended last. Where not all were looked at,
    the counts are "at least". To act on a group: andon dlq resubmit --fingerprint HASH.
    """
    from andon.engine.filtering import check_queue
    from andon.lifecycle.letter_groups import groups_document

    async with session.engine() as engine:
        if queue is not None:
            await check_queue(engine, queue)
        now = engine.now()
        found = await engine.letter_groups(queue, name, look=look, cursor=cursor)
    out = session.out
    if out.json:
        out.document(groups_document(found))
        return
    more = "" if found.whole else "+"
    out.table(
        _GROUP_COLUMNS,
        [
            [
                one.fingerprint,
                f"{one.count}{more}",
                out.when(one.newest_at, now),
                out.when(one.oldest_at, now),
                one.newest,
                ",".join(one.names),
                one.pattern,
            ]
            for one in found.groups
        ],
        empty="There are no dead letters here.",
    )
    if not found.whole:
        out.note(f"{found.looked:,} dead letters were looked at. Go on: --cursor {found.cursor}")


_GROUP_COLUMNS = [
    Column("fingerprint", keeps=True),
    Column("count", right=True, keeps=True),
    Column("newest", keeps=True),
    Column("oldest", keeps=True),
    Column("id of the newest", keeps=True),
    Column("names", named=True),
    Column("error", wraps=True),
]


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
async def resubmit(session: Session, *, asked: Selection) -> None:
    """Run dead letters again, with a new budget of tries."""
    await act(session, asked, "resubmitted", lambda engine: engine.retry, dead_letters=True)


@dlq.command()
@common
@which
async def purge(session: Session, *, asked: Selection) -> None:
    """Remove dead letters for good."""
    await act(session, asked, "deleted", with_command(Delete()), dead_letters=True)
