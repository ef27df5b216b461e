"""How a task is retried, timed, kept and given up: the rules a task carries with it. Pure data.

A `Policy` is resolved once, at submit, from four layers (submission over task type over queue over
profile, R5) and stored with the task, so that what was promised at submit holds even after a
deploy changes the defaults. `PolicyOptions` is one such layer: only what somebody set.

All durations are seconds; `None` means "no limit" unless a field says otherwise.
"""

from enum import StrEnum
from typing import Literal, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

DAY = 86_400.0


class Backoff(StrEnum):
    """How the delay before retry n grows; formulas in `andon.lifecycle.delays` (R16)."""

    CONSTANT = "constant"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    EXPONENTIAL_JITTER = "exponential_jitter"
    POLYNOMIAL = "polynomial"
    STEPS = "steps"
    CUSTOM = "custom"  #: a function in the worker; a lost run falls back to `retry_delay`


class Retention(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds each terminal state is kept: 0 discards after the event, None keeps for ever.

    A state that is not set is kept as `failed` is (R21).
    """

    completed: float | None = DAY
    failed: float | None = 90 * DAY
    cancelled: float | UnsetType | None = UNSET
    stalled: float | UnsetType | None = UNSET
    dropped: float | UnsetType | None = UNSET
    expired: float | UnsetType | None = UNSET
    unreachable: float | UnsetType | None = UNSET

    def of(self, state: str) -> float | None:
        """Seconds that this terminal state is kept."""
        seconds = getattr(self, state)
        return self.failed if seconds is UNSET else seconds


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The resolved rules of one task. The defaults here are the native profile's."""

    max_retries: int = 3  #: at most this many runs after the first count against the budget
    retry_delay: float | None = 5.0  #: base delay; None retries at once, 0 goes through `retry`
    backoff: Backoff = Backoff.EXPONENTIAL_JITTER
    max_retry_delay: float = 3600.0  #: every computed delay is clamped to this
    steps: tuple[float, ...] = ()  #: table for `steps`; empty means Choria's `10m` table
    retry_on: tuple[str, ...] = ()  #: error codes or type names; when not empty, only these
    no_retry_on: tuple[str, ...] = ()  #: error codes or type names never retried; wins
    retry_unlisted: bool = True  #: whether an error in neither list is retried
    retry_internal_errors: bool = True  #: whether a died child process counts as a try
    timeout: float | None = None  #: one run, from its claim
    default_timeout: float | None = None  #: timeout when neither timeout nor deadline is given
    queue_timeout: float | None = None  #: time in `pending`, from each entry (R17)
    max_heartbeat_interval: float | None = None  #: silence longer than this is a stall
    deadline_covers: Literal["task", "start"] = "task"
    deadline_required: bool = False
    deadline_max: float | None = None  #: how far ahead a deadline may lie
    lease: float = 30.0  #: a run unheard of for this long is lost
    on_shutdown: Literal["stop", "resubmit", "retry", "continue"] = "resubmit"
    shutdown_grace: float = 30.0
    cancel_grace: float = 10.0  #: how long a told handler may go on before it is abandoned (R7)
    on_lost: Literal["retry", "stall"] = "retry"
    on_silence: Literal["stall", "retry"] = "stall"
    on_unknown: Literal["wait", "retry", "drop", "fail"] = "wait"  #: no code for the task (R32)
    on_dependency_failure: Literal["unreachable", "wait"] = "unreachable"
    on_missing_parent: Literal["refuse", "unreachable"] = "refuse"  #: no such task (R34)
    on_invalid: Literal["refuse", "record"] = "refuse"
    dead_letter: Literal["save", "none"] = "save"
    dead_letter_retention: float | None = 90 * DAY  #: how long a dead letter is kept
    retention: Retention = Retention()
    discard_states: tuple[str, ...] = ()  #: terminal states discarded at once
    expires: float | None = None  #: record goes this long after creation at the latest
    expires_after_deadline: float | None = None  #: same, counted from the deadline
    unique_states: tuple[str, ...] = (
        "blocked",
        "scheduled",
        "pending",
        "active",
        "retry",
    )  #: states in which a unique key holds
    unique_period: float | None = None  #: the key is free this long after creation at the latest
    max_concurrent: int | None = None  #: runs of this type at once in one worker


class PlainOptions(TypedDict, total=False):
    """Options that mean the same wherever they are given, in the code or in the store."""

    retry: str  #: name of a retry policy in the store; what stands beside it wins over it
    max_retries: int
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
    """One layer of a policy: the same names as `Policy`, each of them optional."""

    backoff: Backoff | str
    retry_on: tuple[str, ...]
    no_retry_on: tuple[str, ...]
