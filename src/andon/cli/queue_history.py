"""`andon queues history`: what was submitted, processed and failed, day by day."""

from typing import TYPE_CHECKING, Any

import click

from andon.cli.layout import Column
from andon.cli.output import Cell, Word, whole
from andon.cli.session import Session, common
from andon.lifecycle.daily import KEPT_DAYS

if TYPE_CHECKING:
    from andon.model.fleet import DayCounts, QueueHistory

_COLUMNS = [
    Column("day (UTC)", keeps=True),
    Column("submitted", right=True, keeps=True),
    Column("processed", right=True, keeps=True),
    Column("failed", right=True, keeps=True),
    Column("failed %", right=True, keeps=True),
]


@click.command("history")
@click.argument("queue", required=False)
@click.option(
    "--days",
    type=click.IntRange(1, KEPT_DAYS),
    default=7,
    show_default=True,
    metavar="N",
    help=f"How many days, today among them; {KEPT_DAYS} are kept.",
)
@common
async def history(session: Session, *, queue: str | None, days: int) -> None:
    """Show what was submitted, processed and failed on each of the last days.

    Of QUEUE, or of all queues together; the newest day first, in UTC. "processed" counts runs that
    ended, every retry for itself, "failed" those of them that failed. A run that was given back
    (a worker shut down, a task was snoozed) counts when it ends. With --json each queue has its
    own days, and its total.
    """
    from andon.engine.filtering import check_queue
    from andon.lifecycle.daily import summed_up, total

    async with session.engine() as engine:
        if queue is not None:
            await check_queue(engine, queue)
        found = await engine.queue_history(queue, days)
    out = session.out
    if out.json:
        documents = [_document(one) for one in found]
        out.document(documents if queue is None else documents[0])
        return
    rows = summed_up(one.days for one in found)
    shown = [_cells(row) for row in rows]
    if out.terminal and rows:
        shown.append([Word(str(cell), "bold") for cell in _cells(total(rows))])
    out.table(_COLUMNS, shown, empty="There is no queue yet: the first task makes one.")


def _cells(row: "DayCounts") -> list[Cell]:
    share = f"{100 * row.failed / row.processed:.1f}" if row.processed else ""
    return [row.day, row.submitted, row.processed, row.failed, share]


def _document(one: "QueueHistory") -> dict[str, Any]:
    from andon.lifecycle.daily import total

    sums = whole(total(one.days))
    del sums["day"]
    return {"queue": one.queue, "days": list(one.days), "total": sums}
