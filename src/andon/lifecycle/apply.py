"""Makes a move: `apply(task, command, …)` returns the new status and its event, or refuses.

Pure: no clock, no I/O, no randomness except what is passed in; the given task is not changed. The
store writes the result in one atomic step, guarded by the revision that was decided on.

`stamped` is the one move made inside a store (claim): it turns a record and the fixed stamp the
store wrote into the same record after the claim, so that every reader gets the same record.
"""

import msgspec
from msgspec.structs import astuple, replace

from andon.lifecycle.births import check_paid, owed_ids, owes
from andon.lifecycle.commands import Command, Complete, Edit, Extend, Reprioritise, Rerun
from andon.lifecycle.decide import DECIDE, cancelled
from andon.lifecycle.delays import Random
from andon.lifecycle.joins import extended
from andon.lifecycle.moves import ENDS_AS_RUN, ONLY_CANCELLED, TARGETS
from andon.lifecycle.outcome import Outcome
from andon.lifecycle.repeats import fingerprint
from andon.model.errors import InvalidTransition
from andon.model.policy import Policy
from andon.model.task import (
    MAX_EVENTS_KEPT,
    MAX_RUNS_KEPT,
    Run,
    RunCell,
    Stamp,
    Status,
    Task,
    TaskEvent,
)
from andon.model.words import DEAD_LETTER_STATES, TERMINAL, Event, Reason, State

_PENDING, _ACTIVE, _COMPLETED, _RETRY = State.PENDING, State.ACTIVE, State.COMPLETED, State.RETRY
_CLAIM, _COMPLETE, _RERUN, _RUN_NOW = Event.CLAIM, Event.COMPLETE, Event.RERUN, Event.RUN_NOW
_DELIVER = Event.DELIVER
_RECURRING, _UNREACHABLE = State.RECURRING, State.UNREACHABLE
_ARCHIVED, _SUPERSEDED = Reason.ARCHIVED_BY_HAND, Reason.SUPERSEDED
"""The enum members that every run needs: a tenth of a microsecond less for each, see
`admission`."""


class Moved(msgspec.Struct, frozen=True, gc=False):
    """What a move writes. `status` None is a deletion. `result` counts only if `sets_result`."""

    status: Status | None
    event: TaskEvent
    result: bytes | None = None
    sets_result: bool = False
    discard: TaskEvent | None = None
    """The delete event to write right after, when the policy discards this end at once."""


def apply(task: Task, command: Command, *, now: int, random: Random, write_id: str = "") -> Moved:
    """The move that `command` makes on `task` at `now` (ms UTC).

    `now` is the store's clock as a process knows it, off by a moment at most; a move is never dated
    before the one that it follows.

    Raises `InvalidTransition` when the table of moves has no such move; nothing is changed then.
    """
    status = task.status
    if status.events and status.events[-1].at > now:
        now = status.events[-1].at
    source, event = status.state, command.event
    asked = source is _ACTIVE and status.cancel_requested_at is not None
    targets = TARGETS.get((event, source, asked))
    if targets is None:
        raise InvalidTransition(task.id, event, source, _hint(event, source))
    if status.owes or status.owed is not None:
        check_paid(task, event)
    forced = asked and targets == ONLY_CANCELLED and event is not Event.CANCEL
    outcome = cancelled(command) if forced else DECIDE[event](task, command, now, random)
    if outcome.state not in targets:
        raise AssertionError(f"{event} from {source} decided {outcome.state}: not in the table")
    if outcome.state is None:
        gone = TaskEvent(
            status.revision + 1, now, event, source, None, outcome.reason, None, "", write_id
        )
        return Moved(None, gone)
    return _write(task, command, outcome, now=now, write_id=write_id)


