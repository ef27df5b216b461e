"""Says who visits the board, and what a visitor may see and do there.

The board decides neither itself: a `Gate` says who a visitor is, and the visitor's scopes (those of
the service's tokens, docs/trust.md) decide what is shown and what may be done.
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
    """A visitor of the board.

    Example:
        from andon.dashboard.access import Visitor

        ann = Visitor(name="ann", scopes=("tasks:read:*", "queues:read:*"))
        assert ann.may("tasks:read:mail") and not ann.may("tasks:cancel:mail")
        assert ann.may_some("tasks:read:")
    """

    name: str  #: shown at the top of each page, and stored with their acts
    scopes: tuple[str, ...] = (EVERYTHING,)  #: what they may see and do, as for API tokens
    actor: str = ""  #: the actor of their acts; empty: their name
    is_known: bool = True  #: False: the visitor did not have to say who it is

    def may(self, scope: str) -> bool:
        """Whether the visitor may do this."""
        return satisfies(self.scopes, scope)

    def may_some(self, kind: str) -> bool:
        """Whether the visitor may do this for something at least, such as reading some queue."""
        return holds_some(self.scopes, kind)


class Gate(Protocol):
    """Identifies visitors."""

    async def visitor(self, request: "Request", token: str) -> Visitor | None:
        """The visitor who sent a request; None: unknown, so the board asks for a token. `token` is
        the one that the visitor logged in with; empty if with none. Raises `Refused` if no token
        would help."""
        ...


Who = Callable[[Mapping[str, str]], "Visitor | Awaitable[Visitor | None] | None"]
"""A function that finds the sender of a request by its headers (names in lower case); None: the
sender may not see the board."""


class LocalOnly:
    """Admits visitors of this machine, and no others."""

    async def visitor(self, request: "Request", token: str) -> Visitor | None:
        """A visitor with all scopes, if the request comes from this machine and names it: a foreign
        name that was made to point here (DNS rebinding) is refused."""
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
    """Asks the application in which the board is mounted."""

    def __init__(self, who: Who) -> None:
        self._who = who

    async def visitor(self, request: "Request", token: str) -> Visitor | None:
        """The visitor that the application names. Raises `Refused` if it names none."""
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
    """Whether only this machine can reach a server that listens there."""
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
