"""Errors on the wire: the class by name, its message and its plain attributes. Pure.

What comes back is the class that a local engine would have raised. Only classes of Andon's own
family are known; anything else arrives as an `AndonError` with its message.
"""

from inspect import signature
from typing import Any, cast

import msgspec

from andon.artifacts.base import ArtifactConflict, ArtifactNotFound
from andon.model import errors as family
from andon.model.errors import AndonError

URN = "urn:andon:problem:"

NAMES: dict[str, type[AndonError]] = {
    "payload-too-large": family.PayloadTooLarge,
    "invalid-submission": family.InvalidSubmission,
    "body-too-large": family.PayloadTooLarge,
    "malformed-request": family.InvalidSubmission,
    "invalid-request": family.ConfigurationError,
    "artifact-conflict": ArtifactConflict,
    "artifact-not-found": ArtifactNotFound,
    "task-not-found": family.TaskNotFound,
    "task-conflict": family.TaskConflict,
    "worker-not-found": family.WorkerNotFound,
    "group-refused": family.GroupRefused,
    "unique-key-held": family.UniqueKeyHeld,
    "queue-full": family.QueueFull,
    "queue-not-empty": family.QueueNotEmpty,
    "invalid-transition": family.InvalidTransition,
    "lease-lost": family.LeaseLost,
    "not-writable": family.NotWritable,
    "unknown-code": family.UnknownCode,
    "store-unavailable": family.StoreUnavailable,
    "store-incompatible": family.StoreIncompatible,
    "unauthenticated": family.AuthenticationFailed,
    "forbidden": family.PermissionRefused,
}
"""The classes behind the kinds of problem that a service names in its problem details."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One error of Andon's."""

    type: str
    message: str
    attributes: dict[str, Any] = {}


def problem_of(error: AndonError) -> Problem:
    """The error in its wire form."""
    attributes = {name: value for name, value in vars(error).items() if _is_plain(value)}
    return Problem(type(error).__name__, str(error), attributes)


def error_of(problem: Problem) -> AndonError:
    """The error from its wire form."""
    kind: Any = getattr(family, problem.type, None)
    if not (isinstance(kind, type) and issubclass(kind, AndonError)):
        kind = AndonError
    return _made(cast("type[AndonError]", kind), problem.message, problem.attributes)


def error_of_document(document: dict[str, Any]) -> AndonError | None:
    """The error in problem details (RFC 9457); None if they are not of a kind known here."""
    kind = NAMES.get(str(document.get("type", "")).removeprefix(URN))
    if kind is None:
        return None
    plain = {"type", "title", "status", "detail", "instance"}
    members = {name: value for name, value in document.items() if name not in plain}
    return _made(kind, str(document.get("detail", "")), members)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


_TOLD_ONLY = frozenset({"message", "hint", "why", "counts"})
"""Parameters of constructors that only go into the message and are not kept as attributes."""


def _made(kind: type[AndonError], message: str, attributes: dict[str, Any]) -> AndonError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    # Attributes that the constructor would have set and that the other end did not send are empty.
    names = [*signature(kind).parameters] if "__init__" in vars(kind) else []
    vars(error).update({name: "" for name in names if name not in _TOLD_ONLY})
    if isinstance(error, family.InvalidSubmission):
        vars(error).setdefault("field", "")
    vars(error).update(attributes)
    return error
