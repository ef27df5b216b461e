"""Prints results: tables on a terminal, tab-separated lines in a pipe, JSON when asked.

Results go to stdout, remarks about them to stderr. All text goes through `cleaning`, so that a
task's error cannot move the reader's cursor; JSON escapes what that would remove.
"""

import sys
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click
import msgspec

from andon.cli.layout import GAP, Column, ended, shortened, widths_of
from andon.lifecycle.faces.fields import iso
from andon.model.cleaning import clean, clean_line, safe_json
from andon.model.wording import ago

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text


class Word(NamedTuple):
    """A cell with a style of its own on a terminal."""

    text: str
    style: str = ""


Cell = str | int | Word | None


STYLES = {
    "blocked": "magenta",
    "scheduled": "cyan",
    "pending": "blue",
    "active": "bold yellow",
    "retry": "yellow",
    "recurring": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
    "stalled": "red",
    "dropped": "red",
    "expired": "red",
    "unreachable": "red",
    "unknown": "bold red",
}
"""How each native state is coloured, whatever name it is shown under."""


class Output:
    """Where a command's results go. `terminal`: stdout is read by a person."""

    def __init__(self, *, as_json: bool) -> None:
        self.json = as_json
        self.terminal = sys.stdout.isatty() and not as_json
        self._console: Console | None = None

    @property
    def console(self) -> "Console":
        """The terminal, through rich."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(highlight=False, soft_wrap=False)
        return self._console

    def table(
        self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, empty: str
    ) -> None:
        """Rows under their columns; on a terminal, `empty` when there are none."""
        if not self.terminal:
            for row in rows:
                self.line("\t".join(_text(cell) for cell in row))
            return
        found = list(rows)
        if found:
            self.console.print(drawn(columns, found, self.console.width))
        else:
            self.note(empty)

    def pairs(self, rows: Iterable[tuple[str, Cell]], *, title: str = "") -> None:
        """A block of `name: value`."""
        known = [(name, cell) for name, cell in rows if cell is not None and _text(cell) != ""]
        if not self.terminal:
            for name, cell in known:
                self.line(f"{name}\t{_text(cell)}")
            return
        from rich.text import Text

        if title:
            self.console.print(Text(clean(title), style="bold"))
        width = max((len(name) for name, _ in known), default=0)
        for name, cell in known:
            line = Text(f"  {name:>{width}}: ", style="dim")
            self.console.print(line.append_text(rich_text(cell)))

    def words(self, cells: Iterable[Cell]) -> None:
        """One line of cells: spaced on a terminal, tab-separated in a pipe."""
        if not self.terminal:
            self.line("\t".join(_text(cell) for cell in cells))
            return
        from rich.text import Text

        filled = [rich_text(cell) for cell in cells if _text(cell)]
        self.console.print(Text("  ").join(filled), soft_wrap=True)

    def document(self, value: Any) -> None:
        """A value as JSON: indented for people, on one line for programs."""
        encoded = msgspec.json.encode(whole(value))
        if sys.stdout.isatty():
            encoded = msgspec.json.format(encoded, indent=2)
        self.encoded(encoded)

    def record(self, value: Any) -> None:
        """A value as JSON on one line: one of many."""
        self.encoded(msgspec.json.encode(whole(value)))

    def encoded(self, json: bytes) -> None:
        """JSON unchanged, except that characters on which a terminal would act are escaped."""
        click.echo(safe_json(json))

    def line(self, text: str) -> None:
        """Results that are text already, on a line or on several."""
        click.echo(clean(text) if "\t" not in text else "\t".join(map(clean, text.split("\t"))))

    def note(self, text: str) -> None:
        """Print a remark about the results."""
        click.echo(clean(text), err=True)

    def when(self, ms: int | None, now: int) -> str:
        """A time: as an age on a terminal, as ISO 8601 in a pipe."""
        if ms is None:
            return ""
        return ago(ms, now) if self.terminal else iso(ms)


def drawn(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int
) -> "RenderableType":
    """A table that fits so many columns of a terminal."""
    from rich.cells import cell_len

    texts = [[_text(cell) for cell in row] for row in rows]
    natural = [max(map(cell_len, cells)) for cells in zip(_titles(columns), *texts, strict=True)]
    if sum(natural) + 3 * len(columns) <= width:
        return _ruled(columns, rows)
    kept = [not column.spare for column in columns]
    columns = list(compress(columns, kept))
    rows = [list(compress(row, kept)) for row in rows]
    texts = [list(compress(row, kept)) for row in texts]
    widths = widths_of(columns, texts, width, cell_len)
    return _blocks(columns, rows) if widths is None else _close(columns, rows, widths)


def _titles(columns: Sequence[Column]) -> list[str]:
    return [column.title for column in columns]


def _ruled(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> "RenderableType":
    """A table with all the room that it needs."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(rich_text, row))
    return table


def _close(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], widths: Sequence[int]
) -> "RenderableType":
    """A table whose columns are as wide as this, with what does not fit shortened."""
    from rich.cells import cell_len
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            width=width,
            no_wrap=not column.wraps,
            overflow="fold",
        )
    for row in rows:
        cells: list[Text] = []
        for column, cell, width in zip(columns, row, widths, strict=True):
            text = rich_text(cell)
            if column.named:
                text.plain = shortened(text.plain, width)
            elif not (column.wraps or column.right or column.keeps):
                text.plain = ended(text.plain, width, cell_len)
            cells.append(text)
        table.add_row(*cells)
    return table


def _blocks(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> "RenderableType":
    """Each row as lines of `name: value`: nothing has to be shortened."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=False)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            if _text(cell):
                table.add_row(f"{column.title}:", rich_text(cell))
        table.add_row()
    return table


def rich_text(cell: Cell) -> "Text":
    """A cell for rich, its text taken literally."""
    from rich.text import Text

    return Text(_text(cell), style=cell.style if isinstance(cell, Word) else "")


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    text = cell.text if isinstance(cell, Word) else str(cell)
    return clean_line(text)


def whole(value: Any) -> Any:
    """The value with every field of its structs, also those at their defaults: a script must not
    have to know which were left out of storage."""
    if isinstance(value, msgspec.Struct):
        return {name: whole(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {name: whole(item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [whole(item) for item in cast("list[Any]", value)]
    return value
