"""What a move bears is owed by its record until it is stored (docs/rulings.md, R38)."""

import msgspec
import pytest
from msgspec.structs import replace

from andon.lifecycle import commands as c
from andon.lifecycle.births import (
    MOST_BIRTHS,
    MOST_BIRTHS_BYTES,
    REFUSED,
    check_births,
    owed_ids,
    refusal,
)
from andon.lifecycle.indexes import entry_of
from andon.lifecycle.repeats import fingerprint, is_repeat
from andon.lifecycle.timers import DEBT_MS, must_pay, next_timer, on_timer, rearm
from andon.model.errors import InvalidSubmission, InvalidTransition
from andon.model.policy import Retention
from andon.model.task import Definition, Status, Task, TaskError
from andon.model.words import Event, Reason, State

from .examples import CHILD, NOW, after, claimed, decided, in_state, submitted

AT_ONCE = {"retention": Retention(completed=0)}


def bearing(*births: Definition, **policy: object) -> Task:
    task = claimed(submitted(policy=policy))
    return after(task, c.Complete(result=b"7", births=births or (CHILD,)))


def test_a_record_that_owes_takes_no_move_but_the_payment_and_says_why() -> None:
    task = bearing()
    assert owed_ids(task.status) == ("child",)
    for command in (c.Rerun(), c.Delete(), c.Delete(reason=Reason.RETENTION)):
        with pytest.raises(InvalidTransition, match="'child' is not stored yet"):
            decided(task, command)
    paid = after(task, c.Deliver())
    assert (paid.state, paid.status.owes, paid.result) == (State.COMPLETED, (), b"7")
    assert after(paid, c.Rerun()).state is State.PENDING


def test_what_is_owed_keeps_the_record_and_its_payment_discards_it_with_the_result() -> None:
    task = bearing(**AT_ONCE)
    end = decided(claimed(submitted(policy=AT_ONCE)), c.Complete(result=b"7", births=(CHILD,)))
    assert end.discard is None
    paid = decided(task, c.Deliver())
    assert paid.discard is not None
    assert (paid.discard.event, paid.discard.result) == (Event.DELETE, b"7")
    assert paid.discard.reason is Reason.DISCARDED


def test_a_payment_clears_the_debt_that_it_paid_and_no_later_one() -> None:
    first = bearing()
    seen = first.status.revision
    again = claimed(after(after(first, c.Deliver(revision=seen)), c.Rerun()))
    second = after(again, c.Complete(births=(replace(CHILD, id="other"),)))
    with pytest.raises(InvalidTransition):
        decided(second, c.Deliver(revision=seen))
    assert owed_ids(second.status) == ("other",)


def test_what_was_refused_is_told_by_the_payment_and_is_no_error_of_the_task() -> None:
    refused = refusal([("child", InvalidSubmission("Its key is held."))])
    assert refused is not None
    moved = decided(bearing(), c.Deliver(refused=refused))
    assert moved.status is not None
    assert moved.event.error == TaskError(
        message="child was not stored: Its key is held.", code=REFUSED
    )
    assert moved.status.last_error is None
    assert refusal([]) is None


def test_the_timer_of_a_record_that_owes_pays_whatever_its_retention_says() -> None:
    task = bearing(retention=Retention(completed=0.5))
    due = NOW + DEBT_MS
    assert next_timer(task) == entry_of(task).timer == due
    assert not must_pay(task, due - 1)
    assert must_pay(task, due)
    assert on_timer(task, due + 10**9) is None
    later = rearm(task, due + 60_000)
    assert later is not None
    assert later > due + 60_000
    assert on_timer(after(task, c.Deliver()), due) == c.Delete(reason=Reason.RETENTION)


def test_a_report_with_other_births_is_no_repeat() -> None:
    task = bearing()
    run = task.status.runs[-1].id
    assert is_repeat(task.status, run, c.Complete(result=b"7", births=(CHILD,)))
    later = replace(CHILD, run_at=NOW + 1)  # a delay counts from when the report is decided on
    assert is_repeat(task.status, run, c.Complete(result=b"7", births=(later,)))
    for births in ((), (replace(CHILD, digest="x"),), (replace(CHILD, id="x"),), (CHILD, CHILD)):
        assert not is_repeat(task.status, run, c.Complete(result=b"7", births=births))
    assert fingerprint(c.Complete(births=(CHILD,))) != fingerprint(c.Complete())


def test_a_run_that_was_asked_to_cancel_and_completes_bears_and_one_that_fails_does_not() -> None:
    asked = in_state(State.ACTIVE, asked=True)
    assert owed_ids(after(asked, c.Complete(births=(CHILD,))).status) == ("child",)
    assert "births" not in c.Fail.__struct_fields__


@pytest.mark.parametrize(
    ("births", "told"),
    [
        ([replace(CHILD, id=f"c{n}") for n in range(MOST_BIRTHS + 1)], "at most 100"),
        ([replace(CHILD, args=b"x" * MOST_BIRTHS_BYTES)], "the limit is 65,536"),
        ([CHILD, CHILD], "that of two"),
        ([replace(CHILD, id="t")], "the task's own"),
        ([replace(CHILD, id="no id")], "is not 1 to 64"),
    ],
)
def test_what_no_run_can_bear_is_refused_and_said_what_to_do(
    births: list[Definition], told: str
) -> None:
    with pytest.raises(InvalidSubmission, match=told):
        check_births("t", births)
    check_births("t", [replace(CHILD, id=f"c{n}") for n in range(MOST_BIRTHS)])


def test_a_record_that_an_older_release_wrote_still_owes_its_successor() -> None:
    task = in_state(State.CANCELLED, owes=True)
    fields = msgspec.to_builtins(task.status)
    assert "owes" not in fields
    again = msgspec.convert(fields, Status)
    assert owed_ids(again) == ("n",)
    assert must_pay(replace(task, status=again), NOW + DEBT_MS)
    assert owed_ids(after(task, c.Deliver()).status) == ()
