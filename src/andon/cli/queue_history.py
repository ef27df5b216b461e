"""`andon queues history`: what was submitted, processed and failed, day by day."""

from typing import TYPE_CHECKING, Any

import click

from andon.cli.layout import Column
from andon.cli.output import Cell, Word, whole
from andon.cli.session import Session, common
from andon.lifecycle.daily import KEPT_DAYS
from andon.lifecycle.minutes import MOST_MINUTES

if TYPE_CHECKING:
    from andon.engine.base import Engine
    from andon.model.fleet import DayCounts, QueueHistory
    from andon.model.minutes import MinuteCounts, MinuteHistory

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
@click.option(
    "--minutes",
    type=click.IntRange(1, MOST_MINUTES),
    metavar="N",
    help=f"The last N minutes instead of days; {MOST_MINUTES} are kept.",
)
@click.option("--by-type", is_flag=True, help="With --minutes: a sum for each type of task.")
@common
async def history(
    session: Session, *, queue: str | None, days: int, minutes: int | None, by_type: bool
) -> None:
    """Show what was submitted, processed and failed on each of the last days, or minutes.

    Of QUEUE, or of all queues together; the newest day first, in UTC. "processed" counts runs that
    ended, every retry for itself, "failed" those of them that failed. A run that was given back
    (a worker shut down, a task was snoozed) counts when it ends. With --json each queue has its
    own days, and its total.

    With --minutes each minute in which something happened: started and pending too, and in which
    bands wait and run times fell, of a bounded sample. A minute that no timekeeper has rolled up is
    missing, and said to be.
    """
    from andon.engine.filtering import check_queue
    from andon.lifecycle.daily import summed_up, total

    if minutes is None and by_type:
        raise click.UsageError("--by-type goes with --minutes: days are counted by queue.")
    if queue is not None and by_type:
        raise click.UsageError("Give a queue or --by-type, not both.")
    async with session.engine() as engine:
        if queue is not None:
            await check_queue(engine, queue)
        if minutes is not None:
            await _show_minutes(session, engine, queue, minutes, by_type=by_type)
            return
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


async def _show_minutes(
    session: Session, engine: "Engine", queue: str | None, minutes: int, *, by_type: bool
) -> None:
    found = await engine.minutes(queue, minutes, by_type=by_type)
    out = session.out
    if out.json:
        from andon.lifecycle.minutes import minutes_document

        out.document(minutes_document(found))
        return
    rows = _rows_by_type(found) if by_type else _rows_by_minute(found)
    first = Column("type", named=True) if by_type else Column("minute (UTC)", keeps=True)
    out.table([first, *_MINUTE_COLUMNS], rows, empty="Nothing happened in these minutes.")
    if by_type and not found.whole:
        out.note("Counts are of a sample, because more ended in a minute than is looked at.")
    if found.missing:
        out.note(
            f"{len(found.missing)} of these minutes are missing: no worker and no service that "
            "keeps time was there to roll them up."
        )


_MINUTE_COLUMNS = [
    Column("submitted", right=True, keeps=True),
    Column("started", right=True, keeps=True),
    Column("processed", right=True, keeps=True),
    Column("failed", right=True, keeps=True),
    Column("pending", right=True, keeps=True),
    Column("active", right=True, keeps=True),
    Column("waited", right=True, keeps=True),
    Column("ran", right=True, keeps=True),
]


def _rows_by_minute(found: "MinuteHistory") -> list[list[Cell]]:
    from andon.lifecycle.faces.fields import iso
    from andon.lifecycle.minutes import added

    by_minute: dict[int, list[Any]] = {}
    for series in found.series:
        for point in series.points:
            by_minute.setdefault(point.at, []).append(point.counts)
    missing: list[tuple[int, list[Cell]]] = [
        (at, [iso(at)[:16], Word("missing", "yellow")]) for at in found.missing
    ]
    there = [
        (at, [iso(at)[:16], *_minute_cells(added(counts))]) for at, counts in by_minute.items()
    ]
    return [cells for _, cells in sorted([*there, *missing], key=lambda row: -row[0])]


def _rows_by_type(found: "MinuteHistory") -> list[list[Cell]]:
    from andon.lifecycle.minutes import added

    return [
        [series.name, *_minute_cells(added(point.counts for point in series.points))]
        for series in found.series
    ]


def _minute_cells(counts: "MinuteCounts") -> list[Cell]:
    from andon.lifecycle.minutes import median_band

    return [
        counts.submitted,
        counts.started,
        counts.finished + counts.failed,
        counts.failed,
        counts.pending,
        counts.active,
        median_band(counts.wait),
        median_band(counts.run),
    ]
