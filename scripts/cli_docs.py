"""Write the generated parts of docs/cli.md from the commands themselves.

    python scripts/cli_docs.py            rewrite the page
    python scripts/cli_docs.py --check    fail when the page is stale

What stands between `<!-- generated: commands -->` and `<!-- end -->` is generated; all else is
written by hand.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import generated

from andon.cli.lazy import LazyGroup
from andon.cli.root import COMMANDS, root

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
WORDS = {"integer": "N", "integer range": "N", "directory": "FOLDER", "text": "TEXT"}
COMMON = {"url", "as_json", "seen_as", "debug", "help"}


def reference() -> str:
    context = click.Context(root, info_name="andon")
    lines: list[str] = []
    section = ""
    for name, entry in COMMANDS.items():
        if entry.section != section:
            section = entry.section
            lines += [f"## {section}", ""]
        command = root.get_command(context, name)
        assert command is not None
        for path, leaf in leaves(f"andon {name}", command, context):
            lines += [*page_of(path, leaf), ""]
    return "\n".join(lines).rstrip()


def leaves(
    path: str, command: click.Command, parent: click.Context
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(command, info_name=path, parent=parent)
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaves(f"{path} {name}", found, context)


def page_of(path: str, command: click.Command) -> list[str]:
    depth = "###" if path.count(" ") == 1 else "####"
    text = inspect.cleandoc(command.help or "").replace("\n\n", "\0")
    lines = [f"{depth} `{path}`", ""]
    for paragraph in text.split("\0"):
        lines += [" ".join(paragraph.split()), ""]
    if isinstance(command, click.Group):
        return lines[:-1]
    lines += ["```", usage(path, command), "```", ""]
    rows = [row for option in command.params if (row := row_of(option))]
    if rows:
        lines += ["| option | meaning |", "| --- | --- |", *rows, ""]
    return lines[:-1]


def usage(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    pieces = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    return " ".join([path, "[OPTIONS]", *pieces])


def row_of(option: click.Parameter) -> str:
    if not isinstance(option, click.Option) or option.hidden or option.name in COMMON:
        return ""
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if isinstance(option.type, click.Choice) and len(option.type.choices) < 4:
        names += f" {' or '.join(f'`{choice}`' for choice in option.type.choices)}"
    elif not option.is_flag and option.metavar:
        names += f" {option.metavar}"
    elif not option.is_flag:
        names += f" {WORDS.get(option.type.name, option.type.name.upper())}"
    told = [option.help or ""]
    if option.required:
        told.append("Required.")
    if option.show_default and option.default is not None and not option.is_flag:
        told.append(f"Default: {option.default}.")
    return f"| {names} | {' '.join(filter(None, told))} |".replace("  |", " |")


if __name__ == "__main__":
    assert isinstance(root, LazyGroup)
    sys.exit(generated.main(PAGE, {"commands": reference}, about=__doc__ or ""))
