"""One request as handlers see it, and the parts of the answer beside the handler's return value."""

import logging
from typing import TYPE_CHECKING, Annotated, Any, cast

from litestar import Request
from litestar.params import QueryParameter

from andon.lifecycle.profiles import Profile, profile
from andon.model.errors import AndonError, ConfigurationError
from andon.model.scopes import needed_to_submit
from andon.service.guard import Caller, refuse
from andon.service.problems import Problem, invalid, without_place

if TYPE_CHECKING:
    from litestar.types import HTTPScope, Receive, Send

    from andon.artifacts.base import ArtifactEntries
    from andon.engine.base import Submission
    from andon.model.task import Definition
    from andon.service.service import Service


log = logging.getLogger("andon.service")

ADMIN_STORAGE = "admin:storage"
"""The scope that lets a caller know where the store is."""

As = Annotated[
    str | None,
    QueryParameter(
        name="as",
        description="Show it as native, jobbers, asynq, cbintel, choria or taskcluster would.",
    ),
]
"""The query parameter `as`, of every route that shows tasks."""


class Call(Request[Any, Any, Any]):
    """A request, its caller, and the status and headers of its answer."""

    caller: Caller
    status: int  #: begins as the handler's own
    answer_type: bytes  #: media type of the answer
    answer_headers: list[tuple[bytes, bytes]]

    service: "Service"  #: that was called
    unread: dict[int, Problem]
    """Entries of the body that could not be read, by place (docs/rulings.md, R36)."""
    stem: str  #: of the ids that its `Idempotency-Key` stands for; empty without one

    __slots__ = ("answer_headers", "answer_type", "caller", "service", "status", "stem", "unread")

    def __init__(self, scope: "HTTPScope", receive: "Receive", send: "Send") -> None:
        # Nothing of the framework's request is used beyond these, so none of it is prepared.
        self.scope = scope
        self.receive = receive
        self.send = send
        self.unread = {}
        self.stem = ""

    def told(self, error: AndonError) -> AndonError:
        """The error as the caller may read it: only administrators may read where the store is."""
        return error if self.caller.may(ADMIN_STORAGE) else without_place(error)

    async def artifacts(self) -> "ArtifactEntries":
        """The artifacts and logs of runs. Raises `Problem` (503) where they have no place."""
        try:
            return await self.service.engine.artifacts()
        except ConfigurationError as error:
            if self.caller.may(ADMIN_STORAGE):
                raise
            log.warning("artifacts and logs: %s", error)
            raise Problem(
                503,
                "no-place",
                "No place",
                "This service has no place for artifacts and logs. Its log says why.",
            ) from None

    def need(self, scope: str) -> None:
        """Raise `Problem` (403) unless the caller satisfies the scope."""
        if not self.caller.may(scope):
            raise refuse(scope)

    def need_to_submit(self, task: "Submission | Definition") -> None:
        """Raise `Problem` (403) unless the caller may submit this task."""
        queue = task.queue
        if queue is None:
            queue = self.service.engine.resolver.queue_of(cast("Submission", task))
        for scope in needed_to_submit(task, queue):
            self.need(scope)

    def made(self, place: str) -> None:
        """Set the Location of what this request made: below /api/v1/, escaped already."""
        self.answer_headers.append((b"location", b"/api/v1/" + place.encode()))

    def add_header(self, name: str, value: str) -> None:
        """Add a header to the answer."""
        self.answer_headers.append((name.lower().encode(), value.encode("latin-1")))


def profile_named(name: str | None) -> Profile:
    """The profile asked for with `?as=`; native without. Raises `Problem` (422)."""
    try:
        return profile(name or "native")
    except ConfigurationError as error:
        raise invalid(str(error), field="as") from error
