"""Who looks at the board, and what they may see and do there.

The board decides nothing of that itself: a `Gate` says who a visitor is, and the visitor's scopes
(those of the service's tokens, docs/trust.md) decide what is shown and what may be done.
"""

import inspect
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import msgspec

from andon.dashboard.requests import Refused
from andon.model.scopes import EVERYTHING, holds_some, satisfies

if TYPE_CHECKING:
    from andon.dashboard.requests import Request


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who looks at the board.

    Example:
        from andon.dashboard.access import Visitor

        ann = Visitor(name="ann", scopes=("tasks:read:*", "queues:read:*"))
        assert ann.may("tasks:read:mail") and not ann.may("tasks:cancel:mail")
        assert ann.may_some("tasks:read:")
    """

    name: str  #: shown at the top of each page, and kept with what they do
    scopes: tuple[str, ...] = (EVERYTHING,)  #: what they may see and do, as for tokens
    actor: str = ""  #: under which their acts are kept; empty: their name
    is_known: bool = True  #: False: nobody had to say who it is

    def may(self, scope: str) -> bool:
        """Whether the visitor may do this."""
        return satisfies(self.scopes, scope)

    def may_some(self, kind: str) -> bool:
        """Whether the visitor may do this for something at least, such as reading some queue."""
        return holds_some(self.scopes, kind)


class Gate(Protocol):
    """Tells who a visitor is."""

    async def visitor(self, request: "Request", token: str) -> Visitor | None:
        """Who sent a request; None: nobody known, so a token is asked for. `token` is what the
        visitor came in with; empty if with nothing. Raises `Refused` for whom no token helps."""
        ...


Who = Callable[[Mapping[str, str]], "Visitor | Awaitable[Visitor | None] | None"]
"""Says by a request's headers (names in lower case) who sent it; None: nobody who may look."""


class LocalOnly:
    """Open to this machine, closed to everybody else."""

    async def visitor(self, request: "Request", token: str) -> Visitor | None:
        """Anybody, if they are on this machine and ask by a name of it: a foreign name that was
        made to point here (DNS rebinding) is refused."""
        host = _name_in(request.header("host"))
        if is_loopback(request.client) and is_loopback(host):
            return Visitor(name="anyone on this machine", is_known=False)
        raise Refused(
            403,
            "Not from here",
            "This board is open to its own machine only. Say who may look with app.board(who=...), "
            "or serve it with andon serve, which asks for tokens.",
        )


class Asked:
    """Asks the application that the board is mounted in."""

    def __init__(self, who: Who) -> None:
        self._who = who

    async def visitor(self, request: "Request", token: str) -> Visitor | None:
        """Whoever the application says it is. Raises `Refused` where it knows nobody."""
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in request.headers
        }
        found = self._who(headers)
        if inspect.isawaitable(found):
            found = await found
        if found is None:
            raise Refused(403, "Not for you", "The application does not let you look at its board.")
        return found


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _name_in(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
