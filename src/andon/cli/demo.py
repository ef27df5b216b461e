"""`andon demo`: the main job on real input. The job itself is `andon.demo`."""

from importlib import import_module
from importlib.util import find_spec

import click

from andon.cli.session import Session, common
from andon.model.errors import ConfigurationError


@click.command()
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False))
@click.option("--out", type=click.Path(file_okay=False), help="Where store and report go.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True)
@click.option("--concurrency", type=click.IntRange(1), help="Runs at once in each worker.")
@click.option("--fresh", is_flag=True, help="Start over instead of going on.")
@common
def demo(
    session: Session,
    *,
    folder: str | None,
    out: str | None,
    workers: int,
    concurrency: int | None,
    fresh: bool,
) -> None:
    """Watch a real job go through Andon.

    Analyses every Python file below FOLDER (by default the standard library's), shows the board
    while it runs, and ends with a ledger and a report. Interrupted or killed, the same command
    goes on where it was.
    """
    if find_spec("andon.demo") is None:
        raise ConfigurationError("This installation has no andon.demo; install a whole release.")
    code: int = import_module("andon.demo").run_demo(
        folder,
        url=session.given_url,
        out=out,
        workers=workers,
        concurrency=concurrency,
        fresh=fresh,
        json=session.json,
        command="andon demo",
    )
    raise click.exceptions.Exit(code)
