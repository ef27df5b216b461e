"""`andon workers claiming` and `quarantine`: workers that are known by their claims alone."""

import click

from andon.cli.layout import Column
from andon.cli.session import Session, common
from andon.cli.values import WHEN, When


@click.command("claiming")
@click.argument("queue", metavar="QUEUE")
@click.option("--quarantined/--free", default=None, help="Only those in quarantine, or the others.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@click.option("--cursor", default="", help="Go on after the last page.")
@common
async def list_claiming(
    session: Session, *, queue: str, quarantined: bool | None, limit: int, cursor: str
) -> None:
    """List workers of a queue that say nothing of themselves but their claims.

    Such as those of other systems, by id: when they were heard of last (give or take five minutes),
    what they got last, and until when they get nothing. They are kept for a day.
    """
    async with session.engine() as engine:
        found, more = await engine.claiming_workers(queue, cursor, limit, in_quarantine=quarantined)
        now = engine.now()
    out = session.out
    if out.json:
        out.document({"workers": found, "cursor": more})
        return
    out.table(
        [
            Column("worker", named=True),
            Column("first claim", keeps=True, spare=True),
            Column("active", keeps=True),
            Column("newest run"),
            Column("quarantined until", keeps=True),
        ],
        [
            [
                one.worker,
                out.when(one.first_claim, now),
                out.when(one.last_active, now),
                f"{one.recent[-1].task}/{one.recent[-1].run}" if one.recent else None,
                None if one.quarantined_until is None else out.when(one.quarantined_until, now),
            ]
            for one in found
        ],
        empty=f"No such worker has claimed from queue {queue} within a day.",
    )
    if more:
        out.note(f"There may be more: --cursor {more}")


@click.command("quarantine")
@click.argument("queue", metavar="QUEUE")
@click.argument("worker", metavar="WORKER")
@click.option("--until", type=WHEN, help="When it ends: ISO 8601, or +1h.")
@click.option("--lift", is_flag=True, help="End it now.")
@click.option("--info", default="", help="Why; at most 4,000 characters.")
@common
async def quarantine(
    session: Session, *, queue: str, worker: str, until: When | None, lift: bool, info: str
) -> None:
    """Give a worker nothing of a queue for a while.

    One that is known by its claims alone: see andon workers claiming. What it runs goes on.
    """
    if (until is None) is not lift:
        raise click.UsageError("Give either --until or --lift.")
    async with session.engine() as engine:
        now = engine.now()
        moment = now if until is None else until.on(now)
        held = await engine.quarantine_worker(queue, worker, moment, by=_caller(), info=info)
    out = session.out
    if out.json:
        out.document(held)
    else:
        out.note(f"Worker {worker} gets nothing of queue {queue}." if not lift else "It is lifted.")


def _caller() -> str:
    """The user as this machine names it: for the record, and no proof."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without names
        return ""
