"""What pages and acts of the board answer with, before it is drawn."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from htpy import Node


class Shown(msgspec.Struct):
    """A page as it is shown."""

    title: str
    content: "Sequence[Node]"
    topics: Sequence[str] = ()
    status: int = 200
    notice: str = ""


class Done(msgspec.Struct):
    """What became of an act: something to say on the page it came from, or a page of its own."""

    said: str = ""
    to: str = ""  #: the page to go to; empty: where it came from
    page: Shown | None = None
