"""`andon top`: the board on a terminal."""

import click

from andon.cli.errors import CommandFailed
from andon.cli.people import actor
from andon.cli.session import Session, common
from andon.model.errors import ConfigurationError
from andon.model.urls import shown


@click.command()
@click.option("--light", is_flag=True, help="Dark letters on a light ground.")
@common
async def top(session: Session, *, light: bool) -> None:
    """Watch and steer tasks, queues and workers live.

    Pages, filters, acts and words are the board's; ? shows the keys. Needs a terminal of 80 x 24
    or more; for programs there are `andon events --follow --json` and `andon queues list --json`.
    """
    if not session.out.terminal:
        raise CommandFailed(
            "top draws on a terminal, and this is none. Use: andon queues list, or andon events."
        )
    try:
        from andon.top.app import Top
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"andon top needs {error.name}. Install it with: pip install 'andon[top]'."
        ) from error
    async with session.engine() as engine:
        await Top(
            engine,
            location=shown(session.url),
            actor=actor(),
            light=light,
            seen_as=session.seen_as,
        ).run_async()
