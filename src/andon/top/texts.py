"""Text of tasks as a terminal may show it, and the signs that the board has too.

All text that is shown goes through here: it keeps no escape sequence, no control character and
nothing that turns the direction of writing, and is never read as markup, since it is a `Text` from
then on.
"""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from andon.dashboard.views.looks import Shortened, Tone, line_of, lines_of, look_of
from andon.model.wording import ago, span

STYLES: dict[Tone, str] = {
    "quiet": "dim",
    "waits": "yellow",
    "ready": "blue",
    "runs": "cyan",
    "good": "green",
    "bad": "bold red",
    "off": "dim",
}
"""Colours by name, so that the theme says which shade of them can be read on its ground."""


def plain(text: str, style: str = "", *, most: int = 300) -> Text:
    """Text on one line, cut where it gets long."""
    return Text(line_of(text, most), style, no_wrap=True, overflow="ellipsis", end="")


def lines(text: str | Shortened, style: str = "") -> Text:
    """Text with its lines, cut where it gets long."""
    seen = text if isinstance(text, Shortened) else lines_of(text)
    shown = Text(seen.text, style)
    if seen.more:
        shown.append(f"\n… {seen.more:,} more characters", "dim")
    return shown


def words(*parts: "str | Text | tuple[str, str] | None") -> Text:
    """Several parts as one line; those that are None or empty are left out."""
    line = Text(end="")
    for part in parts:
        if isinstance(part, Text):
            line.append_text(part)
        elif isinstance(part, tuple):
            line.append(line_of(part[0]), part[1])
        elif part:
            line.append(line_of(part))
    return line


def joined(rows: Iterable[Text]) -> Text:
    """Lines, one below the other."""
    return Text("\n").join(rows)


def state(name: str | None, label: str = "") -> Text:
    """A state: its sign and its name."""
    look = look_of(name)
    return Text(f"{look.sign} {line_of(label or name or 'gone', 40)}", STYLES[look.tone], end="")


def age(at: int | None, now: int) -> Text:
    """A time as an age."""
    return Text("·", "dim", end="") if at is None else Text(ago(at, now), end="")


def number(count: int) -> Text:
    """A number to stand at the right; zero is dim."""
    return Text(f"{count:,}", "" if count else "dim", justify="right", end="")


def duration(ms: int | None) -> str:
    """How long, in words."""
    if ms is None:
        return "·"
    return f"{max(0, ms)} ms" if ms < 1_000 else span(ms / 1000)


def cut(text: Text, width: int) -> Text:
    """The text in so many cells at the most; what is cut off leaves an ellipsis."""
    if cell_len(text.plain) <= width:
        return text
    shown = text.copy()
    shown.truncate(max(1, width), overflow="ellipsis")
    return shown


def listed(pairs: Sequence[tuple[str, Text | str]]) -> Text:
    """Names and values below one another; those without a value are left out."""
    given = [(name, value) for name, value in pairs if value]
    width = max((cell_len(name) for name, _ in given), default=0) + 2
    return joined(words((set_cell_size(name, width), "dim"), value) for name, value in given)


def table(head: Sequence[str], rows: Sequence[Sequence[Text]], most: int = 40) -> Text:
    """A table that cannot be walked through, for a page of text."""
    if not rows:
        return Text("")
    widths = [
        min(most, max(cell_len(name), *(cell_len(row[place].plain) for row in rows)))
        for place, name in enumerate(head)
    ]
    drawn = [words((_row([Text(name) for name in head], widths).plain, "dim"))]
    return joined([*drawn, *(_row(row, widths) for row in rows)])


def _row(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text(end="")
    for place, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        shown = cut(cell, width) if place < len(cells) - 1 else cell
        line.append_text(shown)
        if place < len(cells) - 1:
            line.append(" " * (width - cell_len(shown.plain) + 2))
    return line
