"""What a run bears exists if and only if its report was written (docs/rulings.md, R38)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from andon.contract.outcomes import Created
from andon.engine import debts
from andon.engine.base import Submission
from andon.engine.control import Control
from andon.lifecycle.admission import admit
from andon.lifecycle.births import REFUSED
from andon.lifecycle.commands import Complete, Delete, Fail, Rerun
from andon.model.errors import InvalidSubmission, InvalidTransition, LeaseLost, StoreUnavailable
from andon.model.task import Definition, Task, TaskError
from andon.model.words import Event, State

from .conftest import Shop, cannot_settle

DONE = Complete(result=b"1")


def child(task_id: str, **fields: Any) -> Submission:
    return Submission(id=task_id, name="child", **fields)


async def bear(shop: Shop, *follow_ups: Submission, task_id: str = "a", **fields: Any) -> Task:
    """Submit a task, run it, and report it with these follow-ups."""
    await shop.submit(task_id, **fields)
    (task,) = await shop.claim()
    assert await shop.engine.report(task, DONE, follow_ups) is State.COMPLETED
    return task


async def events(shop: Shop, task_id: str) -> list[Event]:
    return [event.event for event in (await shop.engine.history(task_id)).events]


async def refused_of(shop: Shop, task_id: str) -> TaskError | None:
    return (await shop.engine.history(task_id)).events[-1].error


async def test_a_completed_run_bears_its_follow_ups_and_a_failed_one_none(shop: Shop) -> None:
    await bear(shop, child("b", args=b"[1]", priority=3, tags=("t",), delay=60), child("c"))
    await shop.told()
    b, c = await shop.task("b"), await shop.task("c")
    assert (b.state, c.state) == (State.SCHEDULED, State.PENDING)
    assert (b.definition.args, b.definition.priority, b.definition.bearer) == (b"[1]", 3, "a")
    assert b.status.run_at == shop.clock.ms + 60_000
    a = await shop.task("a")
    assert (a.status.owes, a.result) == ((), b"1")
    assert await events(shop, "a") == [Event.SUBMIT, Event.CLAIM, Event.COMPLETE, Event.DELIVER]
    assert (await shop.run()).id == "c"

    await shop.submit("bad")
    (task,) = await shop.claim()
    await shop.engine.report(task, Fail(error=TaskError(message="no")), [child("d")])
    await shop.told()
    assert await shop.state("d") is None


async def test_the_births_of_a_run_that_lost_its_lease_never_exist(shop: Shop) -> None:
    await shop.submit("a", options={"retry_delay": None})
    (zombie,) = await shop.claim()
    await shop.later(31)
    (second,) = await shop.claim()
    with pytest.raises(LeaseLost):
        await shop.engine.report(zombie, DONE, [child("late")])
    await shop.engine.report(second, DONE, [child("good")])
    await shop.later(3)
    assert (await shop.state("late"), await shop.state("good")) == (None, State.PENDING)


async def test_a_report_is_repeated_with_the_same_births_only(shop: Shop) -> None:
    task = await bear(shop, child("b", delay=60))
    shop.clock.ms += 5
    assert await shop.engine.report(task, DONE, [child("b", delay=60)]) is State.COMPLETED
    for other in ([], [child("b")], [child("x", delay=60)]):
        with pytest.raises(LeaseLost):
            await shop.engine.report(task, DONE, other)
    assert await shop.state("x") is None


@pytest.mark.parametrize("step", ["create", "deliver"])
async def test_a_crash_between_the_writes_is_finished_by_the_timer(
    shop: Shop, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At both points at which whoever wrote the report can die."""

    async def crashed(*_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        if step == "create":
            patch.setattr(shop.engine.store, "create", crashed)
        else:
            patch.setattr(Control, "act_each", crashed)
        await shop.submit("a", options={"retention": 0})
        (task,) = await shop.claim()
        assert await shop.engine.report(task, DONE, [child("b")]) is State.COMPLETED
        await shop.told()
    assert (await shop.state("b") is None) == (step == "create")
    for command in (Delete(), Rerun()):
        (acted,) = await shop.engine.act(["a"], command, force=True)
        assert isinstance(acted.error, InvalidTransition)
        assert "'b' is not stored yet" in str(acted.error)
    assert [d.id for d in (await shop.task("a")).status.owes] == ["b"]
    if step == "deliver":
        assert (await shop.run()).id == "b"  # it does not wait for what was not noted
    await shop.later(3)
    assert await shop.state("a") is None  # discarded, now that it owes nothing
    assert await events(shop, "b") == [Event.SUBMIT] + [Event.CLAIM, Event.COMPLETE] * (
        step == "deliver"
    )
    ended = await shop.engine.wait_end("a", 60)
    assert (ended.state, ended.result) == (State.COMPLETED, b"1")


async def test_what_is_being_paid_is_not_paid_by_its_timer_as_well(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = shop.engine.store.create
    begun, may_go_on = asyncio.Event(), asyncio.Event()
    created: list[str] = []

    async def slow(tasks: Sequence[Task]) -> list[Created]:
        created.extend(task.id for task in tasks)
        begun.set()
        await may_go_on.wait()
        return await create(tasks)

    await shop.submit("a")
    (task,) = await shop.claim()
    monkeypatch.setattr(shop.engine.store, "create", slow)
    await shop.engine.report(task, DONE, [child("b")])
    await begun.wait()
    shop.clock.ms += 3_000
    await shop.engine.timekeeper.run_once()
    assert created == ["b"]
    may_go_on.set()
    await shop.told()
    assert await shop.state("b") is State.PENDING
    assert (await shop.task("a")).status.owes == ()
    await shop.later(600)
    assert created == ["b"], "nothing is owed any more"


async def test_a_refused_birth_does_not_undo_the_move_and_the_event_says_why(shop: Shop) -> None:
    await shop.submit("holder", unique_key="k", delay=60)
    await shop.submit("taken", name="other", delay=60)
    await bear(
        shop,
        child("b", unique_key="k"),
        child("behind", dependencies=("b",)),
        child("taken"),
        child("good"),
    )
    await shop.told()
    assert await shop.state("good") is State.PENDING
    assert (await shop.state("b"), await shop.state("behind")) == (None, None)
    assert (await shop.task("taken")).definition.name == "other"
    told = await refused_of(shop, "a")
    assert told is not None
    assert told.code == REFUSED
    assert "'holder'" in told.message
    for refused in ("b was not stored", "behind was not stored", "taken was not stored"):
        assert refused in told.message
    a = await shop.task("a")
    assert (a.state, a.status.owes, a.status.last_error) == (State.COMPLETED, (), None)


async def test_one_birth_and_one_bearer_that_fail_hold_up_no_other(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    create: Any = shop.engine.store.create

    async def creates(tasks: Sequence[Task]) -> list[Created]:
        if any(task.id == "unwritable" for task in tasks):
            raise ValueError("a value that the store cannot write")
        return await create(tasks)

    def admits(definition: Definition, now: int, write_id: str) -> Task:
        if definition.id == "undecidable":
            raise KeyError("of a newer release")
        return admit(definition, now, write_id)

    monkeypatch.setattr(shop.engine.store, "create", creates)
    monkeypatch.setattr(debts, "admit", admits)
    ids = ("a1", "a2", "a3")
    for task_id in ids:
        await shop.submit(task_id)
    tasks = {task.id: task for task in await shop.claim(3)}
    bear = (["unwritable", "b1"], ["undecidable"], ["b3"])
    for task_id, births in zip(ids, bear, strict=True):
        await shop.engine.report(tasks[task_id], DONE, [child(i) for i in births])
    await shop.told()
    assert [await shop.state(i) for i in ("b1", "b3")] == [State.PENDING] * 2
    assert [await shop.state(i) for i in ("unwritable", "undecidable")] == [None] * 2
    told = await refused_of(shop, "a1")
    assert told is not None
    assert "unwritable was not stored" in told.message
    assert (await shop.task("a2")).status.owes  # it is tried again, when the reason may be gone
    monkeypatch.setattr(debts, "admit", admit)
    await shop.later(3)
    assert await shop.state("undecidable") is State.PENDING


async def test_a_birth_whose_held_key_cannot_be_settled_fails_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("bad", "good"):
        await shop.submit(key, name="child", unique_key=key, delay=60)
    cannot_settle(monkeypatch, "bad2")
    await bear(
        shop,
        child("bad2", unique_key="bad", on_held="supersede"),
        child("good2", unique_key="good", on_held="supersede"),
        child("third"),
    )
    await shop.told()
    assert [await shop.state(i) for i in ("good2", "third")] == [State.PENDING] * 2
    assert await shop.state("bad2") is None
    told = await refused_of(shop, "a")
    assert told is not None
    assert "bad2 was not stored" in told.message


async def test_a_full_queue_does_not_keep_births_out(shop: Shop) -> None:
    await shop.engine.configure_queue("small", {"max_size": 1})
    await shop.submit("there", queue="small")
    assert (await shop.try_submit("more", queue="small")).error is not None
    await bear(shop, child("b", queue="small"), child("c", queue="small"))
    await shop.told()
    await shop.later(1)
    assert [await shop.state(i) for i in ("b", "c")] == [State.PENDING] * 2


async def test_births_may_depend_on_each_other_on_their_bearer_and_on_tasks_that_are_there(
    shop: Shop,
) -> None:
    await shop.submit("there", delay=60)
    await bear(
        shop,
        child("last", dependencies=("first",)),
        child("first", dependencies=("a",)),
        child("waits", dependencies=("there",)),
        child("lost", dependencies=("nowhere",)),
        options={"retention": 0},
    )
    await shop.told()
    states = [await shop.state(i) for i in ("first", "last", "waits", "lost")]
    assert states == [State.PENDING, State.BLOCKED, State.BLOCKED, State.UNREACHABLE]
    assert (await shop.run()).id == "first"
    assert await shop.state("last") is State.PENDING


@pytest.mark.parametrize(
    ("follow_ups", "told"),
    [
        ([child(f"c{n}") for n in range(101)], "at most 100"),
        ([child("b", args=b'"' + b"x" * 70_000 + b'"')], "the limit is 65,536"),
        ([child("a")], "the task's own"),
        ([child("b"), child("b")], "that of two"),
        ([child("no id")], "Follow-up 'no id'"),
        ([child("b", options={"nothing": 1})], "Follow-up 'b'"),
        ([child("b", dependencies=("c",)), child("c", dependencies=("b",))], "circle"),
        ([child("b", invalid="The arguments do not fit.")], "do not fit"),
    ],
)
async def test_what_cannot_be_borne_is_refused_before_anything_is_written(
    shop: Shop, follow_ups: list[Submission], told: str
) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    with pytest.raises(InvalidSubmission, match=told):
        await shop.engine.report(task, DONE, [child("good"), *follow_ups])
    await shop.told()
    assert (await shop.state("a"), await shop.state("good")) == (State.ACTIVE, None)


async def test_a_rerun_bears_anew(shop: Shop) -> None:
    await bear(shop, child("b1"))
    await shop.told()
    await shop.run()
    await shop.engine.act(["a"], Rerun())
    (task,) = await shop.claim()
    await shop.engine.report(task, DONE, [child("b2")])
    await shop.told()
    assert [await shop.state(i) for i in ("b1", "b2")] == [State.COMPLETED, State.PENDING]


async def test_many_debts_are_paid_by_few_calls(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    create: Any = shop.engine.store.create

    async def counted(tasks: Sequence[Task]) -> list[Created]:
        calls.append(len(tasks))
        return await create(tasks)

    for n in range(100):
        await shop.submit(f"a{n}")
    tasks = await shop.claim(100)
    monkeypatch.setattr(shop.engine.store, "create", counted)
    reports = [shop.engine.report(t, DONE, [child(f"b{n}")]) for n, t in enumerate(tasks)]
    assert await asyncio.gather(*reports) == [State.COMPLETED] * 100
    await shop.told()
    assert sum(calls) == 100
    assert len(calls) <= 20
    bearers = await shop.engine.get([f"a{n}" for n in range(100)])
    assert not any(task is None or task.status.owes for task in bearers)
