"""Shrinks a record until it fits into one message, however often its task failed.

A status carries up to 50 runs and 16 moves, each with its error, and a traceback takes up to 16
KiB: together more than the server's default of 1 MiB for a message. So if they do not fit, errors
are shortened: first the tracebacks of runs and moves are dropped, then most of their messages, at
last those of the newest error. Definition and result are left as they are.
"""

from collections.abc import Callable
from copy import copy

from msgspec.structs import replace

from andon.model.task import Run, Status, TaskError, TaskEvent
from andon.stores.kit.codec import encode

_SHORT = 200
"""How many characters of a message are kept when it is shortened."""

Lighten = Callable[[TaskError], TaskError]


def shrunk(status: Status, room: int) -> bytes:
    """The status packed, in no more than `room` bytes if shortening its errors is enough."""
    packed = encode(status)
    for lighten, newest_too in _STEPS:
        if len(packed) <= room:
            break
        packed = encode(_lighter(status, lighten, newest_too=newest_too))
    return packed


def without_errors(event: TaskEvent) -> TaskEvent:
    """The move with its error shortened."""
    return _event(event, _shortened)


def _untraced(error: TaskError) -> TaskError:
    return replace(error, traceback="")


def _shortened(error: TaskError) -> TaskError:
    return replace(error, traceback="", message=error.message[:_SHORT])


_STEPS: tuple[tuple[Lighten, bool], ...] = (
    (_untraced, False),
    (_shortened, False),
    (_shortened, True),
)


def _lighter(status: Status, lighten: Lighten, *, newest_too: bool) -> Status:
    lighter = copy(status)
    lighter.runs = tuple(_run(run, lighten) for run in status.runs)
    lighter.events = tuple(_event(event, lighten) for event in status.events)
    if newest_too and status.last_error is not None:
        lighter.last_error = lighten(status.last_error)
    return lighter


def _run(run: Run, lighten: Lighten) -> Run:
    return run if run.error is None else replace(run, error=lighten(run.error))


def _event(event: TaskEvent, lighten: Lighten) -> TaskEvent:
    return event if event.error is None else replace(event, error=lighten(event.error))