def _write(task: Task, command: Command, outcome: Outcome, *, now: int, write_id: str) -> Moved:
    status = task.status
    source, target, event = status.state, outcome.state, command.event
    assert target is not None
    ends = target in TERMINAL
    if source is _ACTIVE and source is not target:
        new = _left_active(task, target, command, outcome, now)
    else:
        new = _moved(task, target, command, outcome, now)
    if outcome.error is not None and event is not _DELIVER:  # it is no error of the task itself
        new.last_error = outcome.error
    if source is not target:
        _enter(new, target, outcome, now)
    if outcome.births:
        new.owes = outcome.births
        if outcome.reason is _SUPERSEDED:
            (new.successor,) = owed_ids(new)

    runs = new.runs
    written = TaskEvent(
        new.revision,
        now,
        event,
        source,
        target,
        outcome.resolution if source is _ACTIVE and outcome.resolution else outcome.reason,
        runs[-1].number if runs else None,
        status.worker,
        write_id,
        outcome.error,
    )
    if source is target and new.priority != status.priority:
        written = replace(written, priority=(status.priority, new.priority))
    new.events = (*status.events, written)[-MAX_EVENTS_KEPT:]
    result = command.result if isinstance(command, Complete) else None
    discard = None
    if ends and kept_for(task, new) == 0 and not owes(new):
        # Its debt has kept the record till now, and with it the result that the event carries.
        discard = _discarded(new, task.result if event is _DELIVER else result, now)
    return Moved(new, written, result, event is _COMPLETE or event is _RERUN, discard)


def _moved(task: Task, target: State, command: Command, outcome: Outcome, now: int) -> Status:
    """The status after a move that does not take the run in hand from its worker."""
    status = task.status
    source, event = status.state, command.event
    new = replace(status, state=target, revision=status.revision + 1, reason=outcome.reason)
    if source is target:
        _edit(new, command, outcome, now)
    elif source in TERMINAL or event is _RERUN:
        _leave_terminal(new, task.policy, command)
    else:
        _stop_waiting(new, task, command, outcome, now)
    if outcome.schedule is not None:
        new.schedule = outcome.schedule
    if event is _RUN_NOW and target is _PENDING:
        new.rerun_by_hand = True
    elif isinstance(command, Edit):
        new.successor, new.owed = command.successor, command.args
    return new


def _enter(new: Status, target: State, outcome: Outcome, now: int) -> None:
    if target is _PENDING:
        _enter_pending(new, outcome, now)
    elif target in TERMINAL:
        new.finished_at = now
        if target is _COMPLETED and new.schedule is None:
            new.progress = 100
    elif target is State.SCHEDULED or target is _RETRY:
        new.run_at = outcome.run_at
        new.progress = 0
        new.progress_message = ""


def _stop_waiting(new: Status, task: Task, command: Command, outcome: Outcome, now: int) -> None:
    """Resolve a run that no worker claimed. An end without such a run gets one, if the policy says
    so (docs/rulings.md, R42)."""
    source = task.status.state
    if source is _PENDING:
        _resolve_run(new, command, outcome, now)
    elif (
        task.policy.ends_as_run
        and source in ENDS_AS_RUN
        and new.state in TERMINAL
        and new.state is not _UNREACHABLE
    ):
        _open_run(new, outcome.reason, now)
        _resolve_run(new, command, outcome, now)


def _edit(new: Status, command: Command, outcome: Outcome, now: int) -> None:
    """Moves that stay in their state: a cancel request, a new start time, a new priority, further
    dependencies, the note that the debt is stored."""
    if command.event is Event.REQUEST_CANCEL:
        new.cancel_requested_at = now
    elif command.event is Event.RESCHEDULE:
        new.run_at = outcome.run_at
    elif isinstance(command, Reprioritise):
        new.priority = command.priority
    elif isinstance(command, Extend):
        new.added = extended(new.added, command.added)
    elif command.event is _DELIVER:
        new.owed, new.owes = None, ()


