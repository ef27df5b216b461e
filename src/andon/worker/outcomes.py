"""How a run ended, said as the command that resolves it (R7, R11, R23, R24).

Used by the worker for handlers in its own process and by child processes for theirs, because the
types of exceptions are known only where the handler ran.
"""

import json
import logging
import socket
import traceback
from typing import Any, Literal

import msgspec

from andon.lifecycle.commands import (
    Command,
    Complete,
    Expire,
    Fail,
    Interrupted,
    Reject,
    Release,
    ShutdownRetry,
    Stop,
    Terminate,
)
from andon.lifecycle.commands import Snooze as SnoozeRun
from andon.lifecycle.timers import run_timeout
from andon.model.policy import Policy
from andon.model.task import Task, TaskError
from andon.model.words import Reason
from andon.worker import context
from andon.worker.calls import MalformedPayload, ResultInvalid
from andon.worker.registry import TaskType

logger = logging.getLogger("andon.worker")

MOST_TRACEBACK = 16 * 1024
"""Bytes of a traceback that are kept: the newest frames, at the end."""

MOST_FRAMES = 100
MOST_ERROR = 4 * 1024
MOST_CODE = 128

OnShutdown = Literal["stop", "resubmit", "retry", "continue"]

_VALIDATION = (msgspec.DecodeError, json.JSONDecodeError, UnicodeDecodeError, MalformedPayload)
_NETWORK = (ConnectionError, socket.gaierror)


def completed(kind: TaskType, value: Any, limit: int) -> Command:
    """The handler returned `value`; its result may take `limit` bytes."""
    try:
        return Complete(result=kind.codec.encode_result(value, limit=limit))
    except ResultInvalid as error:
        return invalid_result(str(error))
    except Exception as error:  # a model's own dump may raise anything
        return invalid_result(f"The result cannot be stored: {_text(error)}")


def invalid_result(message: str) -> Command:
    """The result cannot be stored; not retried, the handler would only make it again."""
    error = TaskError(message=message, code=Reason.RESULT_INVALID.value)
    return Reject(error=error, reason=Reason.RESULT_INVALID)


def malformed(error: Exception) -> Command:
    """The payload does not fit the handler."""
    failure = TaskError(message=_text(error), code="VALIDATION_ERROR", type=_type_name(error))
    return Reject(error=failure, reason=Reason.MALFORMED_PAYLOAD)


def raised(kind: TaskType, task: Task, error: BaseException) -> Command:
    """The handler raised `error`, and nobody had told it to stop."""
    if isinstance(error, context.Snooze):
        return SnoozeRun(delay=round(error.seconds * 1000))
    if isinstance(error, context.Terminate):
        return Terminate(error=error_of(error))
    failure = error_of(error)
    if isinstance(error, context.Retry):
        delay = None if error.delay is None else round(error.delay * 1000)
        return Fail(
            error=failure,
            reason=Reason.INTERMITTENT_TASK,
            retryable=True,
            delay=_backoff(kind, task, error) if delay is None else delay,
        )
    retryable = _retryable(kind, task.policy, failure, error)
    delay = None if retryable is False else _backoff(kind, task, error)
    return Fail(error=failure, retryable=retryable, delay=delay)


def told(
    kind: TaskType,
    task: Task,
    reason: context.StopReason,
    on_shutdown: OnShutdown,
    own: Command | None,
    *,
    cancelled: Reason = Reason.CANCEL_REQUESTED,
) -> Command | None:
    """The handler stopped, or was given up, after it was told to; None: nothing is reported.

    `own` is what the handler's end says by itself; None if it merely stopped. After a cancel the
    record ends cancelled in any case (R7), and keeps an error of the handler's own.
    """
    if reason == "lease-lost":
        return None
    if reason == "timeout":
        return timed_out(kind, task)
    if reason == "deadline":
        return Expire()
    if reason == "cancel":
        return own or Interrupted(reason=cancelled)
    asked = isinstance(own, SnoozeRun | Terminate) or (
        isinstance(own, Fail) and own.reason is Reason.INTERMITTENT_TASK
    )
    return own if asked else at_shutdown(on_shutdown)


def timed_out(kind: TaskType, task: Task) -> Command:
    """The run took longer than its policy allows."""
    seconds = (run_timeout(task) or 0) / 1000
    error = TaskError(message=f"The run took longer than {seconds:g} s.", code="TIMEOUT")
    return Fail(error=error, reason=Reason.TIMEOUT, delay=_backoff(kind, task, None))


def at_shutdown(rule: OnShutdown) -> Command:
    """What becomes of a run that the worker's shutdown ends (R11)."""
    if rule == "stop":
        return Stop()
    if rule == "retry":
        return ShutdownRetry()
    return Release()


def internal(message: str) -> Command:
    """Something under the handler broke: a child process died."""
    error = TaskError(message=message, code=Reason.INTERNAL_ERROR.value)
    return Fail(error=error, reason=Reason.INTERNAL_ERROR)


def error_of(error: BaseException) -> TaskError:
    """An exception as it is stored: bounded, and safe to encode whatever it says."""
    trace = ""
    if error.__traceback__ is not None:
        trace = _bounded_traceback(error)
    return TaskError(
        message=_text(error), code=code_of(error), type=_type_name(error), traceback=trace
    )


def code_of(error: BaseException) -> str:
    """The error code of an exception (R23)."""
    if isinstance(error, Exception):  # `SystemExit.code` is an exit status, not an error code
        code = getattr(error, "code", None)
        if isinstance(code, str) and code:
            return _clean(code)[:MOST_CODE]
    if isinstance(error, _NETWORK):
        return "NETWORK_ERROR"
    if isinstance(error, _VALIDATION) or type(error).__name__ == "ValidationError":
        return "VALIDATION_ERROR"
    return type(error).__name__


def _retryable(
    kind: TaskType, policy: Policy, failure: TaskError, error: BaseException
) -> bool | None:
    """Whether the type's lists of exceptions retry this; None leaves it to the policy's names."""
    if not kind.retry_on_types and not kind.no_retry_on_types:
        return None
    names = {failure.code, failure.type, type(error).__name__}
    if isinstance(error, kind.no_retry_on_types) or names.intersection(policy.no_retry_on):
        return False
    if isinstance(error, kind.retry_on_types):
        return True
    if kind.retry_on_types or policy.retry_on:
        return bool(names.intersection(policy.retry_on))
    return None


def _backoff(kind: TaskType, task: Task, error: BaseException | None) -> int | None:
    """The type's own delay in ms; None without one, or when its function fails."""
    if kind.backoff is None:
        return None
    try:
        seconds = float(kind.backoff(task.status.tries + 1, error))
        if not seconds >= 0:
            raise ValueError(f"a delay of {seconds} s")
    except Exception:
        logger.exception("The backoff function of %s failed; the policy decides.", kind.name)
        return None
    return round(min(seconds, task.policy.max_retry_delay) * 1000)


def _bounded_traceback(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(error, limit=-MOST_FRAMES)
    except Exception:  # a source line or an exception's own __str__ may fail
        return ""
    data = "".join(lines).encode("utf-8", "backslashreplace")
    if len(data) <= MOST_TRACEBACK:
        return data.decode()
    cut = b"...\n" + data[4 - MOST_TRACEBACK :]
    return cut.decode("utf-8", "ignore")


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    return _clean(text or type(error).__name__)[:MOST_ERROR]


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _type_name(error: BaseException) -> str:
    kind = type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"
