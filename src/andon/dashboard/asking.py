"""A page that is asked for, and what a module of pages has to say of each."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from andon.dashboard.answers import Shown
from andon.dashboard.downloads import Download
from andon.dashboard.requests import Answer, Fields, Refused

if TYPE_CHECKING:
    from andon.dashboard.pages.frame import Place


class Asked(msgspec.Struct, frozen=True):
    """A page that is asked for."""

    path: str
    query: Fields
    place: "Place"
    names: tuple[str, ...] = ()  #: what the path names: a task, a queue, …

    @property
    def name(self) -> str:
        """The first of them."""
        return self.names[0] if self.names else ""

    def need(self, scope: str) -> None:
        """Raise `Refused` unless the visitor may."""
        if not self.place.may(scope):
            raise Refused(403, "Not allowed", f"This needs the scope {scope}, which you lack.")

    def need_some(self, kind: str) -> None:
        """The same of anything of a kind."""
        if not self.place.visitor.may_some(kind):
            raise Refused(403, "Not allowed", f"This needs a scope {kind}…, which you lack.")


Route = tuple[str, Callable[[Asked], Awaitable[Shown | Answer | Download]]]
"""A path, as a regular expression whose groups are what it names, and the page that it is."""
