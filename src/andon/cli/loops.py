"""The option that chooses the event loop of `andon worker` and `andon serve`."""

from typing import get_args

import click

from andon.worker.event_loop import Loop

event_loop = click.option(
    "--loop",
    type=click.Choice(get_args(Loop)),
    default="auto",
    show_default=True,
    help="Event loop; auto: uvloop where it is installed.",
)
