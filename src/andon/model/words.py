"""The vocabulary: every state, event and reason by name. Pure data.

A task is in exactly one `State`; an `Event` moves it; a `Reason` says why it is where it is.
The values are what is stored, sent over the wire and shown under the native profile.
"""

from collections.abc import Iterable
from enum import StrEnum

DEFAULT_QUEUE = "default"
"""The queue of a task that names none."""


class Word(StrEnum):
    """A word that equals its text. Hashed in C: a move looks up a dozen words, and the hash that
    enums come with is a Python call (0.15 us against 0.05)."""

    __hash__ = str.__hash__


class State(Word):
    """Where a task stands. One of fourteen; only `UNSUBMITTED` never reaches a store.

    Example:
        from andon import State

        handle = await remind.submit_in(3600, "ann@example.org")
        assert await handle.status() is State.SCHEDULED
        assert State.SCHEDULED == "scheduled"
    """

    UNSUBMITTED = "unsubmitted"  #: exists only in the client
    BLOCKED = "blocked"  #: waits for dependencies, or to be scheduled by hand
    SCHEDULED = "scheduled"  #: waits for its start time
    PENDING = "pending"  #: may be claimed now
    ACTIVE = "active"  #: a run holds it under a lease
    RETRY = "retry"  #: a run failed; waits for the retry time
    RECURRING = "recurring"  #: a schedule: never runs, bears a task at each of its times
    COMPLETED = "completed"  #: succeeded; result kept for its retention
    FAILED = "failed"  #: an error that is not retried, or the budget is spent
    CANCELLED = "cancelled"  #: a person or program cancelled it
    STALLED = (
        "stalled"  #: its worker went away, fell silent or stopped it, and policy says no retry
    )
    DROPPED = "dropped"  #: no handler for its name and version
    EXPIRED = "expired"  #: its deadline or queue timeout passed
    UNREACHABLE = "unreachable"  #: a dependency ended so that it can never be satisfied
    UNKNOWN = "unknown"  #: its record does not decode; set aside (docs/rulings.md, R28)


class Event(Word):
    """What can happen to a task. Each pair of (event, state) is listed in the table of moves.

    Example:
        from andon.model.words import Event

        handle = await charge.submit(7, 990)
        assert (await handle.history())[0].event is Event.SUBMIT
    """

    SUBMIT = "submit"  #: the task comes to be
    UNBLOCK = "unblock"  #: what it waited for has ended
    SCHEDULE = "schedule"  #: it is released by hand
    UNREACH = "unreach"  #: what it waits for can never be satisfied
    DUE = "due"  #: its start or retry time has come
    CLAIM = "claim"  #: a worker takes it
    REQUEST_CANCEL = "request-cancel"  #: its run is asked to stop
    COMPLETE = "complete"  #: the handler returned
    FAIL = "fail"  #: the run failed
    TERMINATE = "terminate"  #: the handler gives it up
    REJECT = "reject"  #: arguments or result cannot be used
    UNKNOWN_TASK = "unknown-task"  #: the worker has no code for it
    SNOOZE = "snooze"  #: the handler puts it off
    RELEASE = "release"  #: the worker gives it back
    STOP = "stop"  #: a worker that leaves stops it
    SHUTDOWN_RETRY = "shutdown-retry"  #: a worker that leaves uses up a try
    LOSE = "lose"  #: its lease ran out
    SILENCE = "silence"  #: its handler was silent for too long
    INTERRUPTED = "interrupted"  #: it stopped, as it was asked to
    CANCEL = "cancel"  #: it is cancelled
    EXPIRE = "expire"  #: its deadline or queue timeout has passed
    EVICT = "evict"  #: it gives way in a full queue
    RECUR = "recur"  #: a time of the schedule has come
    PAUSE = "pause"  #: the schedule fires no more until it is resumed
    RESUME = "resume"  #: the schedule fires again
    REVISE = "revise"  #: the schedule gets other times, or another task
    RUN_NOW = "run-now"  #: its wait is ended by hand; a schedule bears one task more
    RESCHEDULE = "reschedule"  #: it gets another start time
    REPRIORITISE = "reprioritise"  #: it gets another priority
    ARCHIVE = "archive"  #: what waits is made a dead letter by hand
    EDIT = "edit"  #: it is cancelled for a successor with other arguments
    EXTEND = "extend"  #: it waits for more tasks, which a run adds
    DELIVER = "deliver"  #: the tasks that it owes are stored
    RERUN = "rerun"  #: what has ended runs again
    DELETE = "delete"  #: its record goes
    SET_ASIDE = "set-aside"  #: its record does not decode


