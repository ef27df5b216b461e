"""`andon logs`: prints or follows the logs of a task's runs."""

from typing import TYPE_CHECKING

import click

from andon.cli.ids import one_named
from andon.cli.session import Session, common
from andon.lifecycle.faces.fields import iso
from andon.model.cleaning import clean_below

if TYPE_CHECKING:
    from andon.cli.output import Output
    from andon.client.runlogs import RunLine


@click.command()
@click.argument("task_id", metavar="ID")
@click.option("--run", type=click.IntRange(0), metavar="N", help="Of this run; default: of all.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what is logged, until it has ended.")
@common
async def logs(session: Session, *, task_id: str, run: int | None, follow: bool) -> None:
    """Print what the runs of a task have logged.

    That is what a handler logged by whichever logger, and what its command or child process wrote
    to stderr (a child also to stdout). With --json one object a line.
    """
    from andon.client.runlogs import run_lines

    async with session.engine() as engine:
        task_id = await one_named(session, engine, task_id)
        async for found in run_lines(engine, task_id, run=run, follow=follow):
            _print(session.out, task_id, found)


def _print(out: "Output", task_id: str, found: "RunLine") -> None:
    run, line = found
    if out.json:
        out.record(
            {
                "task_id": task_id,
                "run": run,
                "at": iso(line.at),
                "level": line.level,
                "text": line.text,
            }
        )
    else:
        out.line(f"{iso(line.at)} run {run} {line.level:7} {clean_below(line.text)}")
