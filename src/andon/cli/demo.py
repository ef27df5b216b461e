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
@click.option(
    "--kills", type=click.IntRange(0), help="Workers to kill with -9; one if there are many files."
)
@click.option("--fresh", is_flag=True, help="Start over instead of going on.")
@common
def demo(
    session: Session,
    *,
    folder: str | None,
    out: str | None,
    workers: int,
    concurrency: int | None,
    kills: int | None,
    fresh: bool,
) -> None:
    """Watch a real job go through Andon.

    A flow analyses every Python file below FOLDER (by default the standard library's), while a
    worker is killed, and writes a report. Then a file changes, one of the demo's own: a schedule
    finds that and begins a flow anew with what has changed. It ends with a ledger. Interrupted or
    killed, the same command goes on where it was.
    """
    if find_spec("andon.demo") is None:
        raise ConfigurationError("This installation has no andon.demo; install a whole release.")
    code: int = import_module("andon.demo").run_demo(
        folder,
        url=session.given_url,
        out=out,
        workers=workers,
        concurrency=concurrency,
        kills=kills,
        fresh=fresh,
        json=session.json,
        command="andon demo",
    )
    raise click.exceptions.Exit(code)