class Reason(Word):
    """Why a task is in its state, or why a run was opened or resolved.

    Example:
        from andon import Reason

        handle = await charge.submit(7, 990)
        await handle.result(timeout=60)
        assert (await handle.get()).reason is Reason.SUCCESS
    """

    # why a run is opened
    SUBMITTED = "submitted"  #: by its submit
    DEPENDENCIES_MET = "dependencies-met"  #: what it waited for has ended
    SCHEDULED_BY_HAND = "scheduled-by-hand"  #: it was released by hand
    START_TIME = "start-time"  #: its start time had come
    RETRY = "retry"  #: a run failed, and the budget lasts
    RERUN = "rerun"  #: it was rerun by hand
    RUN_NOW = "run-now"  #: its wait was ended by hand
    # how a run or a task ends
    SUCCESS = "success"  #: the handler returned
    ERROR = "error"  #: the handler raised
    RETRIES_EXHAUSTED = "retries-exhausted"  #: an error, and no try was left
    TIMEOUT = "timeout"  #: the run took longer than `timeout`
    TERMINATED = "terminated"  #: the handler gave it up
    VALIDATION_ERROR = "validation-error"  #: the submission could never work, and was recorded
    MALFORMED_PAYLOAD = "malformed-payload"  #: the arguments do not fit the handler
    RESULT_INVALID = "result-invalid"  #: the result is no JSON, or too large
    SIGNATURE_REFUSED = "signature-refused"  #: it is not signed as its worker asks
    LEASE_EXPIRED = "lease-expired"  #: its worker did not renew it
    HEARTBEAT_TIMEOUT = "heartbeat-timeout"  #: its handler was silent for too long
    WORKER_SHUTDOWN = "worker-shutdown"  #: its worker left
    INTERMITTENT_TASK = "intermittent-task"  #: the handler asked for another try
    RESOURCE_UNAVAILABLE = "resource-unavailable"  #: its worker lacked what the run needs
    INTERNAL_ERROR = "internal-error"  #: a child process died, or its end is not known
    DEADLINE_EXCEEDED = "deadline-exceeded"  #: its deadline had passed
    QUEUE_TIMEOUT = "queue-timeout"  #: it was pending for longer than `queue_timeout`
    QUEUE_FULL = "queue-full"  #: it gave way in a full queue
    UNKNOWN_TASK = "unknown-task"  #: no code for its name and version
    DEPENDENCY_FAILED = "dependency-failed"  #: what it waited for ended badly
    DEPENDENCY_MISSING = "dependency-missing"  #: what it waits for was never stored
    CANCEL_REQUESTED = "cancel-requested"  #: it was cancelled, and its run has ended
    CANCEL_FORCED = "cancel-forced"  #: it was cancelled by force
    HANDLER_ABANDONED = "handler-abandoned"
    """Its thread did not stop; whatever it does is fenced off."""
    HANDLER_KILLED = "handler-killed"  #: its process did not stop, and was killed
    SNOOZED = "snoozed"  #: the handler put it off
    RELEASED = "released"  #: its worker gave it back, untried
    RESCHEDULED = "rescheduled"  #: it got another start time by hand
    ARCHIVED_BY_HAND = "archived-by-hand"  #: it was made a dead letter by hand
    EDITED = "edited"  #: a successor has its place, with other arguments
    SUPERSEDED = "superseded"  #: a newer submit of its unique key has its place
    SUPERSEDED_RUN = "superseded-run"
    """The run that fanned it out did not complete; a later run of the same task did, or may."""
    # how a schedule stands
    PAUSED = "paused"  #: it was paused by hand
    FAILURES_IN_A_ROW = "failures-in-a-row"  #: it paused itself: too many of its tasks failed
    RESUMED = "resumed"  #: it was resumed by hand
    OVERLAP = "overlap"  #: it was time, and the task before had not ended
    SCHEDULE_ENDED = "schedule-ended"  #: none of its times is left
    # why a record goes
    RETENTION = "retention"  #: it was kept for as long as its policy says
    DISCARDED = "discarded"  #: its policy keeps no record of this end
    DEAD_LETTER_BOUND = "dead-letter-bound"  #: there were too many dead letters
    DELETED_BY_HAND = "deleted-by-hand"  #: it was deleted by hand
    UNDECODABLE = "undecodable"  #: its record does not decode (docs/rulings.md, R28)


WAITING = frozenset({State.BLOCKED, State.SCHEDULED, State.PENDING, State.RETRY})
"""States in which no run holds the task."""

LIVE = WAITING | {State.ACTIVE, State.RECURRING}
"""States in which the task has not ended. A schedule waits, too, but has few of the moves of what
is to run."""

WAITS_FOR_TIME = (State.SCHEDULED, State.RETRY)
"""States whose tasks have a due time. Stores keep them in that order, too."""

TERMINAL = frozenset(
    {
        State.COMPLETED,
        State.FAILED,
        State.CANCELLED,
        State.STALLED,
        State.DROPPED,
        State.EXPIRED,
        State.UNREACHABLE,
    }
)
"""States that only an explicit rerun or a deletion leaves."""

OVER = TERMINAL | {State.UNKNOWN}
"""States that end a wait for the task: it has ended, or cannot be read."""

UNFINISHED = LIVE - {State.RECURRING}
"""States of what runs now or is still to run."""

DEAD_LETTER_STATES = frozenset(
    {State.FAILED, State.STALLED, State.DROPPED, State.EXPIRED, State.UNREACHABLE}
)
"""Ends that are dead letters when the policy says `dead_letter="save"` (docs/rulings.md, R21)."""


def in_order(states: Iterable[State]) -> tuple[State, ...]:
    """The states in the order in which a task may come to them, as `State` lists them."""
    return tuple(sorted(states, key=list(State).index))
