"""`andon workers`: lists workers, and removes those that are gone."""

from typing import TYPE_CHECKING

import click

from andon.cli.acting import Selection, act
from andon.cli.layout import Column
from andon.cli.lazy import Entry, LazyGroup
from andon.cli.output import Word
from andon.cli.session import Session, common
from andon.engine.filtering import Filters

if TYPE_CHECKING:
    from andon.cli.output import Cell, Output
    from andon.model.fleet import WorkerInfo

COLUMNS = (
    Column("id", named=True),
    Column("host", named=True, spare=True),
    Column("pid", right=True),
    Column("state", keeps=True),
    Column("active", right=True),
    Column("queues", wraps=True),
    Column("started", keeps=True, spare=True),
    Column("seen", keeps=True),
)
COMMANDS = {
    "list": Entry(
        "andon.cli.workers:list_workers", "List workers heard of within the last minute.", "Look"
    ),
    "claiming": Entry(
        "andon.cli.claiming:list_claiming",
        "List workers of a queue that say nothing of themselves but their claims.",
        "Look",
    ),
    "quarantine": Entry(
        "andon.cli.claiming:quarantine", "Give a worker nothing of a queue for a while.", "Act"
    ),
    "remove": Entry(
        "andon.cli.workers:remove", "End the runs of a worker that is gone for good.", "Act"
    ),
}
_STYLES = {"running": "green", "quiet": "yellow", "stopping": "magenta"}


@click.group(cls=LazyGroup, entries=COMMANDS)
def workers() -> None:
    """List workers, remove those that are gone, and quarantine those of other systems."""


@click.command("list")
@common
async def list_workers(session: Session) -> None:
    """List workers heard of within the last minute."""
    async with session.engine() as engine:
        found, now = await engine.workers(), engine.now()
    out = session.out
    if out.json:
        out.document(found)
        return
    out.table(
        COLUMNS,
        [cells(worker, out, now) for worker in found],
        empty="No worker is alive. Start one with: andon worker APP.",
    )


@click.command()
@click.argument("worker", metavar="WORKER")
@click.option("--dry-run", is_flag=True, help="Only say which tasks it runs.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
async def remove(session: Session, *, worker: str, dry_run: bool, yes: bool) -> None:
    """End the runs of a worker that is gone for good.

    WORKER is its id, as lists of workers have it. Nothing waits until its leases run out: each of
    its runs ends as worker-shutdown, and the task is tried again while its budget lasts. The worker
    is listed no more. One that still lives can write nothing of these runs, goes on claiming, and
    is listed again: stop it first.
    """
    which = Filters(worker=worker)
    asked = Selection(ids=(), all=False, filters=which, limit=None, dry_run=dry_run, yes=yes)
    asked.check()
    await act(
        session,
        asked,
        "taken from the worker",
        lambda engine: lambda ids: engine.end_runs(worker, ids),
    )
    if not dry_run:
        async with session.engine() as engine:
            await engine.remove_worker(worker)


def cells(worker: "WorkerInfo", out: "Output", now: int) -> list["Cell"]:
    """One worker in a list."""
    return [
        worker.id,
        worker.host,
        worker.pid,
        Word(worker.state, _STYLES.get(worker.state, "")),
        f"{worker.active}/{worker.concurrency}",
        ",".join(worker.queues),
        out.when(worker.started_at, now),
        out.when(worker.seen_at, now),
    ]
