"""Effects say all that a write does to what is derived from a record, whatever the move."""

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import fields, replace

from andon.contract.requests import Change
from andon.lifecycle import commands as c
from andon.lifecycle.batches import alike, moved_alike
from andon.lifecycle.daily import tally_of
from andon.lifecycle.effects import between, of_change, of_discard, of_new
from andon.lifecycle.indexes import entry_of
from andon.lifecycle.interrupting import interrupted_worker
from andon.lifecycle.moves import TARGETS
from andon.lifecycle.unique import lapsed
from andon.model.policy import Policy, Retention
from andon.model.task import Definition, Status, Task
from andon.model.words import LIVE, TERMINAL, Event, Reason, State

from .examples import CHILD, ERROR, NOW, SAMPLES, STORED, claimed, decided, in_state, submitted

KEYS: dict[str, Any] = {"unique_key": "u", "key": "k", "group": "g"}
POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"dead_letter": "save", "unique_states": ("pending", "completed")},
)

MOVES = [
    pytest.param(sample, state, asked, given, policy, id="-".join(map(str, name)))
    for sample in SAMPLES
    for state in STORED
    for asked in ((False, True) if state is State.ACTIVE else (False,))
    if (sample.event, state, asked) in TARGETS
    for given in ({}, KEYS)
    for n, policy in enumerate(POLICIES)
    for name in [(sample.event, state, *["asked"] * asked, *["keys"] * bool(given), n)]
]


def change_of(task: Task, command: c.Command) -> Change:
    moved = decided(task, command)
    return Change(before=task, after=moved.status, event=moved.event, discard=moved.discard)


@pytest.mark.parametrize(("command", "state", "asked", "given", "policy"), MOVES)
def test_effects_lead_from_the_index_of_the_record_before_to_that_of_the_record_after(
    command: c.Command, state: State, *, asked: bool, given: dict[str, Any], policy: dict[str, Any]
) -> None:
    owes = command.event is Event.DELIVER
    task = in_state(state, asked=asked, owes=owes, policy=policy, **given)
    change = change_of(task, command)
    old, new = entry_of(task), None
    if change.after is not None:
        new = entry_of(Task(definition=task.definition, status=change.after, cell=task.cell))
    effects = of_change(change)

    assert effects == of_change(change, old=old, after=new), "what is known changes nothing"
    assert (effects.queue, effects.key) == (old.queue, old.key)
    assert (effects.left, effects.ready_out, effects.dead_letter_out) == (
        old.state,
        old.ready,
        old.dead_letter,
    )
    assert effects.entry == new
    assert (effects.state, effects.ready_in, effects.timer, effects.dead_letter_in) == (
        (None, None, None, False)
        if new is None
        else (new.state, new.ready, new.timer, new.dead_letter)
    )
    held, holds = old.unique_key, None if new is None else new.unique_key
    assert (effects.takes_key, effects.frees_key) == {
        (False, True): ("u", None),
        (True, False): (None, "u"),
    }.get((held is not None, holds is not None), (None, None))
    assert effects.tally == tally_of(change.event)
    assert effects.interrupts == interrupted_worker(task.status, change.event.event)
    assert effects.ends_run == (effects.frees_slot and effects.is_bare)


@pytest.mark.parametrize(("command", "state", "asked", "given", "policy"), MOVES)
def test_what_is_separate_touches_nothing_that_another_task_shares(
    command: c.Command, state: State, *, asked: bool, given: dict[str, Any], policy: dict[str, Any]
) -> None:
    owes = command.event is Event.DELIVER
    task = in_state(state, asked=asked, owes=owes, policy=policy, **given)
    change = change_of(task, command)
    effects = of_change(change)
    touches = (
        effects.leaves_key
        or effects.takes_key is not None
        or effects.frees_key is not None
        or effects.unblocks
        or effects.entry is None
        or change.discard is not None
    )
    assert not (effects.is_separate and touches)
    apart = not (given or touches or state in (State.BLOCKED, State.UNKNOWN))
    assert effects.is_separate or not apart, "it goes the short way where it may"
    ends = state is State.ACTIVE and effects.state not in (State.ACTIVE, State.PENDING)
    assert effects.ends_run is (effects.is_separate and ends)


