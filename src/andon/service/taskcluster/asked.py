"""One request to the face, as its handlers see it."""

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from andon.service.taskcluster import paging
from andon.service.taskcluster.errors import ApiError
from andon.service.taskcluster.needs import Values, expanded, is_satisfied
from andon.service.taskcluster.trust.scopes import document_of

if TYPE_CHECKING:
    from litestar.types import HTTPScope, Receive

    from andon.engine.local import LocalEngine
    from andon.service.service import Service
    from andon.service.taskcluster.settings import TaskclusterSettings
    from andon.service.taskcluster.shared import Shared
    from andon.service.taskcluster.table import Route
    from andon.service.taskcluster.trust.authentication import Incoming
    from andon.service.taskcluster.trust.caller import Caller
    from andon.service.taskcluster.trust.scopes import Expression


class Asked:
    """A request, its caller, and the parts of it that are decoded so far."""

    __slots__ = (
        "caller",
        "incoming",
        "lists",
        "params",
        "query",
        "receive",
        "route",
        "scope",
        "shared",
    )

    incoming: "Incoming"  #: what identifies its sender
    caller: "Caller"

    def __init__(
        self,
        shared: "Shared",
        route: "Route",
        params: dict[str, str],
        scope: "HTTPScope",
        receive: "Receive",
    ) -> None:
        self.shared = shared
        self.route = route
        self.params = params  #: of the path, decoded
        self.query: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}
        """The query parameters that may be repeated, each in its order."""
        self.scope = scope
        self.receive = receive

    @property
    def service(self) -> "Service":
        """The service that was asked."""
        return self.shared.service

    @property
    def engine(self) -> "LocalEngine":
        """The engine behind it."""
        return self.shared.service.engine

    @property
    def settings(self) -> "TaskclusterSettings":
        """The settings of the face."""
        return self.shared.settings

    @property
    def task_id(self) -> str:
        """The task that the path names."""
        return self.params["taskId"]

    def require(self, **values: Any) -> None:
        """Raise `ApiError` (403) unless the caller has what the route needs. `values` fill in what
        the path does not say."""
        if self.route.needs is None:
            return
        needs = self.route.needs
        places: Values = {**self.params, **values}
        if is_satisfied(needs, places, self.caller.has):
            return
        expression = expanded(needs, places)
        missing = self.caller.missing(expression)
        if missing is not None:
            raise _insufficient(self.caller.client_id, missing, expression)

    async def still_allowed(self, **values: Any) -> None:
        """Raise `AuthenticationFailed` or `ApiError` (403) if the request would be refused now:
        what it waited for is never given to a caller that a new request would refuse."""
        self.caller = await self.shared.trust.authenticate(self.incoming)
        self.require(**values)

    def rows(self) -> int:
        """How many rows the answer may have."""
        asked = self.query.get("limit")
        return paging.MOST if asked is None else max(1, min(int(asked), paging.MOST))

    def place(self, listed: str) -> str:
        """Where in that list the answer begins. Raises `ApiError` (400)."""
        return paging.place_in(listed, self.query.get("continuationToken"))


class Answer(NamedTuple):
    """An answer that is more than a document with status 200."""

    status: int
    document: Any
    headers: tuple[tuple[bytes, bytes], ...] = ()


def _insufficient(client_id: str, missing: "Expression", whole: "Expression") -> ApiError:
    who = f"Client {client_id}" if client_id else "The request came without credentials and"
    return ApiError(
        "InsufficientScopes",
        f"{who} lacks what this needs. Missing:\n\n{_shown(missing)}\n\n"
        f"All that is needed:\n\n{_shown(whole)}",
    )


def _shown(expression: "Expression") -> str:
    return msgspec.json.format(msgspec.json.encode(document_of(expression)), indent=2).decode()
