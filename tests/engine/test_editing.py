"""Edited arguments: one task is cancelled, its successor submitted, and a crash loses neither."""

import pytest

from andon.engine import debts
from andon.engine.base import Submitted
from andon.engine.control import Control
from andon.engine.debts import Debts
from andon.lifecycle.commands import Delete, Fail, Reprioritise, Rerun
from andon.lifecycle.succession import successor_of
from andon.model.errors import (
    AndonError,
    InvalidSubmission,
    InvalidTransition,
    PayloadTooLarge,
    StoreUnavailable,
    TaskConflict,
    TaskNotFound,
)
from andon.model.headers import SIGNATURE_HEADER
from andon.model.task import Task, TaskError
from andon.model.words import Event, Reason, State

from .conftest import Shop

FAIL = Fail(error=TaskError(message="no"), retryable=True)


async def edited(shop: Shop, task_id: str, successor: str = "next", args: bytes = b"[2]") -> State:
    done = await shop.engine.edit(task_id, args, successor)
    assert done.error is None, done.error
    assert (done.id, done.created) == (successor, True)
    assert done.state is not None
    return done.state


def refused(done: Submitted, kind: type[AndonError]) -> str:
    assert isinstance(done.error, kind), done
    return str(done.error)


async def test_the_task_is_cancelled_and_its_successor_runs_with_the_new_arguments(
    shop: Shop,
) -> None:
    await shop.submit("a", args=b"[1]", priority=2, tags=("t",), headers={"h": "x"}, key="k")
    assert await edited(shop, "a") is State.PENDING
    old, new = await shop.task("a"), await shop.task("next")
    assert (old.state, old.status.reason) == (State.CANCELLED, Reason.EDITED)
    assert (old.status.successor, old.status.owed) == ("next", None)
    d = new.definition
    assert (d.predecessor, d.args, d.priority, d.tags) == ("a", b"[2]", 2, ("t",))
    assert (d.headers, d.key) == ({"h": "x"}, "k")
    ran = await shop.run()
    assert (ran.id, ran.definition.args) == ("next", b"[2]")
    moves = [event.event for event in (await shop.engine.history("a")).events]
    assert moves == [Event.SUBMIT, Event.EDIT, Event.DELIVER]


async def test_a_signed_task_is_not_edited_for_its_signature_would_not_fit(shop: Shop) -> None:
    await shop.submit("a", args=b"[1]", headers={SIGNATURE_HEADER: "k1 s"})
    done = await shop.engine.edit("a", b"[2]", "next")
    assert "signed" in refused(done, InvalidTransition)
    assert await shop.state("a") is State.PENDING


async def test_a_start_time_and_a_changed_priority_carry_over(shop: Shop) -> None:
    await shop.submit("a", delay=60)
    await shop.engine.act(["a"], Reprioritise(priority=-1))
    assert await edited(shop, "a") is State.SCHEDULED
    new = await shop.task("next")
    assert new.status.run_at == (await shop.task("a")).definition.run_at
    assert new.status.priority == -1
    await shop.later(61)
    assert await shop.state("next") is State.PENDING


async def test_a_blocked_task_is_succeeded_by_one_that_waits_for_the_same(shop: Shop) -> None:
    for parent in ("p", "q", "r"):
        await shop.submit(parent)
    await shop.submit("a", dependencies=("p", "q"))
    await shop.run()
    assert await edited(shop, "a") is State.BLOCKED
    assert await shop.state("next") is State.BLOCKED
    await shop.run()
    await shop.told()
    assert await shop.state("next") is State.PENDING
    assert await shop.state("a") is State.CANCELLED


async def test_a_dependency_that_was_met_and_is_gone_does_not_hold_the_successor_up(
    shop: Shop,
) -> None:
    await shop.submit("p")
    await shop.submit("a", dependencies=("p",))
    await shop.run()
    await shop.engine.act(["p"], Delete(), force=True)
    await shop.later(700)
    assert await edited(shop, "a") is State.PENDING


async def test_the_unique_key_goes_over_to_the_successor(shop: Shop) -> None:
    await shop.submit("a", unique_key="k")
    await edited(shop, "a")
    assert (await shop.try_submit("b", unique_key="k")).error is not None
    await shop.run()
    await shop.submit("c", unique_key="k")


async def test_a_repeat_is_answered_like_the_first(shop: Shop) -> None:
    await shop.submit("a")
    await edited(shop, "a")
    await shop.run()
    again = await shop.engine.edit("a", b"[2]", "next")
    assert (again.error, again.created, again.state) == (None, False, State.COMPLETED)
    told = refused(await shop.engine.edit("a", b"[3]", "other"), InvalidTransition)
    assert "'next'" in told
    assert await shop.state("other") is None


