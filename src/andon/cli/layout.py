"""Fits tables to a terminal without showing anything wrong.

Numbers, states and times are never cut. Ids and names are shortened in their middle, where they
differ least, and never so that two look the same; texts end in `…`, which never stands after half a
number. Where not even that fits, each row becomes a block of `name: value`. Pure.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

Measure = Callable[[str], int]
"""Columns of a terminal that a text takes."""

CUT = "…"

GAP = 2
"""Between columns that are close together."""

LEAST_NAME = 17
"""Ids and names are not shortened below this: enough of an id to find its task by."""

_WIDE_TEXT, _LEAST_TEXT = 16, 8
_LEAST_WRAPPED = 20


class Column(NamedTuple):
    """A column of a table. A text that is none of these may be cut at its end."""

    title: str
    right: bool = False  #: a number: never cut
    keeps: bool = False  #: never cut: states and times
    named: bool = False  #: ids and names: shortened in the middle
    wraps: bool = False  #: goes on in the next line
    spare: bool = False  #: left out where the terminal is narrow


def widths_of(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, measure: Measure
) -> list[int] | None:
    """How wide each column is to be; None if they do not fit whatever is shortened."""
    natural = [
        max([measure(column.title), *(measure(row[i]) for row in rows)])
        for i, column in enumerate(columns)
    ]
    room = width - GAP * (len(columns) - 1)
    for least_name, least_text in (
        (None, _WIDE_TEXT),
        (LEAST_NAME, _WIDE_TEXT),
        (LEAST_NAME, _LEAST_TEXT),
    ):
        least = [
            min(wide, max(measure(column.title), _least(column, wide, least_name, least_text)))
            for column, wide in zip(columns, natural, strict=True)
        ]
        for i, column in enumerate(columns):
            if column.named and least[i] < natural[i]:
                least[i] = _telling_apart([row[i] for row in rows], least[i])
        if sum(least) <= room:
            return _grown(least, natural, room - sum(least))
    return None


def _least(column: Column, wide: int, name: int | None, text: int) -> int:
    if column.right or column.keeps:
        return wide
    if column.named:
        return wide if name is None else name
    return _LEAST_WRAPPED if column.wraps else text


def _telling_apart(texts: Sequence[str], width: int) -> int:
    """The smallest width, from this one on, at which different texts stay different."""
    there = len(set(texts))
    longest = max(map(len, texts), default=0)
    while width < longest and len({shortened(text, width) for text in texts}) < there:
        width += 1
    return width


def _grown(least: list[int], natural: list[int], left: int) -> list[int]:
    """The widths with what is left given to the columns that lack most."""
    widths = list(least)
    while left > 0:
        lacks = [wide - width for wide, width in zip(natural, widths, strict=True)]
        most = max(lacks)
        if most == 0:
            break
        widths[lacks.index(most)] += 1
        left -= 1
    return widths


def shortened(text: str, width: int) -> str:
    """An id or a name with its middle left out, if it is longer than that."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}{CUT}{text[len(text) - tail :]}"


def ended(text: str, width: int, measure: Measure) -> str:
    """The beginning of a text, if it is wider than that: without the half of a number."""
    if measure(text) <= width:
        return text
    end, taken = 0, 1
    while end < len(text) and taken + measure(text[end]) <= width:
        taken += measure(text[end])
        end += 1
    whole, _, word = text[:end].rpartition(" ")
    in_a_word = not text[end].isspace()
    if in_a_word and any(character.isdigit() for character in word):
        return f"{whole} {CUT}" if whole else CUT
    return f"{text[:end].rstrip()}{CUT}"
