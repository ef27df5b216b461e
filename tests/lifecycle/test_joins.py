"""What may be added to a task that waits, and what an addition means (`lifecycle.joins`)."""

from typing import Any

import pytest
from msgspec.structs import replace

from andon.lifecycle import commands as c
from andon.lifecycle.joins import Standing, fails, standing
from andon.lifecycle.parents import goes_by_states, waits_for
from andon.lifecycle.timers import VERIFY_FIRST_MS, next_timer
from andon.model.errors import InvalidTransition
from andon.model.task import Added, Task, Tombstone
from andon.model.words import State

from .examples import CHILD, ERROR, NOW, after, claimed, submitted


def join(**fields: Any) -> Task:
    """A task that waits for `p` and `q`."""
    return submitted(dependencies=("p", "q"), **fields)


def added(*tasks: str, bearer: str = "p", run: str = "r1", fence: int = 1) -> c.Extend:
    return c.Extend(added=Added(bearer, run, fence, tasks))


def test_it_waits_for_what_was_added_after_what_it_was_submitted_with() -> None:
    task = after(join(), added("x", "y"))
    assert (task.state, waits_for(task)) == (State.BLOCKED, ("p", "q", "x", "y"))
    assert goes_by_states(task)
    assert not goes_by_states(join())
    grown = after(task, added("z", bearer="x"))
    assert waits_for(grown) == ("p", "q", "x", "y", "z")


def test_what_a_later_run_adds_is_in_place_of_what_an_earlier_one_did() -> None:
    first = after(after(join(), added("x")), added("other", bearer="q"))
    second = after(first, added("y", run="r2", fence=2))
    assert waits_for(second) == ("p", "q", "other", "y")
    with pytest.raises(InvalidTransition, match="A later run of task 'p'"):
        after(second, added("x"))


@pytest.mark.parametrize(
    ("task", "command", "told"),
    [
        (join(), added("x", bearer="stranger"), "does not wait for task 'stranger'"),
        (join(needs=1), added("x"), r"needs 1 of 2 dependencies \(`needs`\)"),
        (join(), added(*(f"x{n}" for n in range(9_999))), "10,001 tasks, the limit is 10,000"),
        (after(join(), c.Unblock()), added("x"), "waits for nothing any more"),
        (after(join(), c.Cancel()), added("x"), "has ended"),
    ],
)
def test_what_cannot_be_added_is_refused(task: Task, command: c.Extend, told: str) -> None:
    with pytest.raises(InvalidTransition, match=told):
        after(task, command)


def test_as_many_as_may_be_waited_for_are_taken() -> None:
    task = after(join(), added(*(f"x{n}" for n in range(9_998))))
    assert len(waits_for(task)) == 10_000


def test_it_is_not_released_by_what_was_decided_before_it_was_added_to() -> None:
    task = after(join(), added("x"))
    with pytest.raises(InvalidTransition, match="waits for more tasks"):
        after(task, c.Unblock())
    assert after(task, c.Unblock(added=task.status.added)).state is State.PENDING


def test_its_verify_timer_starts_anew_when_it_is_added_to() -> None:
    late = after(join(), added("x"), now=NOW + 60_000)
    assert next_timer(late) == NOW + 60_000 + VERIFY_FIRST_MS


def test_an_addition_is_judged_by_the_run_that_made_it() -> None:
    active = claimed(submitted())
    mine = Added(active.id, active.status.run, 1, ("x",))
    other = replace(mine, run="another")
    owing = after(active, c.Complete(births=(CHILD,)))
    paid = after(owing, c.Deliver())
    failed = after(active, c.Terminate(error=ERROR))
    assert standing(mine, active, None) is Standing.IN_HAND
    assert standing(mine, owing, None) is Standing.OWED
    assert standing(mine, paid, None) is Standing.BORNE
    for bearer in (active, owing, paid, failed):
        assert standing(other, bearer, None) is Standing.VOID
    assert standing(mine, failed, None) is Standing.VOID


def test_an_addition_is_judged_by_what_is_left_of_a_bearer_that_is_gone() -> None:
    one = Added("p", "r1", 1, ("x",))
    assert standing(one, None, Tombstone(State.COMPLETED, "r1")) is Standing.BORNE
    assert standing(one, None, Tombstone(State.COMPLETED, "r2")) is Standing.VOID
    assert standing(one, None, None) is Standing.VOID


def test_only_what_a_completed_run_added_fails_the_join() -> None:
    failing = {(now, state) for now in Standing for state in (None, State.FAILED)}
    assert {one for one in failing if fails(*one)} == {
        (Standing.BORNE, None),
        (Standing.BORNE, State.FAILED),
        (Standing.OWED, State.FAILED),
    }
