"""Errors on the wire: the class by name, its message and its plain attributes. Pure.

What comes back is the class that a local engine would have raised. Only classes of Andon's own
family are known; anything else arrives as an `AndonError` with its message.
"""

from typing import Any, cast

import msgspec

from andon.model import errors as family
from andon.model.errors import AndonError

STATUS: tuple[tuple[str, int], ...] = (
    ("AuthenticationFailed", 401),
    ("PermissionRefused", 403),
    ("TaskNotFound", 404),
    ("TaskConflict", 409),
    ("UniqueKeyHeld", 409),
    ("InvalidTransition", 409),
    ("LeaseLost", 409),
    ("QueueFull", 429),
    ("PayloadTooLarge", 413),
    ("InvalidSubmission", 422),
    ("ConfigurationError", 422),
    ("StoreUnavailable", 503),
)
"""HTTP status by class name; the first that an error is an instance of."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One error of Andon's."""

    type: str
    message: str
    attributes: dict[str, Any] = {}


def problem_of(error: AndonError) -> Problem:
    """The error as it is sent."""
    attributes = {name: value for name, value in vars(error).items() if _is_plain(value)}
    return Problem(type(error).__name__, str(error), attributes)


def error_of(problem: Problem) -> AndonError:
    """The error that was sent."""
    kind: Any = getattr(family, problem.type, None)
    if not (isinstance(kind, type) and issubclass(kind, AndonError)):
        kind = AndonError
    error = cast("AndonError", kind.__new__(kind))
    Exception.__init__(error, problem.message)
    vars(error).update(problem.attributes)
    return error


def status_of(error: AndonError) -> int:
    """The HTTP status that goes with an error."""
    for name, status in STATUS:
        if isinstance(error, getattr(family, name)):
            return status
    return 500


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)