async def test_what_has_begun_or_ended_is_refused_and_nothing_is_changed(shop: Shop) -> None:
    await shop.submit("active")
    await shop.claim()
    await shop.submit("retry", options={"retry_delay": 60.0})
    await shop.run(FAIL)
    await shop.submit("done")
    await shop.run()
    await shop.engine.act(["done"], Rerun())  # pending, but it has run
    for task_id in ("active", "retry", "done"):
        before = await shop.task(task_id)
        told = refused(await shop.engine.edit(task_id, b"[]", "next"), InvalidTransition)
        assert "begun" in told
        assert await shop.task(task_id) == before
    refused(await shop.engine.edit("nobody", b"[]", "next"), TaskNotFound)
    assert await shop.state("next") is None


async def test_a_task_that_others_depend_on_is_refused_and_they_are_named(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("child", dependencies=("a",))
    assert "'child' depends" in refused(
        await shop.engine.edit("a", b"[]", "next"), InvalidTransition
    )
    await shop.engine.cancel(["child"])
    await shop.told()
    await edited(shop, "a")


async def test_bad_arguments_and_ids_are_refused_before_anything_is_written(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("taken")
    engine = shop.engine
    refused(await engine.edit("a", b"{", "next"), InvalidSubmission)
    refused(await engine.edit("a", b"[]", "no id"), InvalidSubmission)
    refused(await engine.edit("a", b"[]", "a"), InvalidSubmission)
    refused(await engine.edit("a", b"[]", "taken"), TaskConflict)
    refused(await engine.edit("a", b'"' + b"x" * 300_000 + b'"', "next"), PayloadTooLarge)
    assert await shop.state("a") is State.PENDING


@pytest.mark.parametrize("repeated", [True, False], ids=["a repeat", "the timer"])
async def test_a_crash_before_the_successor_was_stored_is_finished_by(
    shop: Shop, repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crashed(*_: object) -> None:
        raise StoreUnavailable("away")

    await shop.submit("a", options={"retention": 0})  # it goes with its end, once it owes nothing
    with monkeypatch.context() as patch:
        patch.setattr(Debts, "pay", crashed)
        with pytest.raises(StoreUnavailable):
            await shop.engine.edit("a", b"[2]", "next")
    assert await shop.state("next") is None
    (gone,) = await shop.engine.act(["a"], Delete(), force=True)
    assert isinstance(gone.error, InvalidTransition)
    (rerun,) = await shop.engine.act(["a"], Rerun())
    assert isinstance(rerun.error, InvalidTransition)
    if repeated:
        assert await edited(shop, "a") is State.PENDING
    else:
        await shop.later(3)
    assert (await shop.task("next")).definition.args == b"[2]"
    assert await shop.state("a") is None


async def test_a_crash_before_that_was_noted_makes_no_second_one(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crashes(*_: object) -> None:
        raise StoreUnavailable("away")

    await shop.submit("a")
    with monkeypatch.context() as patch:
        patch.setattr(Control, "act_each", crashes)
        with pytest.raises(StoreUnavailable):
            await shop.engine.edit("a", b"[2]", "next")
    assert (await shop.run()).id == "next"
    await shop.later(3)
    assert await shop.claim() == []
    assert (await shop.task("a")).status.owed is None


async def test_a_successor_that_cannot_be_stored_yet_comes_when_it_can(shop: Shop) -> None:
    options = {"unique_states": ("pending", "active")}
    await shop.submit("a", unique_key="k", options=options, delay=60)
    await shop.submit("holder", unique_key="k", options=options)
    shop.clock.ms += 61_000  # a may start, and its timer has not fired yet
    done = await shop.engine.edit("a", b"[2]", "next")
    assert (done.error, done.state, done.created) == (None, None, True)
    await shop.later(3)
    assert await shop.state("next") is None
    await shop.run()
    await shop.later(10)
    assert await shop.state("next") is State.PENDING


async def test_one_owed_successor_that_fails_holds_up_no_other_timer(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_once(task: Task, parents: tuple[str, ...], now: int, write_id: str) -> Task:
        if task.id == "bad":
            raise ValueError("cannot be decided")
        return successor_of(task, parents, now, write_id)

    async def crashed(*_: object) -> None:
        raise StoreUnavailable("away")

    for task_id in ("bad", "good"):
        await shop.submit(task_id)
        with monkeypatch.context() as patch:
            patch.setattr(Debts, "pay", crashed)
            with pytest.raises(StoreUnavailable):
                await shop.engine.edit(task_id, b"[]", f"next-{task_id}")
    await shop.submit("due", delay=1)
    monkeypatch.setattr(debts, "successor_of", fails_once)
    await shop.later(3)
    assert await shop.state("next-good") is State.PENDING
    assert await shop.state("due") is State.PENDING
    assert await shop.state("next-bad") is None
