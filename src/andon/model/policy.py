"""How a task is retried, timed, kept and given up: the rules a task carries with it. Pure data.

A `Policy` is resolved once, at submit, from four layers (submission over task type over queue over
profile, docs/rulings.md, R5) and stored with the task, so that it stays the same even after a
deploy changes the defaults. `PolicyOptions` is one such layer: only the options that were set.

All durations are seconds; `None` means "no limit" unless a field says otherwise.
"""

from enum import StrEnum
from typing import Literal, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from andon.model.words import UNFINISHED, in_order

DAY = 86_400.0

WHILE_UNFINISHED = tuple(state.value for state in in_order(UNFINISHED))
"""The states of a task that has not ended, by name."""


class Backoff(StrEnum):
    """How the delay before retry n grows; formulas in `andon.lifecycle.delays` (docs/rulings.md,
    R16).

    Example:
        from andon import Andon, Backoff

        app = Andon("memory://", retry_delay=10, backoff=Backoff.LINEAR, max_retry_delay=60)
    """

    CONSTANT = "constant"  #: the same each time
    LINEAR = "linear"  #: n times the base
    EXPONENTIAL = "exponential"  #: doubles each time
    EXPONENTIAL_JITTER = "exponential_jitter"  #: any time up to that, so that retries spread
    POLYNOMIAL = "polynomial"  #: Asynq's: with the fourth power, and jitter
    STEPS = "steps"  #: a table: the policy's `steps`, or Choria's
    CUSTOM = "custom"  #: a function in the worker; a lost run falls back to `retry_delay`


