"""`andon bench`: measure the store at hand. The measuring itself is `andon.bench`."""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from andon.cli.session import Session, common, refuse_nowhere
from andon.model.errors import ConfigurationError

KINDS = ("submit", "drain", "e2e", "latency")


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--n", "n", type=click.IntRange(1), default=10_000, show_default=True)
@click.option("--concurrency", type=click.IntRange(1), default=100, show_default=True)
@common
def bench(session: Session, *, kind: str, n: int, concurrency: int) -> None:
    """Measure this store on this machine.

    submit: accepted tasks per second; drain: one worker empties a queue; e2e: both at once;
    latency: from submit to start at 50 a second. The tasks do nothing, and their completions are
    counted in the store.
    """
    if find_spec("andon.bench") is None:
        raise ConfigurationError("This installation has no andon.bench; install a whole release.")
    sys.setswitchinterval(0.001)
    refuse_nowhere(session.url, creates=True, memory=True)
    measured: dict[str, Any] = import_module("andon.bench").run(
        kind, url=session.url, n=n, concurrency=concurrency
    )
    if session.out.json:
        session.out.document(measured)
    else:
        session.out.pairs((name, _shown(value)) for name, value in measured.items())


def _shown(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
