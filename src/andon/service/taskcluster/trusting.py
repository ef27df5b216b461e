"""Who is asked for what: the part of the face that decides whom to believe."""

from typing import TYPE_CHECKING, Any, Protocol

from andon.service.taskcluster.credentials import unsigned
from andon.service.taskcluster.trust.caller import OPEN, Caller
from andon.service.trust.access import refuse_strangers

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.types import HTTPScope

    from andon.model.task import Task


class Trust(Protocol):
    """Tells who asks, and gives runs the credentials that speak for them."""

    is_open: bool  #: nobody is asked who they are

    async def authenticate(self, scope: "HTTPScope", body: bytes) -> Caller:
        """Who sends a request, by its headers, its query and its body. Raises
        `AuthenticationFailed`."""
        ...

    async def credentials(self, task: "Task", taken_until: int) -> dict[str, Any]:
        """The credentials of the run that holds a task until then, ms UTC."""
        ...

    def check_worker(self, caller: Caller, worker: str) -> None:
        """Raise `PermissionRefused` if the caller speaks for the run of another worker."""
        ...


class OpenTrust:
    """Whoever reaches the service may do everything: only this machine does. What a request is
    signed with is not looked at."""

    is_open = True

    def __init__(self, now: "Callable[[], int]") -> None:
        self._now = now

    async def authenticate(self, scope: "HTTPScope", body: bytes) -> Caller:
        refuse_strangers(scope["headers"])
        return OPEN

    async def credentials(self, task: "Task", taken_until: int) -> dict[str, Any]:
        return unsigned(task, taken_until, self._now())

    def check_worker(self, caller: Caller, worker: str) -> None:
        return None
