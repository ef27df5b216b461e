"""Makes the command that resolves a run from how its handler ended (docs/rulings.md, R7, R11, R23,
R24).

Used by the worker for handlers in its own process and by child processes for theirs, because the
types of exceptions are known only where the handler ran.

Exceptions are code of the user's: their properties and their `__str__` may raise, and their text
may be what no store keeps. None of that keeps a run from ending.
"""

import json
import logging
import socket
import traceback
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from andon.lifecycle.bounds import LONGEST_DELAY_MS
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
from andon.model.text import storable
from andon.model.words import Reason
from andon.worker import control
from andon.worker.calls import MalformedPayload, ResultInvalid
from andon.worker.context import StopReason
from andon.worker.registry import TaskType

if TYPE_CHECKING:
    from andon.signing import Refusal

logger = logging.getLogger("andon.worker")

MOST_TRACEBACK = 16 * 1024
"""Bytes of a traceback that are kept: the newest frames, at the end."""

MOST_FRAMES = 100
MOST_ERROR = 4 * 1024
MOST_CODE = 128
_MOST_TYPE = 256

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
    error = TaskError(message=_bounded(message), code=Reason.RESULT_INVALID.value)
    return Reject(error=error, reason=Reason.RESULT_INVALID)


def malformed(error: Exception) -> Command:
    """The payload does not fit the handler."""
    failure = TaskError(message=_text(error), code="VALIDATION_ERROR", type=_type_name(error))
    return Reject(error=failure, reason=Reason.MALFORMED_PAYLOAD)


def unsigned(refusal: "Refusal") -> Command:
    """The task is not signed as it has to be; not retried, for the record stays as it is."""
    error = TaskError(message=refusal.message, code=refusal.code)
    return Reject(error=error, reason=Reason.SIGNATURE_REFUSED)


def raised(kind: TaskType, task: Task, error: BaseException) -> Command:
    """The handler raised `error` without having been told to stop."""
    try:
        return _raised(kind, task, error)
    # docs/rulings.md, R24: an exception's own code may raise anything
    except BaseException as broken:
        return undecided(task, broken)


def undecided(task: Task, broken: BaseException) -> Command:
    """It could not be decided how the run ended, because `broken` was raised meanwhile."""
    logger.error(
        "How the run of task %s ended cannot be told; it fails as internal-error.",
        task.id,
        exc_info=broken,
    )
    return internal(
        f"How the run ended cannot be told: {_type_name(broken)} was raised while its end was "
        f"looked at: {_text(broken)}"
    )


def unwritten(command: Command, error: BaseException, *, of_value: bool) -> Command:
    """The report in place of a command that cannot be written. `of_value`: because of a value in
    it."""
    if of_value and isinstance(command, Complete):
        return invalid_result(f"The result cannot be kept: {_text(error)}")
    return internal(
        f"The run ended with {command.event.value}, and that cannot be kept: {_text(error)}"
    )


def _raised(kind: TaskType, task: Task, error: BaseException) -> Command:
    error = control.control_in(error)
    if isinstance(error, control.Snooze):
        return SnoozeRun(delay=_delay(error.seconds, "A snooze"))
    if isinstance(error, control.Terminate):
        return Terminate(error=error_of(error))
    failure = error_of(error)
    if isinstance(error, control.Retry):
        delay = None if error.delay is None else _delay(error.delay, "The delay of a retry")
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
    reason: StopReason,
    on_shutdown: OnShutdown,
    own: Command | None,
    *,
    cancelled: Reason = Reason.CANCEL_REQUESTED,
) -> Command | None:
    """The handler stopped, or was given up, after it was told to; None: nothing is reported.

    `own` is what the handler's end says by itself; None if it merely stopped. After a cancel the
    record ends cancelled in any case (docs/rulings.md, R7), and keeps an error of the handler's
    own.
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
    seconds = (run_timeout(task.status, task.policy) or 0) / 1000
    error = TaskError(message=f"The run took longer than {seconds:g} s.", code="TIMEOUT")
    return Fail(error=error, reason=Reason.TIMEOUT, delay=_backoff(kind, task, None))


def at_shutdown(rule: OnShutdown) -> Command:
    """What becomes of a run that the worker's shutdown ends (docs/rulings.md, R11)."""
    if rule == "stop":
        return Stop()
    if rule == "retry":
        return ShutdownRetry()
    return Release()


def internal(message: str) -> Command:
    """Something under the handler broke: a child process died."""
    error = TaskError(message=_bounded(message), code=Reason.INTERNAL_ERROR.value)
    return Fail(error=error, reason=Reason.INTERNAL_ERROR)


def error_of(error: BaseException) -> TaskError:
    """An exception as it is stored: bounded, and fit to be kept whatever it says."""
    trace = ""
    if error.__traceback__ is not None:
        trace = _bounded_traceback(error)
    return TaskError(
        message=_text(error), code=code_of(error), type=_type_name(error), traceback=trace
    )


def code_of(error: BaseException) -> str:
    """The error code of an exception (docs/rulings.md, R23)."""
    if isinstance(error, Exception):  # `SystemExit.code` is an exit status, not an error code
        try:
            code = getattr(error, "code", None)
        except Exception:  # a property of the user's
            code = None
        if isinstance(code, str) and code:
            return storable(code)[:MOST_CODE]
    if isinstance(error, _NETWORK):
        return "NETWORK_ERROR"
    if isinstance(error, _VALIDATION) or type(error).__name__ == "ValidationError":
        return "VALIDATION_ERROR"
    return storable(type(error).__name__)[:MOST_CODE]


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
        return min(round(min(seconds, task.policy.max_retry_delay) * 1000), LONGEST_DELAY_MS)
    except Exception:
        logger.exception("The backoff function of %s failed; the policy decides.", kind.name)
        return None


def _bounded_traceback(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(error, limit=-MOST_FRAMES)
    except Exception:  # a source line or an exception's own __str__ may fail
        return ""
    data = storable("".join(lines)).encode()
    if len(data) <= MOST_TRACEBACK:
        return data.decode()
    cut = b"...\n" + data[4 - MOST_TRACEBACK :]
    return cut.decode("utf-8", "ignore")


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    return _bounded(text or type(error).__name__)


def _bounded(message: str) -> str:
    # Cut before too: escapes make a text longer, and a huge one is not to be copied for nothing.
    return storable(message[:MOST_ERROR])[:MOST_ERROR]


def _delay(seconds: float, what: str) -> int:
    # Again: a subclass need not have called the constructor that checks it.
    return round(control.checked_seconds(seconds, what) * 1000)


def _type_name(error: BaseException) -> str:
    kind = type(error)
    module: Any = kind.__module__  # whatever a class says it is
    if module == "builtins":
        return kind.__qualname__
    return storable(f"{module}.{kind.__qualname__}")[:_MOST_TYPE]