def _left_active(task: Task, target: State, command: Command, outcome: Outcome, now: int) -> Status:
    """The status with the run in hand resolved."""
    status, cell = task.status, task.cell
    if cell is None:
        progress, message = status.progress, status.progress_message
        heartbeat_at, lease_until = status.heartbeat_at, None
    else:
        progress, message = cell.progress, cell.message
        heartbeat_at, lease_until = cell.heartbeat_at, cell.lease_until
    if target is _RETRY or target is _PENDING:
        progress, message = 0, ""
    runs = status.runs
    if runs:
        runs = (*runs[:-1], _resolved(runs[-1], command, outcome, now, lease_until))
    # All fields in one call, not one after the other: it takes half the time, and every run passes
    # here.
    return replace(
        status,
        state=target,
        revision=status.revision + 1,
        reason=outcome.reason,
        tries=status.tries + outcome.counts,
        run="",
        worker="",
        heartbeat_at=heartbeat_at,
        progress=progress,
        progress_message=message,
        runs=runs,
    )


def _leave_terminal(new: Status, policy: Policy, command: Command) -> None:
    new.finished_at = None
    new.cancel_requested_at = None
    new.progress = 0
    new.progress_message = ""
    new.run_at = None
    new.rerun_by_hand = True
    if isinstance(command, Rerun):
        if command.deadline is not None:
            new.deadline = command.deadline
            kept = policy.expires_after_deadline
            if kept is not None:
                new.expires_at = command.deadline + round(kept * 1000)
        if not command.keep_budget:
            new.tries = 0


def _enter_pending(new: Status, outcome: Outcome, now: int) -> None:
    new.submitted_at = now
    new.run_at = None
    if not outcome.keeps_place:
        new.order = now
    _open_run(new, outcome.opened or Reason.SUBMITTED, now)


def _open_run(new: Status, why: Reason | None, now: int) -> None:
    assert why is not None
    number = new.runs[-1].number + 1 if new.runs else 0
    runs = (*new.runs, Run(number, why, now))
    excess = len(runs) - MAX_RUNS_KEPT
    if excess > 0:
        runs = runs[excess:]
        new.runs_dropped += excess
    new.runs = runs


def _resolve_run(new: Status, command: Command, outcome: Outcome, now: int) -> None:
    if new.runs:
        new.runs = (*new.runs[:-1], _resolved(new.runs[-1], command, outcome, now, None))


def _resolved(
    run: Run, command: Command, outcome: Outcome, now: int, lease_until: int | None
) -> Run:
    """A run as the move leaves it."""
    return Run(
        run.number,
        run.created_reason,
        run.scheduled_at,
        run.id,
        run.worker,
        run.claimed_at,
        run.fence,
        lease_until if lease_until is not None else run.lease_until,
        now,
        outcome.resolution or outcome.reason,
        command.event,
        outcome.error,
        fingerprint(command),
    )


def kept_for(task: Task, status: Status) -> int | None:
    """For how many milliseconds the record is kept after its end; None: for ever; 0: it is
    discarded (docs/rulings.md, R21)."""
    policy = status.policy or task.definition.policy
    state = status.state
    if state in policy.discard_states and status.reason is not _ARCHIVED:
        return 0
    if state is _RECURRING:
        return None
    if state in DEAD_LETTER_STATES and is_dead_letter(task, status):
        seconds = policy.dead_letter_retention
    else:
        seconds = policy.retention.of(state)
    return None if seconds is None else round(seconds * 1000)


def may_be_discarded(task: Task) -> bool:
    """Whether the record may be deleted with the task's end: its policy says so for some end, or
    the first claim has yet to fill in the policy (docs/rulings.md, R5, R21)."""
    if task.status.policy is None and not task.definition.type_known:
        return True
    policy = task.policy
    # A state without a retention has that of `failed`, which is among these.
    kept = (policy.dead_letter_retention, *astuple(policy.retention))
    return bool(policy.discard_states) or 0 in kept


