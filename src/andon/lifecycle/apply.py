"""Making a move: `apply(task, command, …)` yields the new status and its event, or refuses.

Pure: no clock, no I/O, no randomness but what is passed in; the task given is not changed. The
store writes what comes out in one atomic step, guarded by the revision that was decided on.

`stamped` is the one move made inside a store (claim): it turns a record and the fixed stamp the
store wrote into the same record after the claim, so that every reader sees one truth.
"""

from copy import copy

import msgspec

from andon.lifecycle.commands import Command, Complete, Reprioritise, Rerun, RunNow
from andon.lifecycle.decide import DECIDE, Outcome, cancelled
from andon.lifecycle.delays import Random
from andon.lifecycle.moves import ONLY_CANCELLED, TARGETS
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


class Moved(msgspec.Struct, frozen=True, gc=False):
    """What a move writes. `status` None is a deletion. `result` is meant only if `sets_result`."""

    status: Status | None
    event: TaskEvent
    result: bytes | None = None
    sets_result: bool = False
    discard: TaskEvent | None = None
    """The delete event to write right after, when the policy discards this end at once."""


def apply(task: Task, command: Command, *, now: int, random: Random, write_id: str = "") -> Moved:
    """The move that `command` makes on `task` at `now` (ms UTC).

    `now` is the store's clock as some process knows it, give or take a moment; a move is never
    dated before the one that it follows.

    Raises `InvalidTransition` when the table of moves has no such move; nothing is changed then.
    """
    status = task.status
    if status.events and status.events[-1].at > now:
        now = status.events[-1].at
    source, event = status.state, command.event
    asked = source is State.ACTIVE and status.cancel_requested_at is not None
    targets = TARGETS.get((event, source, asked))
    if targets is None:
        raise InvalidTransition(task.id, event, source, _hint(event, source))
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
    new = copy(status)
    new.state = target
    new.revision = status.revision + 1
    new.reason = outcome.reason
    if outcome.error is not None:
        new.last_error = outcome.error
    if source is not target:
        _leave(new, task, command, outcome, now)
        _enter(new, target, outcome, now)
    else:
        _edit(new, command, outcome, now)
    if isinstance(command, RunNow):
        new.rerun_by_hand = True

    before = status if target is not State.PENDING else new
    written = TaskEvent(
        new.revision,
        now,
        event,
        source,
        target,
        outcome.resolution if source is State.ACTIVE and outcome.resolution else outcome.reason,
        before.runs[-1].number if before.runs else None,
        status.worker,
        write_id,
        outcome.error,
    )
    new.events = (*status.events, written)[-MAX_EVENTS_KEPT:]
    result = command.result if isinstance(command, Complete) else None
    return Moved(
        new,
        written,
        result,
        event is Event.COMPLETE or event is Event.RERUN,
        _discard(task, new, result, now) if target in TERMINAL else None,
    )


def _leave(new: Status, task: Task, command: Command, outcome: Outcome, now: int) -> None:
    source = task.status.state
    if source is State.ACTIVE:
        _leave_active(new, task, command, outcome, now)
    elif source is State.PENDING:
        _resolve_run(new, command.event, outcome, now)
    elif source in TERMINAL:
        _leave_terminal(new, task.policy, command)


def _enter(new: Status, target: State, outcome: Outcome, now: int) -> None:
    if target is State.PENDING:
        _enter_pending(new, outcome, now)
    elif target in TERMINAL:
        new.finished_at = now
        if target is State.COMPLETED:
            new.progress = 100
    elif target is State.SCHEDULED or target is State.RETRY:
        new.run_at = outcome.run_at
        new.progress = 0
        new.progress_message = ""


def _edit(new: Status, command: Command, outcome: Outcome, now: int) -> None:
    """Moves that stay in their state: a cancel request, a new start time, a new priority."""
    if command.event is Event.REQUEST_CANCEL:
        new.cancel_requested_at = now
    elif command.event is Event.RESCHEDULE:
        new.run_at = outcome.run_at
    elif isinstance(command, Reprioritise):
        new.priority = command.priority


