"""Callers and their scopes: the guard identifies the caller of a request, and every handler checks
the caller's scopes.

A scope is written as in `tasks:create:QUEUE`, `tasks:read:QUEUE`, `tasks:cancel:QUEUE`,
`queues:claim:QUEUE`, `queues:manage:QUEUE`, `admin:storage`.
"""

from typing import TYPE_CHECKING, Protocol

from andon.service.problems import Problem

if TYPE_CHECKING:
    from litestar.types import HTTPScope


class Caller(Protocol):
    """The sender of a request."""

    @property
    def actor(self) -> str:
        """The name recorded with the caller's acts by hand."""
        ...

    def may(self, scope: str) -> bool:
        """Whether the caller satisfies this scope."""
        ...


class Guard(Protocol):
    """Identifies the caller of a request."""

    async def authorize(self, scope: "HTTPScope") -> Caller:
        """The caller, by the request's headers and address. Raises `Problem` (401)."""
        ...


def refuse(scope: str) -> Problem:
    """The caller is known, and may not."""
    return Problem(
        403,
        "forbidden",
        "Forbidden",
        f"This needs the scope {scope}, which the token does not have.",
        scope=scope,
    )
