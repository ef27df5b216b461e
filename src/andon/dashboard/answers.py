"""Answers of pages and acts of the board, before they are drawn."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from htpy import Node


class Shown(msgspec.Struct):
    """A page to be shown."""

    title: str
    content: "Sequence[Node]"
    topics: Sequence[str] = ()
    status: int = 200
    notice: str = ""


class Done(msgspec.Struct):
    """The outcome of an act: a message on the page it came from, or a page of its own."""

    said: str = ""
    to: str = ""  #: the page to go to; empty: the one it came from
    page: Shown | None = None