def is_dead_letter(task: Task, status: Status) -> bool:
    """Whether this end is kept as a dead letter (docs/rulings.md, R21): by policy, or because a
    person asked for it."""
    if status.state not in DEAD_LETTER_STATES:
        return False
    if status.reason is _ARCHIVED:
        return True
    return (status.policy or task.definition.policy).dead_letter == "save"


def _discarded(new: Status, result: bytes | None, now: int) -> TaskEvent:
    """The event by which a record is deleted with its end."""
    return TaskEvent(
        new.revision + 1,
        now,
        Event.DELETE,
        new.state,
        None,
        Reason.DISCARDED,
        new.runs[-1].number if new.runs else None,
        result=result,
    )


def claim_event(status: Status, stamp: Stamp) -> TaskEvent:
    """The event of the claim that `stamp` describes, on the status it was written over."""
    return TaskEvent(
        status.revision + 1,
        stamp.at,
        _CLAIM,
        _PENDING,
        _ACTIVE,
        None,
        status.runs[-1].number,
        stamp.worker,
        stamp.run,
    )


def stamped(task: Task, stamp: Stamp, cell: RunCell | None = None) -> Task:
    """The record after the claim that `stamp` describes; `cell` if it was renewed since."""
    status = task.status
    at, run = stamp.at, stamp.run
    is_first = status.started_at is None
    old = status.runs[-1]
    held = Run(old.number, old.created_reason, old.scheduled_at, run, stamp.worker, at, stamp.fence)
    new = replace(
        status,
        state=_ACTIVE,
        revision=status.revision + 1,
        reason=None,
        run=run,
        worker=stamp.worker,
        fence=stamp.fence,
        started_at=at if is_first else status.started_at,
        retried_at=status.retried_at if is_first else at,
        heartbeat_at=at,
        runs=(*status.runs[:-1], held),
        events=(*status.events, claim_event(status, stamp))[-MAX_EVENTS_KEPT:],
    )
    if cell is None:
        cell = RunCell(run=run, lease_until=stamp.lease_until, heartbeat_at=at)
    return Task(definition=task.definition, status=new, cell=cell, result=task.result, ref=task.ref)


def next_fence(last: int, now: int) -> int:
    """The fence of the next run: it grows across reruns, failovers and reused ids (docs/rulings.md,
    R3)."""
    return max(last + 1, now)


def set_aside(status_revision: int, source: State | None, now: int, write_id: str) -> TaskEvent:
    """The event by which a record that does not decode is taken out of all queues (docs/rulings.md,
    R28)."""
    return TaskEvent(
        status_revision + 1,
        now,
        Event.SET_ASIDE,
        source,
        State.UNKNOWN,
        Reason.UNDECODABLE,
        write_id=write_id,
    )


_HINTS: dict[tuple[Event, State], str] = {
    (Event.RERUN, State.ACTIVE): "It is running; cancel it first.",
    (Event.ARCHIVE, State.ACTIVE): "It is running; cancel it first.",
    (Event.RERUN, State.PENDING): "It is about to run anyway.",
    (Event.DELETE, State.ACTIVE): "Cancel it first.",
    (Event.DELETE, State.PENDING): "Cancel it first.",
    (Event.RUN_NOW, State.PENDING): "It may be claimed already.",
}


def _hint(event: Event, source: State) -> str:
    if source is State.UNKNOWN and event is not Event.DELETE:
        return "Its record does not decode; it can only be deleted."
    if event is Event.EDIT and source in (State.ACTIVE, _RETRY):
        return "It has begun; cancel it, and submit another."
    if event is Event.EXTEND:
        how = "has ended" if source in TERMINAL else "waits for nothing any more"
        return f"It {how}; give the follow-up no join, or one that is blocked."
    if event is Event.DELETE and source not in TERMINAL:
        return "Cancel it first."
    if source in TERMINAL and event is not Event.RERUN:
        return "It has ended; rerun it to start it again."
    return _HINTS.get((event, source), "")
