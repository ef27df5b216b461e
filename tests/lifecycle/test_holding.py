"""What a submit does whose unique key another task holds."""

import pytest
from msgspec.structs import replace

from andon.engine.base import Submission
from andon.lifecycle import commands as c
from andon.lifecycle.admission import admit
from andon.lifecycle.holding import Step, followed, following, limited, step_of, superseding
from andon.lifecycle.indexes import entry_of
from andon.lifecycle.statements import statement
from andon.model.errors import InvalidTransition
from andon.model.policy import Policy
from andon.model.task import Definition, OnHeld, Task
from andon.model.words import TERMINAL, WAITING, State

from .examples import NOW, STORED, after, claimed, in_state, submitted

NEW = Definition(id="new", name="job", unique_key="k", on_held=OnHeld())
EXTENDS = replace(NEW, run_at=NOW + 10_000, on_held=OnHeld("extend", max_delay=30_000))


def superseded(holder: Task, d: Definition = NEW) -> Task:
    return after(holder, c.Cancel(births=(superseding(d, holder, ""),)))


@pytest.mark.parametrize("state", STORED)
def test_what_waits_is_superseded_what_runs_is_followed_and_what_is_over_holds_nothing(
    state: State,
) -> None:
    holder = in_state(state, unique_key="k")
    expected = Step.AGAIN if state in TERMINAL else Step.REFUSE
    expected = Step.SUPERSEDE if state in WAITING else expected
    expected = Step.FOLLOW if state is State.ACTIVE else expected
    assert step_of(NEW, holder) is expected
    assert step_of(replace(NEW, queue="elsewhere"), holder) is (
        Step.AGAIN if state in TERMINAL else Step.REFUSE
    )
    if state in WAITING:
        owing = superseded(holder)
        assert owing.status.successor == "new"
        assert step_of(NEW, owing) is Step.PAY
        assert entry_of(owing).unique_key == "k", "nobody takes it before the new one is stored"
        assert entry_of(after(owing, c.Deliver())).unique_key is None
    else:
        with pytest.raises(InvalidTransition):
            superseded(holder)


def test_no_record_yet_is_looked_at_again_and_a_key_kept_after_the_end_is_not_taken() -> None:
    assert step_of(NEW, None) is Step.AGAIN
    policy = {"unique_states": ("pending", "active", "completed")}
    done = after(claimed(submitted(policy=policy, unique_key="k")), c.Complete())
    assert step_of(NEW, done) is Step.REFUSE


def test_a_key_that_was_not_held_is_not_kept() -> None:
    policy = {"unique_states": ("pending", "active")}
    waits = submitted(policy=policy, unique_key="k", run_at=NOW + 60_000)
    assert entry_of(superseded(waits)).unique_key is None
    bears = after(claimed(submitted(unique_key="k")), c.Complete(births=(NEW,)))
    assert entry_of(bears).unique_key is None, "a follow-up may take it"


def test_the_start_moves_and_no_further_than_from_the_first() -> None:
    first = admit(limited(EXTENDS, NOW), NOW, "w")
    later = replace(EXTENDS, id="b", run_at=NOW + 18_000)
    second = admit(superseding(later, first, ""), NOW + 8_000, "w")
    assert (second.status.run_at, second.definition.predecessor) == (NOW + 18_000, "new")
    latest = replace(EXTENDS, id="c", run_at=NOW + 35_000)
    assert superseding(latest, second, "").run_at == NOW + 30_000
    assert limited(replace(EXTENDS, run_at=NOW + 90_000), NOW).run_at == NOW + 30_000


def test_who_supersedes_a_follower_follows_the_same_task_and_keeps_its_signature() -> None:
    active = claimed(submitted(unique_key="k"))
    follower = admit(following(NEW, active), NOW, "w")
    assert (follower.state, follower.definition.requires) == (State.BLOCKED, "all-resolved")
    assert followed(follower, [None, active]) == "t"
    assert followed(follower, [after(active, c.Complete())]) == ""
    heir = superseding(replace(NEW, id="b"), follower, "t")
    assert (heir.dependencies, heir.predecessor) == (("t",), "new")
    sent = Submission(id="b", name="job", unique_key="k", on_held="supersede")
    assert statement(heir, None) == statement(sent, None)
    assert heir.policy == Policy()