class Retention(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds each terminal state is kept: 0 discards after the event, None keeps for ever.

    A state that is not set is kept as `failed` is (docs/rulings.md, R21).

    Example:
        handle = await charge.options(retention={"completed": 3600, "failed": None}).submit(7, 990)
        assert (await handle.get()).policy.retention.of("completed") == 3600
    """

    completed: float | None = DAY  #: tasks that succeeded
    failed: float | None = 90 * DAY  #: tasks that failed
    cancelled: float | UnsetType | None = UNSET  #: tasks that were cancelled
    stalled: float | UnsetType | None = UNSET  #: tasks whose worker went away
    dropped: float | UnsetType | None = UNSET  #: tasks without a handler
    expired: float | UnsetType | None = UNSET  #: tasks whose time had passed
    unreachable: float | UnsetType | None = UNSET  #: tasks whose dependencies failed

    def of(self, state: str) -> float | None:
        """Seconds that this terminal state is kept.

        Example:
            from andon.model.policy import Retention

            assert Retention(completed=60).of("completed") == 60
        """
        seconds = getattr(self, state)
        return self.failed if seconds is UNSET else seconds


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The resolved rules of one task. The defaults here are the native profile's.

    Example:
        handle = await charge.options(max_retries=1, timeout=30).submit(7, 990)
        policy = (await handle.get()).policy
        assert (policy.max_retries, policy.timeout, policy.retry_delay) == (1, 30, 60)
    """

    max_retries: int = 3  #: at most this many runs after the first count against the budget
    max_runs: int | None = None
    """At most this many runs in all, those after reruns by hand among them: then neither a retry
    nor a rerun opens another. A run that was given back untried (release, snooze) may still."""
    ends_as_run: bool = False
    """A task that ends while it waits for something else than a worker gets a run to end with, so
    that each of its ends has a run number of its own."""
    retry_delay: float | None = 5.0  #: base delay; None retries at once, 0 goes through `retry`
    backoff: Backoff = Backoff.EXPONENTIAL_JITTER  #: how the delay grows from retry to retry
    max_retry_delay: float = 3600.0  #: every computed delay is clamped to this
    steps: tuple[float, ...] = ()  #: table for `steps`; empty means Choria's `10m` table
    retry_on: tuple[str, ...] = ()  #: error codes or type names; when not empty, only these
    no_retry_on: tuple[str, ...] = ()  #: error codes or type names never retried; wins
    retry_unlisted: bool = True  #: whether an error in neither list is retried
    retry_internal_errors: bool = True  #: whether a died child process counts as a try
    timeout: float | None = None  #: one run, from its claim
    default_timeout: float | None = None  #: timeout when neither timeout nor deadline is given
    queue_timeout: float | None = None  #: time in `pending`, from each entry (docs/rulings.md, R17)
    max_heartbeat_interval: float | None = None  #: silence longer than this is a stall
    deadline_covers: Literal["task", "start"] = "task"
    """Whether an active run is ended by the deadline too (docs/rulings.md, R19)."""
    deadline_required: bool = False  #: refuse a submission without a deadline
    deadline_max: float | None = None  #: how far ahead a deadline may lie
    lease: float = 30.0  #: a run that was not renewed for this long is lost
    on_shutdown: Literal["stop", "resubmit", "retry", "continue"] = "resubmit"
    """What becomes of a run when its worker leaves (docs/rulings.md, R11)."""
    shutdown_grace: float = 30.0  #: how long a run may go on while its worker leaves
    cancel_grace: float = 10.0
    """How long a told handler may go on before it is abandoned (docs/rulings.md, R7)."""
    on_lost: Literal["retry", "stall"] = "retry"  #: when the lease ran out (docs/rulings.md, R10)
    on_silence: Literal["stall", "retry"] = "stall"
    """When no heartbeat came in time (docs/rulings.md, R10)."""
    on_unknown: Literal["wait", "retry", "drop", "fail"] = "wait"
    """No code for the task (docs/rulings.md, R32)."""
    on_dependency_failure: Literal["unreachable", "wait"] = "unreachable"
    """What becomes of a dependent then (docs/rulings.md, R8)."""
    on_missing_parent: Literal["refuse", "unreachable"] = "refuse"
    """No such task (docs/rulings.md, R34)."""
    on_invalid: Literal["refuse", "record"] = "refuse"
    """Keep what can never work as failed, or refuse it (docs/rulings.md, R25)."""
    dead_letter: Literal["save", "none"] = "save"
    """Whether bad ends are kept to be looked at (docs/rulings.md, R21)."""
    dead_letter_retention: float | None = 90 * DAY  #: how long a dead letter is kept
    retention: Retention = Retention()  #: how long the record is kept after its end
    discard_states: tuple[str, ...] = ()  #: terminal states discarded at once
    expires: float | None = None  #: record goes this long after creation at the latest
    expires_after_deadline: float | None = None  #: same, counted from the deadline
    unique_states: tuple[str, ...] = WHILE_UNFINISHED  #: states in which a unique key holds
    unique_period: float | None = None  #: the key is free this long after creation at the latest
    max_concurrent: int | None = None  #: runs of this type at once in one worker


class PlainOptions(TypedDict, total=False):
    """Options that mean the same wherever they are given, in the code or in the store."""

    retry: str  #: name of a retry policy in the store; what stands beside it wins over it
    max_retries: int
    max_runs: int | None
    ends_as_run: bool
    retry_delay: float | None
    max_retry_delay: float
    steps: tuple[float, ...]
    retry_unlisted: bool
    retry_internal_errors: bool
    timeout: float | None
    default_timeout: float | None
    queue_timeout: float | None
    max_heartbeat_interval: float | None
    deadline_covers: Literal["task", "start"]
    deadline_required: bool
    deadline_max: float | None
    lease: float
    on_shutdown: Literal["stop", "resubmit", "retry", "continue"]
    shutdown_grace: float
    cancel_grace: float
    on_lost: Literal["retry", "stall"]
    on_silence: Literal["stall", "retry"]
    on_unknown: Literal["wait", "retry", "drop", "fail"]
    on_dependency_failure: Literal["unreachable", "wait"]
    on_missing_parent: Literal["refuse", "unreachable"]
    on_invalid: Literal["refuse", "record"]
    dead_letter: Literal["save", "none"]
    dead_letter_retention: float | None
    retention: float | dict[str, float | None] | None
    discard_states: tuple[str, ...]
    expires: float | None
    expires_after_deadline: float | None
    unique_states: tuple[str, ...]
    unique_period: float | None
    max_concurrent: int | None


class PolicyOptions(PlainOptions, total=False):
    """One layer of a policy: the same names as `Policy`, each of them optional.

    Example:
        from andon.model.policy import PolicyOptions

        patient = PolicyOptions(max_retries=10, retry_delay=60, backoff="linear")
        await charge.options(**patient).submit(7, 990)
    """

    backoff: Backoff | str  #: how the delay grows
    retry_on: tuple[str, ...]  #: error codes or type names; when not empty, only these
    no_retry_on: tuple[str, ...]  #: error codes or type names never retried; wins