def _leave_active(new: Status, task: Task, command: Command, outcome: Outcome, now: int) -> None:
    cell = task.cell
    if cell is not None:
        new.heartbeat_at = cell.heartbeat_at
        new.progress = cell.progress
        new.progress_message = cell.message
    new.run = ""
    new.worker = ""
    if outcome.counts:
        new.tries += 1
    if outcome.state is State.RETRY or outcome.state is State.PENDING:
        new.progress = 0
        new.progress_message = ""
    _resolve_run(new, command.event, outcome, now, cell.lease_until if cell else None)


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
    number = new.runs[-1].number + 1 if new.runs else 0
    runs = (*new.runs, Run(number, outcome.opened or Reason.SUBMITTED, now))
    excess = len(runs) - MAX_RUNS_KEPT
    if excess > 0:
        runs = runs[excess:]
        new.runs_dropped += excess
    new.runs = runs


def _resolve_run(
    new: Status, event: Event, outcome: Outcome, now: int, lease_until: int | None = None
) -> None:
    if not new.runs:
        return
    old = new.runs[-1]
    done = Run(
        old.number,
        old.created_reason,
        old.scheduled_at,
        old.id,
        old.worker,
        old.claimed_at,
        old.fence,
        lease_until if lease_until is not None else old.lease_until,
        now,
        outcome.resolution or outcome.reason,
        event,
        outcome.error,
    )
    new.runs = (*new.runs[:-1], done)


def kept_for(task: Task, status: Status) -> int | None:
    """Milliseconds the record is kept after its end; None for ever; 0 discards it (R21)."""
    policy = status.policy or task.definition.policy
    state = status.state
    if state in policy.discard_states:
        return 0
    if is_dead_letter(task, status):
        seconds = policy.dead_letter_retention
    else:
        seconds = policy.retention.of(state)
    return None if seconds is None else round(seconds * 1000)


def is_dead_letter(task: Task, status: Status) -> bool:
    """Whether this end is kept as a dead letter (R21)."""
    if status.state not in DEAD_LETTER_STATES:
        return False
    return (status.policy or task.definition.policy).dead_letter == "save"


def _discard(task: Task, new: Status, result: bytes | None, now: int) -> TaskEvent | None:
    if kept_for(task, new) != 0:
        return None
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
        Event.CLAIM,
        State.PENDING,
        State.ACTIVE,
        None,
        status.runs[-1].number,
        stamp.worker,
        stamp.run,
    )


def stamped(task: Task, stamp: Stamp, cell: RunCell | None = None) -> Task:
    """The record after the claim that `stamp` describes; `cell` if it was renewed since."""
    status = task.status
    new = copy(status)
    event = claim_event(status, stamp)
    new.state = State.ACTIVE
    new.revision = event.revision
    new.reason = None
    new.run = stamp.run
    new.worker = stamp.worker
    new.fence = stamp.fence
    if status.started_at is None:
        new.started_at = stamp.at
    else:
        new.retried_at = stamp.at
    new.heartbeat_at = stamp.at
    old = status.runs[-1]
    run = Run(
        old.number,
        old.created_reason,
        old.scheduled_at,
        stamp.run,
        stamp.worker,
        stamp.at,
        stamp.fence,
    )
    new.runs = (*status.runs[:-1], run)
    new.events = (*status.events, event)[-MAX_EVENTS_KEPT:]
    if cell is None:
        cell = RunCell(run=stamp.run, lease_until=stamp.lease_until, heartbeat_at=stamp.at)
    return Task(definition=task.definition, status=new, cell=cell, result=task.result, ref=task.ref)


def next_fence(last: int, now: int) -> int:
    """The fence of the next run: grows across reruns, failovers and reused ids (R3)."""
    return max(last + 1, now)


def set_aside(status_revision: int, source: State | None, now: int, write_id: str) -> TaskEvent:
    """The event by which a record that does not decode is taken out of all queues (R28)."""
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
    (Event.RERUN, State.PENDING): "It is about to run anyway.",
    (Event.DELETE, State.ACTIVE): "Cancel it first.",
    (Event.DELETE, State.PENDING): "Cancel it first.",
    (Event.RUN_NOW, State.PENDING): "It may be claimed already.",
}


def _hint(event: Event, source: State) -> str:
    if source is State.UNKNOWN and event is not Event.DELETE:
        return "Its record does not decode; it can only be deleted."
    if event is Event.DELETE and source not in TERMINAL:
        return "Cancel it first."
    if source in TERMINAL and event is not Event.RERUN:
        return "It has ended; rerun it to start it again."
    return _HINTS.get((event, source), "")
