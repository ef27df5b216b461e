"""Commands: one small struct per event that may be asked of a task, with the data the event needs.

A command names no state: what it does depends on where the task stands, and is decided in
`andon.lifecycle.decide`. Times are ms UTC by the store's clock, delays are ms.
"""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from andon.model.task import Added, Definition, TaskError
from andon.model.task import Schedule as ScheduleRecord
from andon.model.words import Event, Reason, State


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all commands; `event` is the row of the table of moves it asks for."""

    event: ClassVar[Event]


class Unblock(Command, frozen=True):
    """Every dependency is satisfied."""

    event: ClassVar[Event] = Event.UNBLOCK
    added: tuple[Added, ...] = ()
    """The additions to its dependencies when that was decided."""


class Schedule(Command, frozen=True):
    """Release a blocked task by hand, whatever it waits for."""

    event: ClassVar[Event] = Event.SCHEDULE


class Unreach(Command, frozen=True):
    """A dependency ended so that the task can never run, or one too many for what it needs."""

    event: ClassVar[Event] = Event.UNREACH
    parent: str
    missing: bool = False  #: the dependency does not exist (any more)
    parent_state: str = ""


class Due(Command, frozen=True):
    """The start time or the retry time has come."""

    event: ClassVar[Event] = Event.DUE


class RequestCancel(Command, frozen=True):
    """Ask the run in hand to stop."""

    event: ClassVar[Event] = Event.REQUEST_CANCEL


class Complete(Command, frozen=True):
    """The handler returned; `result` is encoded JSON."""

    event: ClassVar[Event] = Event.COMPLETE
    result: bytes | None = None
    births: tuple[Definition, ...] = ()
    """Tasks that exist if and only if this is written (docs/rulings.md, R38)."""


class Fail(Command, frozen=True):
    """The run failed. The worker may decide `retryable` and `delay` (types and functions are its
    own, docs/rulings.md, R5); left None, the policy decides by the error's code and type."""

    event: ClassVar[Event] = Event.FAIL
    error: TaskError
    reason: Reason = Reason.ERROR  #: error, timeout, intermittent-task, internal-error
    retryable: bool | None = None
    delay: int | None = None


class Terminate(Command, frozen=True):
    """The handler asked that the task be given up."""

    event: ClassVar[Event] = Event.TERMINATE
    error: TaskError


class Reject(Command, frozen=True):
    """The run can never work: payload, result, or (by profile) the worker's own trouble."""

    event: ClassVar[Event] = Event.REJECT
    error: TaskError
    reason: Reason = Reason.MALFORMED_PAYLOAD


class UnknownTask(Command, frozen=True):
    """The worker has no handler for the name and version."""

    event: ClassVar[Event] = Event.UNKNOWN_TASK


class Snooze(Command, frozen=True):
    """The handler asked to be started again later; costs no try."""

    event: ClassVar[Event] = Event.SNOOZE
    delay: int


class Release(Command, frozen=True):
    """Give the task back at its old place; costs no try."""

    event: ClassVar[Event] = Event.RELEASE


class Stop(Command, frozen=True):
    """Shutdown with `on_shutdown=stop`."""

    event: ClassVar[Event] = Event.STOP


class ShutdownRetry(Command, frozen=True):
    """Shutdown with `on_shutdown=retry`; costs a try."""

    event: ClassVar[Event] = Event.SHUTDOWN_RETRY


class Lose(Command, frozen=True):
    """The lease ran out."""

    event: ClassVar[Event] = Event.LOSE


class Silence(Command, frozen=True):
    """No heartbeat for `max_heartbeat_interval`."""

    event: ClassVar[Event] = Event.SILENCE


class Interrupted(Command, frozen=True):
    """The handler stopped because it was told to cancel; `reason` says how it went."""

    event: ClassVar[Event] = Event.INTERRUPTED
    reason: Reason = Reason.CANCEL_REQUESTED


