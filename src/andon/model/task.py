"""The record of one task, in the four parts that a store keeps apart (docs/store-contract.md, "What
a task is made of"):

- `Definition`: what was submitted. Written once.
- `Status`: where the task stands. Written by moves, cancel requests and edits; the only part with
  a revision.
- `RunCell`: the lease, heartbeat and progress of the run in hand. Written by renewals, guarded by
  the run id; no revision, no event; the last write wins.
- `result`: encoded JSON, written once per run.

All times are integers, milliseconds since 1970 UTC by the store's clock. Instances are values:
nothing here is changed in place. So no cycle can be made of them, and the collector need not look
at them (`gc=False`): with some ten thousand alive, looking was a tenth of the cost of a task.
"""

from typing import Any, Literal

import msgspec

from andon.model.policy import Policy
from andon.model.recurrence import Recurrence
from andon.model.words import Event, Reason, State

RECORD_VERSION = 1
"""Version of the stored form. A store refuses writers older than its `min_writer`."""

MAX_RUNS_KEPT = 50
"""A record keeps its newest runs; older ones are counted in `Status.runs_dropped`."""

MAX_EVENTS_KEPT = 16
"""A status carries its newest events; `Store.history` has them all (docs/rulings.md, R12)."""


class TaskError(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What went wrong in a run, safe to store and to show.

    Example:
        handle = await charge.options(max_retries=0).submit(7, -1)
        await handle.watch().__anext__()
        error = (await handle.get()).error
        if error is not None:
            print(error.code, error.message, error.traceback)
    """

    message: str  #: the exception's message
    code: str = "ERROR"
    """The exception's `code`, TIMEOUT, NETWORK_ERROR, … or its class (docs/rulings.md, R23)."""
    type: str = ""  #: qualified exception type, where there was one
    traceback: str = ""  #: newest frames, bounded by the worker


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One attempt. Opened by a move into `pending`, started by a claim, resolved by a report."""

    number: int
    created_reason: Reason
    scheduled_at: int
    id: str = ""  #: random; knowing it means holding the run. Empty until claimed
    worker: str = ""
    claimed_at: int | None = None
    fence: int = 0
    lease_until: int | None = None  #: as last known when the run was resolved
    resolved_at: int | None = None
    resolved_reason: Reason | None = None
    resolved_event: Event | None = None
    error: TaskError | None = None
    report: str = ""
    """Fingerprint of the report that resolved it, to recognise a repeat (docs/rulings.md, R33)."""


class TaskEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One move of one task, written in the same atomic step as the move."""

    revision: int
    at: int
    event: Event
    source: State | None  #: None for submit
    target: State | None  #: None for delete
    reason: Reason | None = None
    run: int | None = None
    """Number of the run that the move opens, if it opens one; else of the one it concerns.
    Reason, worker and error are always those of the run that the move resolves."""
    worker: str = ""
    write_id: str = ""
    """Unique per intended write of a task; a repeat of it is recognised (docs/rulings.md, R31).
    Tasks submitted in one call, or one by one within a millisecond, may share it."""
    error: TaskError | None = None
    task: str = ""  #: task id; set in the event log, left out inside the record
    result: bytes | None = None
    """Only when the task is discarded with its end (docs/rulings.md, R9)."""
    actor: str = ""  #: the actor who made it by hand, if one was named (`andon.acting_as`)
    priority: tuple[int, int] | None = None  #: before and after, of a move that changes it


class OnHeld(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a submission does if its unique key is held, other than to be refused."""

    way: Literal["supersede", "extend"] = "supersede"
    active: bool = False  #: ask a holder that is active to cancel, too
    max_delay: int | None = None
    """How long the start may be put off at the most, in ms from `since`."""
    since: int | None = None  #: when the first was submitted that was put off, ms UTC
    order: int | None = None  #: the place in line that it has taken over


class Definition(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What was submitted. `digest` is the hash over what the caller gave (docs/rulings.md, R26)."""

    id: str
    name: str
    queue: str = "default"
    version: int = 0
    priority: int = 0
    args: bytes = b"{}"  #: JSON: an object (keywords), an array (positions), or one value
    policy: Policy = Policy()
    policy_given: dict[str, Any] = {}
    """The submission's own `PolicyOptions`, for docs/rulings.md, R5."""
    type_known: bool = True  #: whether the task type's layer is in `policy` already
    dependencies: tuple[str, ...] = ()
    requires: Literal["all-completed", "all-resolved"] = "all-completed"
    load_dependencies: bool = False
    run_at: int | None = None  #: start time wished for
    deadline: int | None = None
    expires_at: int | None = None
    unique_key: str | None = None
    key: str | None = None  #: concurrency key, for `max_concurrent_per_key`
    group: str | None = None
    scopes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    digest: str = ""
    profile: str = "native"
    v: int = RECORD_VERSION
    predecessor: str = ""  #: id of the task that this one replaces
    bearer: str = ""  #: id of the task whose move bore this one (docs/rulings.md, R38)
    on_held: OnHeld | None = None  #: None: it is refused where its unique key is held
    needs: int | None = None  #: how many dependencies must end as `requires` says; None: all


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What makes a record a schedule: when it fires, what it bears then, and how far it has come
    (docs/rulings.md, R39). Its id is its name."""

    recurrence: Recurrence  #: when it fires
    template: Definition
    """The definition of each occurrence, without id, deadline and the effects of the overlap
    rule."""
    deadline_in: float | None = None  #: seconds that an occurrence has from its submit to its end
    overlap: Literal["allow", "skip", "queue", "replace"] = "allow"
    """What becomes of an occurrence while the one before it has not ended."""
    pause_after: int | None = None  #: so many failures in a row pause it
    application: str = ""  #: whose code declares it; empty if it was made by hand
    release: str = ""  #: of that application, when it declared it last
    declared: str = ""  #: hash over the code's declaration, to see whether it is new
    after: int = 0  #: all times up to this one are dealt with, ms UTC
    fired: int = 0  #: occurrences so far, which the recurrence's `count` bounds
    next_due: int | None = None  #: when it fires next, ms UTC, jitter and all; None once it ended
    last_id: str = ""  #: id of the newest occurrence
    failures: int = 0  #: occurrences in a row that failed
    paused_at: int | None = None  #: since when it is paused, ms UTC


class Added(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one run added to what a task waits for (`lifecycle.joins`)."""

    bearer: str  #: id of the run's task, for which the task waits, too
    run: str  #: id of the run; if it did not complete, this counts for nothing
    fence: int  #: of the run: a later one of its task adds in place of this
    tasks: tuple[str, ...]  #: ids of its follow-ups, which may not be stored yet


class Status(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Where a task stands. Built by `andon.lifecycle`, replaced whole by every move."""

    state: State
    created_at: int
    revision: int = 0
    reason: Reason | None = None
    priority: int = 0
    order: int = 0  #: place among equals: ms of the first submit, kept by a release
    tries: int = 0  #: resolved runs that count against the budget
    fence: int = 0  #: of the newest run; only grows
    run: str = ""  #: id of the run in hand; empty unless active
    worker: str = ""  #: holder of the run in hand
    submitted_at: int | None = None
    run_at: int | None = None
    started_at: int | None = None
    retried_at: int | None = None
    heartbeat_at: int | None = None
    finished_at: int | None = None
    deadline: int | None = None
    expires_at: int | None = None
    cancel_requested_at: int | None = None
    rerun_by_hand: bool = False  #: choria shows such a task as `retry`
    progress: int = 0  #: percent, as kept at the end of a run
    progress_message: str = ""
    last_error: TaskError | None = None
    runs: tuple[Run, ...] = ()
    runs_dropped: int = 0
    events: tuple[TaskEvent, ...] = ()
    policy: Policy | None = None
    """Set when the first claim filled in the type's layer (docs/rulings.md, R5)."""
    successor: str = ""
    """Id of the task that replaces this one: its arguments were edited, or it was superseded."""
    owed: bytes | None = None  #: the successor's arguments, until it is stored
    owes: tuple[Definition, ...] = ()
    """Tasks that the last move bore, until they are stored (docs/rulings.md, R38)."""
    schedule: Schedule | None = None  #: only schedules have one, and keep it after their end
    added: tuple[Added, ...] = ()
    """What it waits for beside the dependencies that it was submitted with."""
    extra: dict[str, msgspec.Raw] = {}  #: fields of newer writers, kept as they are


class RunCell(msgspec.Struct, kw_only=True, gc=False):
    """The renewable part of the run in hand."""

    run: str
    lease_until: int
    heartbeat_at: int
    progress: int = 0
    message: str = ""


class Task(msgspec.Struct, kw_only=True, eq=False, gc=False):
    """One task, its four parts together. `cell` is there only while a run is in hand."""

    definition: Definition
    status: Status
    cell: RunCell | None = None
    result: bytes | None = None
    ref: int = 0  #: the store's own key for the record, opaque; 0 if it has none

    def __eq__(self, other: object) -> bool:
        """Equal if the four parts are; where a store keeps them makes no difference."""
        if not isinstance(other, Task):
            return NotImplemented
        return (self.definition, self.status, self.cell, self.result) == (
            other.definition,
            other.status,
            other.cell,
            other.result,
        )

    def __ne__(self, other: object) -> bool:
        """Not equal: a struct without equality of its own would ask whether it is the same one."""
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # a record changes with every move

    @property
    def id(self) -> str:
        """The task's id, for life."""
        return self.definition.id

    @property
    def state(self) -> State:
        """The state the task is in."""
        return self.status.state

    @property
    def policy(self) -> Policy:
        """The rules in force: those the first claim filled in, else those resolved at submit."""
        return self.status.policy or self.definition.policy


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """What a store writes when it claims: fixed fields, no rule of the lifecycle (docs/rulings.md,
    R4)."""

    run: str
    fence: int
    worker: str
    token: str
    at: int
    lease_until: int


class Tombstone(msgspec.Struct, frozen=True, gc=False):
    """The tombstone of a deleted task, kept for the submit window (docs/rulings.md, R31)."""

    state: State  #: in which it ended
    run: str = ""  #: id of its last run; empty if it had none
    report: str = ""  #: fingerprint of the report that resolved that run (docs/rulings.md, R33)