@pytest.mark.parametrize(("command", "state", "asked", "given", "policy"), MOVES)
def test_dependents_and_limits_are_looked_at_when_a_state_is_left(
    command: c.Command, state: State, *, asked: bool, given: dict[str, Any], policy: dict[str, Any]
) -> None:
    owes = command.event is Event.DELIVER
    task = in_state(state, asked=asked, owes=owes, policy=policy, **given)
    effects = of_change(change_of(task, command))
    counted = (State.PENDING, State.ACTIVE)
    assert effects.frees_slot is (state is State.ACTIVE and effects.state is not State.ACTIVE)
    assert effects.leaves_key is (bool(given) and state in counted and effects.state not in counted)
    assert effects.unblocks is (state is State.BLOCKED and effects.state is not State.BLOCKED)
    assert effects.ends is (effects.state in TERMINAL)
    assert effects.revives is (state in TERMINAL and effects.state in LIVE)


def test_a_life_leaves_nothing_behind() -> None:
    """What all effects of a life take in and out comes to nothing once the record is gone."""
    policy = {"unique_states": ("pending", "failed"), "dead_letter": "save", "max_retries": 0}
    pending = submitted(policy=policy, **KEYS)
    active = claimed(pending)
    end = change_of(active, c.Terminate(error=ERROR))
    assert end.after is not None
    failed = Task(definition=active.definition, status=end.after)
    rerun = change_of(failed, c.Rerun())
    assert rerun.after is not None
    again = Task(definition=active.definition, status=rerun.after)
    stopped = change_of(again, c.Cancel())
    assert stopped.after is not None
    gone = change_of(Task(definition=active.definition, status=stopped.after), c.Delete())
    life = [
        of_new(pending),
        between(entry_of(pending), entry_of(active), active.status.events[-1]),
        *map(of_change, (end, rerun, stopped, gone)),
    ]
    held: Counter[Any] = Counter()
    for effects in life:
        if effects.state is not None:
            held[effects.state] += 1
        if effects.left is not None:
            held[effects.left] -= 1
        held["ready"] += (effects.ready_in is not None) - (effects.ready_out is not None)
        held["dead"] += effects.dead_letter_in - effects.dead_letter_out
        held["key"] += (effects.takes_key is not None) - (effects.frees_key is not None)
        held["runs"] += (effects.state is State.ACTIVE) - effects.frees_slot
    assert {name: n for name, n in held.items() if n} == {}
    assert [effects.left for effects in life[1:]] == [effects.state for effects in life[:-1]]


def test_a_discarded_end_frees_the_key_that_it_held() -> None:
    done = in_state(State.COMPLETED, policy={"unique_states": ("completed",)}, **KEYS)
    gone = decided(done, c.Delete()).event
    effects = of_discard(entry_of(done), gone)
    assert (effects.left, effects.state, effects.frees_key) == (State.COMPLETED, None, "u")


def test_a_key_is_reserved_only_within_its_period() -> None:
    task = submitted(policy={"unique_period": 5.0}, **KEYS)
    effects = of_new(task)
    assert effects.key_to_reserve(NOW) == "u"
    assert lapsed(entry_of(task), NOW + 5_000)
    assert effects.key_to_reserve(NOW + 5_000) is None


@pytest.mark.parametrize("state", [State.BLOCKED, State.SCHEDULED, State.PENDING])
def test_a_new_record_has_no_past(state: State) -> None:
    task = in_state(state, **KEYS)
    effects = of_new(task)
    assert effects.entry == entry_of(task)
    assert (effects.left, effects.ready_out, effects.frees_key) == (None, None, None)
    assert (effects.takes_key, effects.tally) == ("u", "submitted")
    assert not any((effects.ends, effects.revives, effects.unblocks, effects.frees_slot))
    assert of_new(in_state(state)).is_separate is (state is not State.BLOCKED)


# --- batches ---

CHANGED: dict[str, Any] = {
    "queue": "other",
    "name": "other",
    "version": 2,
    "key": "other",
    "group": "other",
    "unique_key": "other",
    "dependencies": ("p", "q"),
    "needs": 1,
    "tags": ("other",),
    "policy": replace(submitted().policy, lease=99.0, timeout=5.0),
}
"""Fields of a definition that its index entry is made of, with other values."""


