"""Errors as problem details (RFC 9457): one form for all errors.

`type` is a URN that names the kind of problem and never changes; `field` names the part of the
request at fault. What an error knows beside its message stands in members of its own, so that a
client can raise the same error again.
"""

from typing import Any

import msgspec

from andon.artifacts.base import ArtifactConflict, ArtifactNotFound
from andon.model.errors import (
    AndonError,
    AuthenticationFailed,
    ConfigurationError,
    GroupRefused,
    InvalidSubmission,
    InvalidTransition,
    LeaseLost,
    NotWritable,
    PayloadTooLarge,
    PermissionRefused,
    QueueFull,
    QueueNotEmpty,
    StoreError,
    StoreIncompatible,
    StoreUnavailable,
    TaskConflict,
    TaskNotFound,
    UniqueKeyHeld,
    UnknownCode,
    WorkerNotFound,
)

CONTENT_TYPE = b"application/problem+json"
URN = "urn:andon:problem:"


class Kind(msgspec.Struct, frozen=True):
    """One kind of problem."""

    name: str
    status: int
    title: str
    members: tuple[str, ...] = ()  #: attributes of the error that become members
    retry_after: int | None = None  #: seconds


KINDS: dict[type[AndonError], Kind] = {
    PayloadTooLarge: Kind("payload-too-large", 413, "Payload too large", ("field",)),
    InvalidSubmission: Kind("invalid-submission", 422, "Invalid submission", ("field",)),
    TaskNotFound: Kind("task-not-found", 404, "Task not found", ("task_id",)),
    ArtifactNotFound: Kind("artifact-not-found", 404, "Artifact not found", ("task", "name")),
    WorkerNotFound: Kind("worker-not-found", 404, "Worker not found", ("queue", "worker")),
    ArtifactConflict: Kind("artifact-conflict", 409, "Another artifact", ("task", "run", "name")),
    TaskConflict: Kind("task-conflict", 409, "The id is taken", ("task_id",)),
    GroupRefused: Kind(
        "group-refused", 409, "The group takes no such task", ("group", "owner", "sealed_at")
    ),
    UniqueKeyHeld: Kind("unique-key-held", 409, "Unique key held", ("key", "holder")),
    QueueFull: Kind("queue-full", 429, "Queue full", ("queue", "max_size"), 1),
    QueueNotEmpty: Kind("queue-not-empty", 409, "Queue not empty", ("queue",)),
    InvalidTransition: Kind(
        "invalid-transition", 409, "No such move", ("task_id", "event", "state")
    ),
    LeaseLost: Kind("lease-lost", 409, "Lease lost", ("task_id", "run")),
    NotWritable: Kind("not-writable", 422, "Cannot be written", ("task_id", "what", "why")),
    UnknownCode: Kind("unknown-code", 409, "Unknown code", ("digest",)),
    StoreUnavailable: Kind("store-unavailable", 503, "Store unavailable", (), 1),
    StoreIncompatible: Kind("store-incompatible", 503, "Store incompatible"),
    ConfigurationError: Kind("invalid-request", 422, "Invalid request"),
    AuthenticationFailed: Kind("unauthenticated", 401, "Not authenticated"),
    PermissionRefused: Kind("forbidden", 403, "Forbidden", ("scope",)),
    AndonError: Kind("failed", 500, "Failed"),
}
"""By error class; a subclass without a row of its own is its base's kind."""


class Problem(Exception):
    """A request that cannot be answered; ends it with these problem details."""

    def __init__(
        self,
        status: int,
        name: str,
        title: str,
        detail: str,
        /,
        *,
        field: str = "",
        headers: dict[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers or {}
        self.document: dict[str, Any] = {
            "type": URN + name,
            "title": title,
            "status": status,
            "detail": detail,
            **({"field": field} if field else {}),
            **members,
        }


def problem_of(error: AndonError) -> Problem:
    """The problem for an error."""
    kind = next(KINDS[base] for base in type(error).__mro__ if base in KINDS)
    members = {name: getattr(error, name) for name in kind.members}
    headers = {} if kind.retry_after is None else {"Retry-After": str(kind.retry_after)}
    if isinstance(error, AuthenticationFailed):
        headers["WWW-Authenticate"] = "Bearer"
    return Problem(
        kind.status,
        kind.name,
        kind.title,
        str(error),
        field=members.pop("field", ""),
        headers=headers,
        **members,
    )


def without_place(error: AndonError) -> AndonError:
    """The error for callers that may not know where the store is, which its message says: the kind
    of error, and nothing that names a server, a file or a user."""
    if isinstance(error, StoreUnavailable):
        return StoreUnavailable("The store cannot answer now. The service's log says why.")
    if isinstance(error, StoreIncompatible):
        return StoreIncompatible(
            "The store does not fit this release of the service. The service's log says why."
        )
    if isinstance(error, StoreError):
        return StoreError("The store cannot do this. The service's log says why.")
    return error


def invalid(detail: str, *, field: str = "") -> Problem:
    """A request that is understood, and invalid."""
    return Problem(422, "invalid-request", "Invalid request", detail, field=field)


def malformed(detail: str) -> Problem:
    """A request that cannot be parsed."""
    return Problem(400, "malformed-request", "Malformed request", detail)


def not_found(detail: str) -> Problem:
    """Nothing is found."""
    return Problem(404, "not-found", "Not found", detail)


def body_too_large(limit: int) -> Problem:
    """More than `max_body`."""
    return Problem(
        413,
        "body-too-large",
        "Body too large",
        f"The body is larger than the {limit:,} bytes that this service takes. "
        "Send it in several requests.",
        headers={"Connection": "close"},
    )


def unexpected() -> Problem:
    """An internal error; the log has the details."""
    return Problem(
        500,
        "internal-error",
        "Internal error",
        "This should not have happened. The service's log has the traceback.",
    )
