"""Groups that know their commands by name and import one only when it is called.

`andon --help` therefore costs the import of click and nothing else. The summaries are in the table
beside the names; a test compares them with the commands' own.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click


class Entry(NamedTuple):
    """One command of a lazy group."""

    target: str  #: module:attribute
    summary: str
    section: str = "Commands"


class LazyGroup(click.Group):
    """A group over a table of entries, listed in the table's order."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in order."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        return getattr(import_module(module), attribute)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the nearest name in the error."""
        name = args[0]
        if name not in self.entries and not name.startswith("-"):
            near = get_close_matches(name, self.entries, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" See {ctx.command_path} --help."
            ctx.fail(f"There is no command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by section, from the table alone."""
        width = max(map(len, self.entries))
        for section in dict.fromkeys(entry.section for entry in self.entries.values()):
            rows = [
                (name.ljust(width), entry.summary)
                for name, entry in self.entries.items()
                if entry.section == section
            ]
            with formatter.section(section):
                formatter.write_dl(rows)
