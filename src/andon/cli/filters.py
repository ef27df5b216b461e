"""The filter options of all commands that list tasks or act on them."""

import functools
from collections.abc import Callable
from typing import Any

import click

from andon.cli.values import comma_separated
from andon.engine.filtering import Filters

Command = Callable[..., Any]


def filters(function: Command) -> Command:
    """Add the filter options; hand a `Filters` over as `filters`."""

    @click.option("--state", "states", multiple=True, metavar="STATE", help="May be repeated.")
    @click.option("--queue", metavar="NAME", help="Tasks of this queue.")
    @click.option("--name", metavar="NAME", help="Tasks of this name.")
    @click.option("--tag", metavar="TAG", help="Tasks with this tag.")
    @click.option("--key", metavar="KEY", help="Tasks with this concurrency key.")
    @click.option("--group", metavar="GROUP", help="Tasks of this group.")
    @click.option("--worker", metavar="ID", help="Tasks this worker is running.")
    @click.option(
        "--fingerprint",
        metavar="HASH",
        help="Tasks whose error is of this kind (andon dlq groups).",
    )
    @functools.wraps(function)
    def call(*args: Any, states: tuple[str, ...], **given: Any) -> Any:
        names = ("queue", "name", "tag", "key", "group", "worker", "fingerprint")
        chosen = {name: given.pop(name) for name in names}
        asked = Filters(states=comma_separated(states), **chosen)
        return function(*args, filters=asked, **given)

    return call


oldest_first = click.option(
    "--oldest-first", is_flag=True, help="In the order in which they were created."
)
"""The option for the order of a list."""

newest_first = click.option(
    "--newest-first", is_flag=True, help="The newest first, also of those that wait for a time."
)
