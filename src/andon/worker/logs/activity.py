"""Logs runs: each that has failed, and at level INFO the start and end of each.

The logger is `andon.runs`, so that any logging handler gets it. A run that will be retried is a
WARNING, one that is the end of its task an ERROR with the exception. Each record carries `task_id`,
`task_name`, `run`, `queue`, `worker`, and that of an end `duration` in seconds.
"""

import logging
from types import TracebackType
from typing import Any

from andon.lifecycle.commands import Command, Complete, Fail
from andon.lifecycle.delays import retry_delay
from andon.model.task import Task, TaskError
from andon.model.text import one_line, storable
from andon.model.words import State
from andon.worker.executors.base import RunInHand

RUNS = "andon.runs"
"""The logger's name."""

logger = logging.getLogger(RUNS)
_about_logging = logging.getLogger("andon.worker")

_ONWARDS = frozenset((State.PENDING, State.RETRY, State.SCHEDULED))
"""States of a task that will run again."""

_QUIET_ENDS = frozenset((State.CANCELLED,))
"""Ends that a user asked for."""

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def started(run: RunInHand) -> None:
    """Log that the handler starts."""
    if logger.isEnabledFor(logging.INFO):
        context = run.context
        logger.info("Task %s starts: %s, try %d.", context.task_id, context.name, context.attempt,
                    extra=_fields(run))  # fmt: skip


def ended(run: RunInHand, command: Command, state: State | None) -> None:
    """Log that the run's report was taken; `state` is the task's state now, None if it was
    discarded. Never raises, whatever a logging handler of the user's does."""
    is_complete = isinstance(command, Complete)
    if is_complete and not logger.isEnabledFor(logging.INFO):
        return  # nearly every run, so it comes first
    try:
        if is_complete:
            _log(logging.INFO, run, "completed")
        else:
            _ended_otherwise(run, command, state)
    except Exception:
        _about_logging.exception("The end of task %s could not be logged.", run.context.task_id)
    finally:
        run.error = None  # its traceback holds the handler's frames


def _ended_otherwise(run: RunInHand, command: Command, state: State | None) -> None:
    error: TaskError | None = getattr(command, "error", None)
    if error is None or state in _QUIET_ENDS:
        if logger.isEnabledFor(logging.INFO):
            _log(logging.INFO, run, "ended", f" with {command.event.value}")
        return
    what = f" with {one_line(error.code)}: {one_line(error.message)}"
    if state in _ONWARDS:
        _log(logging.WARNING, run, "failed", f"{what}; retried {_when(run.task, command)}")
    else:
        _log(logging.ERROR, run, "failed", f"{what}; not retried", _exc_info(run, error))


def _log(
    level: int, run: RunInHand, how: str, more: str = "", exc_info: ExcInfo | None = None
) -> None:
    context, seconds = run.context, run.seconds
    logger.log(
        level,
        "Task %s (%s) %s after %.3g s%s.",
        context.task_id,
        context.name,
        how,
        seconds,
        more,
        exc_info=exc_info,
        extra={**_fields(run), "duration": round(seconds, 6)},
    )


def _when(task: Task, command: Command) -> str:
    """When the retry comes, as far as the worker knows: jitter is drawn where it is written."""
    delay = command.delay if isinstance(command, Fail) else None
    if delay is None:
        tries = task.status.tries + 1
        delay = retry_delay(task.policy, tries, lambda: 1.0)
        if delay is None:
            return "at once"
        if retry_delay(task.policy, tries, lambda: 0.0) != delay:
            return f"within {delay / 1000:g} s"
    return f"in {delay / 1000:g} s" if delay else "at once"


class FailedElsewhere(Exception):
    """A stored error as an exception, for handlers in another process and for exceptions that
    cannot be shown."""


class _Traceback(Exception):
    """Its traceback, shown as the cause."""


def _exc_info(run: RunInHand, error: TaskError) -> ExcInfo | None:
    raised = run.error
    if (raised is None and error.traceback) or (raised is not None and not _can_be_shown(raised)):
        raised = FailedElsewhere(f"{error.type or error.code}: {error.message}")
        raised.__cause__ = _Traceback(f"\n{error.traceback}")
    return None if raised is None else (type(raised), raised, raised.__traceback__)


def _can_be_shown(error: BaseException) -> bool:
    """Whether every logging handler can write it: an exception's own `__str__` may raise, and half
    a surrogate has no place in any encoding. What is stored of it can be shown always."""
    try:
        text = str(error)
    except Exception:
        return False
    return storable(text) == text


def _fields(run: RunInHand) -> dict[str, Any]:
    context = run.context
    return {
        "task_id": context.task_id,
        "task_name": context.name,
        "run": context.run,
        "queue": run.task.definition.queue,
        "worker": context.worker,
    }
