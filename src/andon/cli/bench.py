"""`andon bench`: measure the store at hand. The measuring itself is `andon.bench`."""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import click

from andon.cli.session import Session, common
from andon.model.errors import ConfigurationError

KINDS = ("submit", "drain", "e2e", "latency")


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--n", "n", type=click.IntRange(1), help="How many tasks.")
@click.option("--concurrency", type=click.IntRange(1), help="Submitters, or runs, at once.")
@click.option(
    "--how",
    type=click.Choice(("bulk", "concurrent", "single")),
    help="How tasks are submitted (bulk, or as --concurrency says).",
)
@common
def bench(
    session: Session, *, kind: str, n: int | None, concurrency: int | None, how: str | None
) -> None:
    """Measure this store on this machine.

    A fresh SQLite file, removed afterwards, unless --url or ANDON_URL names another store.

    submit: accepted tasks per second; drain: one worker empties a queue; e2e: both at once;
    latency: from submit to start at 50 a second. The tasks do nothing, and their completions are
    counted in the store.
    """
    if find_spec("andon.bench") is None:
        raise ConfigurationError("This installation has no andon.bench; install a whole release.")
    sys.setswitchinterval(0.001)
    measured: dict[str, Any] = import_module("andon.bench").run(
        kind, url=session.named_url, n=n, concurrency=concurrency, how=how
    )
    if session.out.json:
        session.out.document(measured)
    else:
        session.out.pairs((name, _shown(value)) for name, value in measured.items())


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return ", ".join(f"{name}: {_shown(item)}" for name, item in items)
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
