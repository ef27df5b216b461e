"""Errors as the clients of a Taskcluster queue know them: a code, a status, and what was asked."""

import secrets
from typing import Any

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
    StoreError,
    TaskConflict,
    TaskNotFound,
    UniqueKeyHeld,
    WorkerNotFound,
)
from andon.service.problems import Problem

STATUS: dict[str, int] = {
    "MalformedPayload": 400,
    "InvalidRequestArguments": 400,
    "InputValidationError": 400,
    "InputError": 400,
    "AuthenticationFailed": 401,
    "InsufficientScopes": 403,
    "ResourceNotFound": 404,
    "RequestConflict": 409,
    "ResourceExpired": 410,
    "InputTooLarge": 413,
    "InternalServerError": 500,
}
"""The codes there are, and the status of each."""

_TRANSIENT = 503
"""For errors that a repeat may fix: clients repeat every 5xx, and no 4xx."""

_CODES: dict[type[AndonError], str] = {
    PayloadTooLarge: "InputTooLarge",
    InvalidSubmission: "InputError",
    ConfigurationError: "InputError",
    NotWritable: "InputError",
    TaskNotFound: "ResourceNotFound",
    ArtifactNotFound: "ResourceNotFound",
    WorkerNotFound: "ResourceNotFound",
    ArtifactConflict: "RequestConflict",
    TaskConflict: "RequestConflict",
    GroupRefused: "RequestConflict",
    InvalidTransition: "RequestConflict",
    LeaseLost: "RequestConflict",
    UniqueKeyHeld: "RequestConflict",
    AuthenticationFailed: "AuthenticationFailed",
    PermissionRefused: "InsufficientScopes",
}
"""By error class; a subclass without a row of its own has its base's code."""


class ApiError(Exception):
    """A request that is refused, with the code that clients look at."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS[code] if status is None else status
        self.headers = headers

    def document(
        self, *, method: str, params: dict[str, str], payload: Any, time: str
    ) -> dict[str, Any]:
        """The body of the answer; `payload` is what came in, as it came."""
        footer = (
            f"\n\n---\n\n* method:     {method}\n* errorCode:  {self.code}\n"
            f"* statusCode: {self.status}\n* time:       {time}"
        )
        return {
            "code": self.code,
            "message": f"{self}{footer}",
            "requestInfo": {"method": method, "params": params, "payload": payload, "time": time},
        }


def error_of(error: AndonError) -> ApiError:
    """The error for a client, from an error of the engine."""
    if isinstance(error, QueueFull | StoreError):
        return ApiError("InternalServerError", str(error), status=_TRANSIENT)
    code = next((_CODES[base] for base in type(error).__mro__ if base in _CODES), "")
    if not code:
        return unexpected("")
    headers = ((b"www-authenticate", b"hawk"),) if code == "AuthenticationFailed" else ()
    return ApiError(code, str(error), headers=headers)


def error_of_body(problem: Problem) -> ApiError:
    """What is wrong with a body that could not be read."""
    told = str(problem)
    if problem.status == STATUS["InputTooLarge"]:
        return ApiError("InputTooLarge", told)
    return ApiError("MalformedPayload", told, headers=((b"connection", b"close"),))


def transient(message: str, retry_after: int) -> ApiError:
    """An error that may be gone in so many seconds."""
    headers = ((b"retry-after", b"%d" % retry_after),)
    return ApiError("InternalServerError", message, status=_TRANSIENT, headers=headers)


def unexpected(incident: str) -> ApiError:
    """An internal error; the answer has only the number to look for in the log."""
    incident = incident or new_incident()
    return ApiError(
        "InternalServerError",
        f"This should not have happened. The service's log says more about incident {incident}.",
    )


def new_incident() -> str:
    """A number under which the log and the client speak of one failure."""
    return secrets.token_hex(8)


def not_found(message: str) -> ApiError:
    """There is no such thing."""
    return ApiError("ResourceNotFound", message)


def conflict(message: str) -> ApiError:
    """It is not in a state for this."""
    return ApiError("RequestConflict", message)


def input_error(message: str) -> ApiError:
    """The input has the right form, and breaks a rule."""
    return ApiError("InputError", message)