def test_tasks_that_begin_alike_are_one_batch_also_if_they_share_nothing_but_values() -> None:
    tasks = [submitted(id=f"t{n}", args=b"[%d]" % n) for n in range(5)]
    tasks[2] = Task(definition=tasks[2].definition, status=replace(tasks[2].status))
    (batch,) = alike(tasks)
    assert [task.id for task in batch.tasks] == ["t0", "t1", "t2", "t3", "t4"]
    assert (batch.status, batch.entry) == (tasks[0].status, entry_of(tasks[4]))


@pytest.mark.parametrize("field", CHANGED)
def test_tasks_that_are_indexed_otherwise_are_another_batch(field: str) -> None:
    one, other = submitted(), submitted()
    other = replace(other, definition=replace(other.definition, **{field: CHANGED[field]}))
    batches = alike([one, other, one])
    assert [batch.tasks for batch in batches] == [[one], [other], [one]]
    assert [batch.entry for batch in batches] == [entry_of(task) for task in (one, other, one)]


def test_whatever_else_a_definition_says_makes_no_other_entry() -> None:
    """Each field either is one that sets batches apart, or leaves the entry as it is."""
    one = submitted()
    values: dict[type, Any] = {int: 1, str: "x", bool: True, bytes: b"x", tuple: ("x",), dict: {}}
    for field in fields(Definition):
        if field.name in CHANGED:
            continue
        old = getattr(one.definition, field.name)
        new = (not old) if isinstance(old, bool) else values.get(type(old), NOW + 7)
        other = replace(one, definition=replace(one.definition, **{field.name: new}))
        assert entry_of(other) == entry_of(one), field.name


def test_tasks_of_another_status_are_another_batch() -> None:
    later = submitted(now=NOW + 1)
    assert [len(batch.tasks) for batch in alike([submitted(), submitted(), later])] == [2, 1]
    assert alike([]) == []


def test_ends_that_are_alike_share_their_effects_whoever_reports_them() -> None:
    changes = [
        change_of(claimed(submitted(id=f"t{n}"), worker=f"w{n}"), c.Complete(result=b"%d" % n))
        for n in range(4)
    ]
    (batch,) = moved_alike(changes)
    assert list(batch.moves) == changes
    assert batch.effects == of_change(changes[3])
    assert moved_alike([]) == []


@pytest.mark.parametrize("of", ["definition", "before", "after", "event"])
@pytest.mark.parametrize("first", [c.Complete(), c.Terminate(error=ERROR)], ids=["ok", "failed"])
@pytest.mark.parametrize("policy", [{}, {"dead_letter": "save"}], ids=["", "saved"])
def test_no_field_of_a_move_is_overlooked_when_its_effects_are_shared(
    first: c.Command, of: str, policy: dict[str, Any]
) -> None:
    """Of the second of two ends each field in turn is another, whatever is found that fits."""
    others: tuple[Any, ...] = ("other", NOW + 7, ("x",), b"x", True, False, None, ERROR)
    words = (*State, *Event, *Reason, replace(Policy(), retention=Retention(completed=1, failed=1)))
    one = change_of(claimed(submitted(policy=policy)), first)
    kept = {"definition": one.before.definition, "before": one.before.status}
    kept |= {"after": one.after, "event": one.event}
    compared = 0
    for field in fields(kept[of]):
        for value in (*others, *words, (CHILD,)):
            try:
                other = _with(one, of, replace(kept[of], **{field.name: value}))
                expected = [of_change(change) for change in (one, other, one)]
            except (AttributeError, TypeError, AssertionError, KeyError, ValueError):
                continue  # no record has such a value there
            found = [batch.effects for batch in moved_alike([one, other, one]) for _ in batch.moves]
            assert found == expected, (field.name, value)
            compared += 1
    assert compared > len(fields(kept[of]))


def test_an_end_that_discards_its_record_shares_nothing() -> None:
    one = change_of(claimed(submitted()), c.Complete())
    assert one.after is not None
    other = replace(one, discard=one.event)
    assert [len(batch.moves) for batch in moved_alike([one, other, one])] == [1, 1, 1]


def _with(change: Change, of: str, part: Any) -> Change:
    if of in ("after", "event"):
        return replace(change, **{of: part})
    named = "status" if isinstance(part, Status) else "definition"
    return replace(change, before=replace(change.before, **{named: part}))
