"""A requested page, and what a module of pages declares of each."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from andon.dashboard.answers import Shown
from andon.dashboard.downloads import Download
from andon.dashboard.requests import Answer, Fields, Refused

if TYPE_CHECKING:
    from andon.dashboard.pages.frame import Place


class Asked(msgspec.Struct, frozen=True):
    """A requested page."""

    path: str
    query: Fields
    place: "Place"
    names: tuple[str, ...] = ()  #: the names in the path: a task, a queue, …

    @property
    def name(self) -> str:
        """The first name in the path."""
        return self.names[0] if self.names else ""

    def need(self, scope: str) -> None:
        """Raise `Refused` unless the visitor may do this."""
        if not self.place.may(scope):
            raise Refused(403, "Not allowed", f"This needs the scope {scope}, which you lack.")

    def need_some(self, kind: str) -> None:
        """Raise `Refused` unless the visitor may do this for something of a kind."""
        if not self.place.visitor.may_some(kind):
            raise Refused(403, "Not allowed", f"This needs a scope {kind}…, which you lack.")


Route = tuple[str, Callable[[Asked], Awaitable[Shown | Answer | Download]]]
"""A path, as a regular expression whose groups are the names in it, and its page."""
