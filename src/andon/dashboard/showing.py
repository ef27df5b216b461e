"""Which page a path is, and what it shows."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from andon.dashboard.pages import andon as andon_page
from andon.dashboard.requests import Answer, Fields, Refused

if TYPE_CHECKING:
    from htpy import Node

    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Reader
    from andon.dashboard.tokens import TokenBook


class Asked(msgspec.Struct, frozen=True):
    """A page that is asked for."""

    path: str
    query: Fields
    place: "Place"
    name: str = ""  #: what the path names: a task, a queue, …

    def need(self, scope: str) -> None:
        """Raise `Refused` unless the visitor may."""
        if not self.place.may(scope):
            raise Refused(403, "Not allowed", f"This needs the scope {scope}, which you lack.")

    def need_some(self, kind: str) -> None:
        """The same of anything of a kind."""
        if not self.place.visitor.may_some(kind):
            raise Refused(403, "Not allowed", f"This needs a scope {kind}…, which you lack.")


class Shown(msgspec.Struct):
    """A page as it is shown."""

    title: str
    content: "Sequence[Node]"
    topics: Sequence[str] = ()
    status: int = 200
    notice: str = ""


Show = Callable[[Asked], Awaitable[Shown | Answer]]


class Pages:
    """All pages of a board."""

    def __init__(self, reader: "Reader", tokens: "TokenBook | None") -> None:
        self._reader = reader
        self._tokens = tokens
        self._routes: list[tuple[re.Pattern[str], Show]] = [
            (re.compile(r"/"), self.andon),
        ]

    async def show(self, asked: Asked) -> Shown | Answer:
        """The page of a path. Raises `Refused` where there is none."""
        for pattern, show in self._routes:
            found = pattern.fullmatch(asked.path)
            if found is not None:
                name = unquote(found[1]) if found.re.groups else ""
                return await show(msgspec.structs.replace(asked, name=name))
        raise Refused(404, "Not here", "There is no such page.")

    async def andon(self, asked: Asked) -> Shown:
        """The first page."""
        asked.need_some("queues:read:")
        view = (await self._reader.overview()).seen_by(asked.place.visitor)
        return Shown("Andon", list(andon_page.content(asked.place, view)), topics=("andon",))
