"""The six profiles as data: the defaults of each system, and the names under which it shows things.

A profile never changes what a task does beyond its policy: the table of moves is the same for all.
`defaults` is the weakest layer of `policies.resolve`; the names are read by `rendering`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from andon.model.errors import ConfigurationError
from andon.model.policy import DAY, WHILE_UNFINISHED, Backoff, PolicyOptions
from andon.model.words import Event, Reason, State

HOUR = 3600.0


class When(StrEnum):
    """What a name may depend on, beyond the state and its reason."""

    ALWAYS = "always"
    HAS_RUN = "once a run has started"
    HAS_RUNS = "once a run was opened"
    RERUN = "after a rerun or run-now by hand"
    HAS_DEPENDENCIES = "with dependencies"


class As(NamedTuple):
    """One name of a state. The first of a state's names whose conditions hold is the one shown."""

    name: str
    when: When = When.ALWAYS
    reasons: frozenset[Reason] = frozenset()  #: when not empty, only for these


class Shows(NamedTuple):
    """The names a move is shown as, where the name of the state it enters would not do."""

    sources: frozenset[State]
    targets: frozenset[State]
    names: tuple[str, ...]
    but: frozenset[Event] = frozenset()  #: events to which the row does not apply


class Recurs(NamedTuple):
    """The schedules of a system that has its own, in terms of Andon's rules."""

    called: str  #: what it calls a schedule
    catch_up: str  #: what it does after an outage, by the rule that does so here
    overlaps: Mapping[str, str]  #: rules it knows for what overlaps, and its words for them
    differs: str  #: what is otherwise here


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A set of defaults and names under which Andon behaves as one system."""

    name: str
    defaults: Mapping[str, Any]
    """The weakest layer of a task's policy; the fields are those of `PolicyOptions`."""
    dead_letter_limit: int | None = None
    """Most dead letters of one queue, where the system bounds their number (docs/rulings.md,
    R21)."""
    max_args: int = 0
    """Bytes of arguments that a task may have where the system takes more than an application
    does. What is larger than the store can hold is refused by the store."""
    states: Mapping[State, tuple[As, ...]]
    """Each state's names; a state that is missing has none there, and keeps Andon's own."""
    born: str = ""
    """The name every task begins with, shown before the state that its submit enters."""
    moves: tuple[Shows, ...] = ()
    recurs: Recurs | None = None
    """Its schedules; None: it has none, and they are shown natively."""


_NO_CLAMP = 3650 * DAY
"""asynq does not clamp its delays. A finite number, because JSON has no infinity."""

_JOBBERS = PolicyOptions(
    max_retries=3,
    retry_delay=None,
    backoff=Backoff.EXPONENTIAL,
    max_retry_delay=HOUR,
    retry_unlisted=False,
    on_shutdown="stop",
    shutdown_grace=0.0,
    on_unknown="drop",
    max_concurrent=1,
    dead_letter="none",
    retention={
        "completed": 7 * DAY,
        "failed": 0.0,
        # its page discards failed tasks only; these would otherwise be discarded like `failed`
        # (docs/rulings.md, R21), and a caller that waits for one that never ran would not find it
        "cancelled": 7 * DAY,
        "stalled": 7 * DAY,
        "dropped": 7 * DAY,
        "expired": 7 * DAY,
        "unreachable": 7 * DAY,
    },
)

_ASYNQ = PolicyOptions(
    max_retries=25,
    backoff=Backoff.POLYNOMIAL,
    max_retry_delay=_NO_CLAMP,
    default_timeout=1800.0,
    shutdown_grace=8.0,
    on_unknown="retry",
    dead_letter="save",
    dead_letter_retention=90 * DAY,
    retention={"completed": 0.0, "failed": 90 * DAY},
    # a lock is released by success or a deletion, and when its lifetime (unique_period) is over
    unique_states=(
        *WHILE_UNFINISHED,
        "failed",
        "cancelled",
        "stalled",
        "dropped",
        "expired",
        "unreachable",
    ),
)

_CBINTEL = PolicyOptions(
    max_retries=3,
    retry_delay=30.0,
    backoff=Backoff.EXPONENTIAL,
    max_retry_delay=HOUR,
    retry_on=("TIMEOUT", "NETWORK_ERROR"),
    no_retry_on=("VALIDATION_ERROR",),
    timeout=HOUR,
    queue_timeout=2 * HOUR,
    on_unknown="fail",
    on_invalid="record",
    dead_letter="none",
    retention=7 * DAY,
)

_CHORIA = PolicyOptions(
    max_retries=9,
    backoff=Backoff.STEPS,
    timeout=HOUR,
    deadline_covers="start",
    on_unknown="retry",
    on_missing_parent="unreachable",
    dead_letter="none",
    retention=None,
)

_TASKCLUSTER = PolicyOptions(
    max_retries=5,
    max_runs=50,
    ends_as_run=True,
    retry_delay=None,
    retry_unlisted=False,
    retry_internal_errors=False,
    no_retry_on=("TIMEOUT",),
    deadline_required=True,
    deadline_max=5 * DAY,
    expires_after_deadline=365 * DAY,
    on_shutdown="retry",
    on_dependency_failure="wait",
    lease=1200.0,
    dead_letter="none",
    retention=None,
)


def _named(**names: str | tuple[As, ...]) -> dict[State, tuple[As, ...]]:
    return {
        State(state): (As(name),) if isinstance(name, str) else name
        for state, name in names.items()
    }


