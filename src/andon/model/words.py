"""The vocabulary: every state, event and reason by name. Pure data.

A task is in exactly one `State`; an `Event` moves it; a `Reason` says why it is where it is.
The values are what is stored, sent over the wire and shown under the native profile.
"""

from enum import StrEnum

DEFAULT_QUEUE = "default"
"""The queue of a task that names none."""


class Word(StrEnum):
    """A word that equals its text. Hashed in C: a move looks up a dozen words, and the hash that
    enums come with is a Python call (0.15 us against 0.05)."""

    __hash__ = str.__hash__


class State(Word):
    """Where a task stands. One of thirteen; only `UNSUBMITTED` never reaches a store."""

    UNSUBMITTED = "unsubmitted"  #: exists only in the client
    BLOCKED = "blocked"  #: waits for dependencies, or to be scheduled by hand
    SCHEDULED = "scheduled"  #: waits for its start time
    PENDING = "pending"  #: may be claimed now
    ACTIVE = "active"  #: a run holds it under a lease
    RETRY = "retry"  #: a run failed; waits for the retry time
    COMPLETED = "completed"  #: succeeded; result kept for its retention
    FAILED = "failed"  #: an error that is not retried, or the budget is spent
    CANCELLED = "cancelled"  #: a person or program cancelled it
    STALLED = (
        "stalled"  #: its worker went away, fell silent or stopped it, and policy says no retry
    )
    DROPPED = "dropped"  #: no handler for its name and version
    EXPIRED = "expired"  #: its deadline or queue timeout passed
    UNREACHABLE = "unreachable"  #: a dependency ended so that it can never be satisfied
    UNKNOWN = "unknown"  #: its record does not decode; set aside (R28)


class Event(Word):
    """What can happen to a task. Each pair of (event, state) is listed in the table of moves."""

    SUBMIT = "submit"
    UNBLOCK = "unblock"
    SCHEDULE = "schedule"
    UNREACH = "unreach"
    DUE = "due"
    CLAIM = "claim"
    REQUEST_CANCEL = "request-cancel"
    COMPLETE = "complete"
    FAIL = "fail"
    TERMINATE = "terminate"
    REJECT = "reject"
    UNKNOWN_TASK = "unknown-task"
    SNOOZE = "snooze"
    RELEASE = "release"
    STOP = "stop"
    SHUTDOWN_RETRY = "shutdown-retry"
    LOSE = "lose"
    SILENCE = "silence"
    INTERRUPTED = "interrupted"
    CANCEL = "cancel"
    EXPIRE = "expire"
    EVICT = "evict"
    RUN_NOW = "run-now"
    RESCHEDULE = "reschedule"
    REPRIORITISE = "reprioritise"
    RERUN = "rerun"
    DELETE = "delete"
    SET_ASIDE = "set-aside"


class Reason(Word):
    """Why a task is in its state, or why a run was opened or resolved."""

    # why a run is opened
    SUBMITTED = "submitted"
    DEPENDENCIES_MET = "dependencies-met"
    SCHEDULED_BY_HAND = "scheduled-by-hand"
    START_TIME = "start-time"
    RETRY = "retry"
    RERUN = "rerun"
    RUN_NOW = "run-now"
    # how a run or a task ends
    SUCCESS = "success"
    ERROR = "error"
    RETRIES_EXHAUSTED = "retries-exhausted"
    NOT_RETRIED = "not-retried"
    TIMEOUT = "timeout"
    TERMINATED = "terminated"
    VALIDATION_ERROR = "validation-error"
    MALFORMED_PAYLOAD = "malformed-payload"
    RESULT_INVALID = "result-invalid"
    SIGNATURE_REFUSED = "signature-refused"
    LEASE_EXPIRED = "lease-expired"
    HEARTBEAT_TIMEOUT = "heartbeat-timeout"
    WORKER_SHUTDOWN = "worker-shutdown"
    INTERMITTENT_TASK = "intermittent-task"
    RESOURCE_UNAVAILABLE = "resource-unavailable"
    INTERNAL_ERROR = "internal-error"
    DEADLINE_EXCEEDED = "deadline-exceeded"
    QUEUE_TIMEOUT = "queue-timeout"
    QUEUE_FULL = "queue-full"
    UNKNOWN_TASK = "unknown-task"
    DEPENDENCY_FAILED = "dependency-failed"
    DEPENDENCY_MISSING = "dependency-missing"
    CANCEL_REQUESTED = "cancel-requested"
    CANCEL_FORCED = "cancel-forced"
    HANDLER_ABANDONED = "handler-abandoned"
    HANDLER_KILLED = "handler-killed"
    SNOOZED = "snoozed"
    RELEASED = "released"
    RESCHEDULED = "rescheduled"
    # why a record goes
    RETENTION = "retention"
    DISCARDED = "discarded"
    DEAD_LETTER_BOUND = "dead-letter-bound"
    DELETED_BY_HAND = "deleted-by-hand"
    UNDECODABLE = "undecodable"


WAITING = frozenset({State.BLOCKED, State.SCHEDULED, State.PENDING, State.RETRY})
"""States in which nobody holds the task."""

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

DEAD_LETTER_STATES = frozenset(
    {State.FAILED, State.STALLED, State.DROPPED, State.EXPIRED, State.UNREACHABLE}
)
"""Ends that are dead letters when the policy says `dead_letter="save"` (R21)."""