class Cancel(Command, frozen=True):
    """Cancel now. An active task needs `force`; without it, ask with `RequestCancel`."""

    event: ClassVar[Event] = Event.CANCEL
    force: bool = False
    births: tuple[Definition, ...] = ()
    """The newer task of its unique key, which supersedes one that waits (docs/rulings.md, R38);
    else none."""
    superseded_run: bool = False
    """Of a task that waits: the run that fanned it out did not complete (`lifecycle.fan_out`)."""


class Expire(Command, frozen=True):
    """The deadline or the queue timeout has passed."""

    event: ClassVar[Event] = Event.EXPIRE
    reason: Reason = Reason.DEADLINE_EXCEEDED


class Evict(Command, frozen=True):
    """Make room in a full queue with `discard-old`."""

    event: ClassVar[Event] = Event.EVICT


class RunNow(Command, frozen=True):
    """Skip the wait. A schedule bears one task more, now, and waits on."""

    event: ClassVar[Event] = Event.RUN_NOW


class Recur(Command, frozen=True):
    """A time of the schedule has come."""

    event: ClassVar[Event] = Event.RECUR
    last: State | None = None
    """In which state the newest occurrence is; None if it is gone, or nothing depends on it."""


class Pause(Command, frozen=True):
    """Let a schedule fire no more until it is resumed."""

    event: ClassVar[Event] = Event.PAUSE


class Resume(Command, frozen=True):
    """Let a paused schedule fire again; what fell into the pause was not missed."""

    event: ClassVar[Event] = Event.RESUME


class Revise(Command, frozen=True):
    """Give a schedule other times, or another task. How far it has come is its own."""

    event: ClassVar[Event] = Event.REVISE
    schedule: ScheduleRecord
    parts: Mapping[str, str] | None = None
    """What of it is changed (`lifecycle.schedules.PARTS`), each with its digest as it was read
    (empty: whatever it is by now). All else stays as it is. None: all of it."""


class Reschedule(Command, frozen=True):
    """Give the task a new start time."""

    event: ClassVar[Event] = Event.RESCHEDULE
    run_at: int


class Reprioritise(Command, frozen=True):
    """Give the task a new priority, -4 to 5; while a run is in hand, for the next one."""

    event: ClassVar[Event] = Event.REPRIORITISE
    priority: int


class Archive(Command, frozen=True):
    """Give up a waiting task by hand: it becomes a dead letter."""

    event: ClassVar[Event] = Event.ARCHIVE


class Edit(Command, frozen=True):
    """Cancel a task that has not begun, in favour of a successor with other arguments; the record
    keeps these until the successor is stored."""

    event: ClassVar[Event] = Event.EDIT
    successor: str  #: its id
    args: bytes  #: JSON


class Extend(Command, frozen=True):
    """Let a blocked task wait for the follow-ups of a run, too."""

    event: ClassVar[Event] = Event.EXTEND
    added: Added


class Deliver(Command, frozen=True):
    """What the task owes is stored, or was refused for good."""

    event: ClassVar[Event] = Event.DELIVER
    revision: int | None = None  #: that of the record whose debt was paid; None: whichever it is
    refused: TaskError | None = None  #: what of it was refused, and why


class Rerun(Command, frozen=True):
    """Run a finished task again (docs/rulings.md, R20, R42); a schedule fires again."""

    event: ClassVar[Event] = Event.RERUN
    run_at: int | None = None
    deadline: int | None = None
    keep_budget: bool = False
    schedule: ScheduleRecord | None = None  #: other times or another task, for a schedule
    parts: Mapping[str, str] | None = None  #: as in `Revise`
    waits: bool = False  #: wait for its dependencies again, if it has any
    blocked: bool = False  #: also a task that is blocked, which then waits for nothing any more


class Delete(Command, frozen=True):
    """Remove the record of a finished task."""

    event: ClassVar[Event] = Event.DELETE
    reason: Reason = Reason.DELETED_BY_HAND