_FROM_ACTIVE = frozenset({State.ACTIVE})
_TO_PENDING = frozenset({State.PENDING})

NATIVE = Profile(name="native", defaults={}, states={state: (As(state.value),) for state in State})

JOBBERS = Profile(
    name="jobbers",
    defaults=_JOBBERS,
    states=_named(
        unsubmitted="unsubmitted",
        blocked="unsubmitted",
        scheduled="scheduled",
        pending="submitted",
        active="started",
        retry="scheduled",
        recurring="scheduled",
        completed="completed",
        failed="failed",
        cancelled="cancelled",
        stalled="stalled",
        dropped="dropped",
        expired="failed",
        unreachable="failed",
        unknown="failed",
    ),
    born="unsubmitted",
    moves=(Shows(_FROM_ACTIVE, _TO_PENDING, ("unsubmitted", "submitted")),),
    recurs=Recurs(
        "cron DAG",
        "all",
        {"allow": "always", "skip": "skip_if_running"},
        "`skip_if_running` looks at tasks that are submitted or started there, here at all that "
        "have not ended",
    ),
)

ASYNQ = Profile(
    name="asynq",
    defaults=_ASYNQ,
    dead_letter_limit=10_000,
    states=_named(
        blocked="scheduled",
        scheduled="scheduled",
        pending="pending",
        active="active",
        retry="retry",
        recurring="scheduled",
        completed="completed",
        failed="archived",
        cancelled="archived",
        stalled="archived",
        dropped="archived",
        expired="archived",
        unreachable="archived",
        unknown="archived",
    ),
    recurs=Recurs(
        "periodic task",
        "none",
        {"allow": "none"},
        "each of several schedulers fires there, here all of them together once",
    ),
)

CBINTEL = Profile(
    name="cbintel",
    defaults=_CBINTEL,
    states=_named(
        blocked="PENDING",
        scheduled=(As("QUEUED", When.HAS_RUN), As("PENDING")),
        pending="QUEUED",
        active="PROCESSING",
        retry="QUEUED",
        recurring="PENDING",
        completed="COMPLETED",
        failed="FAILED",
        cancelled="CANCELLED",
        stalled="FAILED",
        dropped="FAILED",
        expired="FAILED",
        unreachable="FAILED",
        unknown="FAILED",
    ),
    born="PENDING",
    moves=(
        Shows(_FROM_ACTIVE, _TO_PENDING, ("FAILED", "QUEUED"), frozenset({Event.RELEASE})),
        Shows(_FROM_ACTIVE, frozenset({State.RETRY}), ("FAILED",)),
        # A task in `retry` is shown as QUEUED (docs/rulings.md, R22); its history says so when the
        # delay ends.
        Shows(frozenset({State.RETRY}), _TO_PENDING | {State.SCHEDULED}, ("QUEUED",)),
    ),
)

CHORIA = Profile(
    name="choria",
    defaults=_CHORIA,
    states=_named(
        blocked="blocked",
        scheduled=(As("retry", When.HAS_RUN), As("new")),
        pending=(
            As("retry", When.HAS_RUN),
            As("retry", When.RERUN),
            As("blocked", When.HAS_DEPENDENCIES),
            As("new"),
        ),
        active="active",
        retry="retry",
        recurring="new",
        completed="completed",
        failed="terminated",
        cancelled="terminated",
        stalled="terminated",
        dropped="terminated",
        expired="expired",
        unreachable="unreachable",
        unknown="unknown",
    ),
    recurs=Recurs(
        "scheduled task",
        "none",
        {"allow": "none"},
        "its leader fires there, and what is due while the leader changes is lost; each task has a "
        "random id there, here that of its time",
    ),
)

TASKCLUSTER = Profile(
    name="taskcluster",
    defaults=_TASKCLUSTER,
    max_args=10 * 1024 * 1024,
    states=_named(
        blocked="unscheduled",
        scheduled=(As("pending", When.HAS_RUNS), As("unscheduled")),
        pending="pending",
        active="running",
        retry="pending",
        recurring="unscheduled",
        completed="completed",
        failed=(
            As(
                "exception",
                reasons=frozenset(
                    {
                        Reason.MALFORMED_PAYLOAD,
                        Reason.SIGNATURE_REFUSED,
                        Reason.INTERMITTENT_TASK,
                        Reason.INTERNAL_ERROR,
                        Reason.RESOURCE_UNAVAILABLE,
                        Reason.ARCHIVED_BY_HAND,
                    }
                ),
            ),
            As("failed"),
        ),
        cancelled="exception",
        stalled="exception",
        dropped="exception",
        expired="exception",
        # Never had a run, so to Taskcluster it never left unscheduled.
        unreachable="unscheduled",
        # Taskcluster has no such state; a client that polls for an end must see one.
        unknown="exception",
    ),
    born="unscheduled",
)

PROFILES: dict[str, Profile] = {
    profile.name: profile for profile in (NATIVE, JOBBERS, ASYNQ, CBINTEL, CHORIA, TASKCLUSTER)
}
"""The profiles by name, native first."""


def profile(name: str) -> Profile:
    """The profile of that name; raises `ConfigurationError` naming those there are."""
    found = PROFILES.get(name)
    if found is None:
        known = ", ".join(PROFILES)
        raise ConfigurationError(f"There is no profile {name!r}. Use one of: {known}.")
    return found
