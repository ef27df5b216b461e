"""The table of moves is complete: what is not in it is refused, what is in it can happen."""

from typing import Any

import pytest
from msgspec.structs import replace

from andon.lifecycle import commands as c
from andon.lifecycle.admission import admit_invalid
from andon.lifecycle.apply import set_aside
from andon.lifecycle.decide import DECIDE
from andon.lifecycle.moves import MOVES, TARGETS, Move, fields_set
from andon.model.errors import InvalidTransition
from andon.model.recurrence import Recurrence
from andon.model.task import Status, Task, TaskEvent
from andon.model.words import Event, State

from .examples import (
    NOW,
    SAMPLES,
    STORED,
    claimed,
    decided,
    ended_schedule,
    in_state,
    recurring,
    submitted,
)

BY_EVENT = {sample.event: sample for sample in SAMPLES}

PAIRS = [
    pytest.param(sample, state, asked, id=f"{sample.event}-{state}{'-asked' * asked}")
    for sample in SAMPLES
    for state in STORED
    for asked in ((False, True) if state is State.ACTIVE else (False,))
]


def test_there_is_a_command_and_a_decision_for_every_event_that_is_asked_for() -> None:
    made_otherwise = {Event.SUBMIT, Event.CLAIM, Event.SET_ASIDE}
    assert set(BY_EVENT) == set(DECIDE) == set(Event) - made_otherwise


@pytest.mark.parametrize(("command", "state", "asked"), PAIRS)
def test_a_move_is_made_if_and_only_if_the_table_has_it(
    command: c.Command, state: State, *, asked: bool
) -> None:
    task = in_state(state, asked=asked, owes=command.event is Event.DELIVER)
    targets = TARGETS.get((command.event, state, asked))
    if targets is None:
        before = repr(task)
        with pytest.raises(InvalidTransition) as refusal:
            decided(task, command)
        assert (refusal.value.task_id, refusal.value.state) == (task.id, state)
        assert repr(task) == before
    else:
        moved = decided(task, command)
        assert (None if moved.status is None else moved.status.state) in targets


# --- every row of the table, by example ---

NO_DELAY: dict[str, Any] = {"retry_delay": None}
SPENT: dict[str, Any] = {"max_retries": 0}
SOONER: dict[str, Any] = {"on_silence": "retry"}
POLICIES: dict[tuple[Event, State | None], dict[str, Any]] = {
    (Event.FAIL, State.PENDING): NO_DELAY,
    (Event.FAIL, State.FAILED): SPENT,
    (Event.SHUTDOWN_RETRY, State.PENDING): NO_DELAY,
    (Event.SHUTDOWN_RETRY, State.STALLED): SPENT,
    (Event.LOSE, State.PENDING): NO_DELAY,
    (Event.LOSE, State.STALLED): SPENT,
    (Event.SILENCE, State.PENDING): {**SOONER, **NO_DELAY},
    (Event.SILENCE, State.RETRY): SOONER,
    (Event.UNKNOWN_TASK, State.RETRY): {"on_unknown": "retry"},
    (Event.UNKNOWN_TASK, State.DROPPED): {"on_unknown": "drop"},
    (Event.UNKNOWN_TASK, State.FAILED): {"on_unknown": "fail"},
}


def example(move: Move) -> tuple[Task, Status | None, TaskEvent]:
    """A task before the move, its status after, and the event of the move."""
    assert move.source is not None
    policy = POLICIES.get((move.event, move.target))
    waits = move.event in (Event.UNBLOCK, Event.SCHEDULE) and move.target is State.SCHEDULED
    fields = {"run_at": NOW + 60_000} if waits else {}
    owes = move.event is Event.DELIVER
    task = in_state(move.source, policy=policy, asked=move.cancel is True, owes=owes, **fields)
    if move.event is Event.CLAIM:
        status = claimed(task).status
        return task, status, status.events[-1]
    if move.event is Event.RECUR:
        last = Recurrence(every=60, count=1 if move.target is State.COMPLETED else None)
        task = recurring(now=NOW - 60_000, recurrence=last)
    if move.event is Event.RERUN and move.target is State.RECURRING:
        task = ended_schedule(move.source)
    command = BY_EVENT[move.event]
    if move.event is Event.RERUN and move.target is State.SCHEDULED:
        command = c.Rerun(run_at=NOW + 60_000, blocked=True)
    if move.event is Event.RERUN and move.target is State.BLOCKED:
        command = c.Rerun(waits=True)
        task.definition = replace(task.definition, dependencies=("p",))
    moved = decided(task, command)
    return task, moved.status, moved.event


TAKEN = [move for move in MOVES if move.event not in (Event.SUBMIT, Event.SET_ASIDE)]


@pytest.mark.parametrize("move", TAKEN, ids=lambda m: f"{m.event}-{m.source}-{m.target}-{m.cancel}")
def test_every_row_happens_and_sets_only_its_own_fields(move: Move) -> None:
    task, status, event = example(move)
    assert (None if status is None else status.state) is move.target
    assert (event.event, event.source, event.target) == (move.event, move.source, move.target)
    assert (event.revision, event.at) == (task.status.revision + 1, NOW)
    if status is None:
        return
    before = task.status
    assert status.revision == before.revision + 1
    assert status.events == (*before.events, event)
    changed = {
        field
        for field in Status.__struct_fields__
        if getattr(status, field) != getattr(before, field)
    }
    assert changed - {"state", "revision", "reason", "events"} <= fields_set(move)


def test_every_first_state_of_the_table_can_be_submitted_to() -> None:
    first = {move.target for move in MOVES if move.event is Event.SUBMIT}
    tasks = [
        submitted(dependencies=("p",)),
        submitted(run_at=NOW + 1),
        submitted(),
        recurring(),
        admit_invalid(submitted().definition, NOW, "w", "bad"),
    ]
    assert {task.state for task in tasks} == first
    assert [task.status.revision for task in tasks] == [1] * 5


@pytest.mark.parametrize("state", [move.source for move in MOVES if move.event is Event.SET_ASIDE])
def test_a_record_that_does_not_decode_is_set_aside_from_any_state(state: State) -> None:
    event = set_aside(7, state, NOW, "w")
    assert (event.revision, event.source, event.target) == (8, state, State.UNKNOWN)


def test_no_move_makes_a_schedule_claimable() -> None:
    reached = {m.target for m in MOVES if m.source is State.RECURRING}
    assert reached == {State.RECURRING, State.COMPLETED, State.CANCELLED, State.UNKNOWN}


def test_no_event_leaves_unknown_but_deletion() -> None:
    assert {m.event for m in MOVES if m.source is State.UNKNOWN} == {Event.DELETE}
