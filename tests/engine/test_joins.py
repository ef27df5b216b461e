"""A blocked task waits for what the runs that it waits for add, too
(docs/decisions/members-added.md)."""

import asyncio
from typing import Any

import pytest

from andon.engine.base import Submission
from andon.engine.control import Control
from andon.engine.extending import Extending
from andon.engine.local import LocalEngine
from andon.lifecycle import joins
from andon.lifecycle.commands import Cancel, Complete, Delete, Fail, Rerun, Schedule, Unblock
from andon.model.errors import InvalidSubmission, LeaseLost, StoreUnavailable
from andon.model.headers import BEFORE_HEADER
from andon.model.task import Task, TaskError
from andon.model.words import Event, State

from .conftest import Shop

DONE = Complete(result=b"1")
NO = Fail(error=TaskError(message="no"), retryable=False)
OPTIONS = {"max_retries": 3, "retry_delay": None, "on_lost": "retry"}


def member(task_id: str, join: str = "join", **fields: Any) -> Submission:
    """A follow-up that the join is to wait for."""
    headers = {BEFORE_HEADER: join}
    return Submission(id=task_id, name="member", headers=headers, options=OPTIONS, **fields)


async def flow(shop: Shop, *members: str, **fields: Any) -> dict[str, Task]:
    """Members, and a join that waits for them; the runs of all members, in hand."""
    for one in members:
        await shop.submit(one, options=OPTIONS)
    await shop.submit("join", dependencies=members, **fields)
    return {run.id: run for run in await shop.claim(len(members))}


async def report(
    shop: Shop, run: Task, *follow_ups: Submission, command: Any = DONE
) -> State | None:
    state = await shop.engine.report(run, command, follow_ups)
    await shop.told()
    return state


async def claim_one(shop: Shop, task_id: str) -> Task:
    (run,) = await shop.claim()
    assert run.id == task_id
    return run


async def test_a_join_waits_for_what_its_last_member_adds_and_what_that_adds(shop: Shop) -> None:
    runs = await flow(shop, "a", "b")
    await report(shop, runs["b"])
    await report(shop, runs["a"], member("c"), member("d"))
    assert await shop.state("join") is State.BLOCKED
    c, d = await shop.claim(2)
    await report(shop, c, member("e"))
    await report(shop, d)
    assert await shop.state("join") is State.BLOCKED
    await report(shop, await claim_one(shop, "e"))
    assert await shop.state("join") is State.PENDING
    events = (await shop.engine.history("join")).events
    assert [e.event for e in events] == [Event.SUBMIT, Event.EXTEND, Event.EXTEND, Event.UNBLOCK]


async def test_its_handler_is_given_the_results_of_what_was_added(shop: Shop) -> None:
    runs = await flow(shop, "a", load_dependencies=True)
    await report(shop, runs["a"], member("b"))
    await shop.run(Complete(result=b"2"))
    results = await shop.engine.dependency_results(await claim_one(shop, "join"))
    assert {i: t and t.result for i, t in results.items()} == {"a": b"1", "b": b"2"}


@pytest.mark.parametrize("step", ["extend", "complete", "create", "link", "deliver"])
async def test_a_crash_after_each_write_is_finished_by_another_engine(
    shop: Shop, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`step` is the write that is not made any more, nor any after it."""

    async def crashed(*_: object, **__: object) -> Any:
        raise StoreUnavailable("away")

    def dead(*_: object) -> None: ...

    store = shop.engine.store
    runs = await flow(shop, "a", "b")
    await report(shop, runs["b"])
    with monkeypatch.context() as patch:
        if step == "extend":
            patch.setattr(Extending, "extend", crashed)
        elif step == "complete":
            patch.setattr(shop.engine._runs, "_report", crashed)  # pyright: ignore[reportPrivateUsage]
        elif step == "deliver":
            patch.setattr(Control, "act_each", _only_extends(Control.act_each, crashed))
        else:
            patch.setattr(store, step, crashed)
        if step in ("extend", "complete"):
            with pytest.raises(StoreUnavailable):
                await report(shop, runs["a"], member("c"))
        else:
            await report(shop, runs["a"], member("c"))
            assert await shop.state("a") is State.COMPLETED
        patch.setattr(shop.engine._debts, "pay_soon", dead)  # pyright: ignore[reportPrivateUsage]
    assert await shop.state("join") is State.BLOCKED
    first, shop.engine = shop.engine, LocalEngine(store)
    try:
        if step in ("extend", "complete"):
            await shop.later(31)  # the lease is over
            await report(shop, await claim_one(shop, "a"), member("c"))
        else:
            await shop.until_asked()
        assert await shop.state("join") is State.BLOCKED
        assert (await shop.task("a")).status.owes == ()
        await report(shop, await claim_one(shop, "c"))
        assert await shop.state("join") is State.PENDING
    finally:
        shop.engine = first  # which has opened the store, and closes it


def _only_extends(act_each: Any, crashed: Any) -> Any:
    async def acts(self: Control, acts: Any) -> Any:
        if any(command.event is Event.DELIVER for _, command in acts):
            await crashed()
        return await act_each(self, acts)

    return acts


@pytest.mark.parametrize("adds_again", [True, False])
async def test_what_a_lost_run_added_holds_nothing_up(
    shop: Shop, adds_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crashed(*_: object, **__: object) -> Any:
        raise StoreUnavailable("away")

    runs = await flow(shop, "a")
    with monkeypatch.context() as patch:
        patch.setattr(shop.engine._runs, "_report", crashed)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(StoreUnavailable):
            await report(shop, runs["a"], member("lost"))
    assert [one.tasks for one in (await shop.task("join")).status.added] == [("lost",)]
    await shop.later(31)
    again = await claim_one(shop, "a")
    await report(shop, again, *([member("c")] if adds_again else []))
    if adds_again:
        assert await shop.state("join") is State.BLOCKED
        await report(shop, await claim_one(shop, "c"))
    assert await shop.state("join") is State.PENDING
    assert await shop.state("lost") is None


async def test_a_run_that_lost_its_lease_adds_nothing(shop: Shop) -> None:
    runs = await flow(shop, "a", "b")
    await shop.later(31)
    again = {run.id: run for run in await shop.claim(2)}
    await report(shop, again["a"], member("c"))
    for late in ([member("late")], [member("c")]):
        with pytest.raises(LeaseLost):
            await report(shop, runs["a"], *late)
    assert [one.tasks for one in (await shop.task("join")).status.added] == [("c",)]


async def test_a_report_is_repeated_though_its_join_has_ended_since(shop: Shop) -> None:
    runs = await flow(shop, "a")
    await report(shop, runs["a"], member("c"))
    await shop.run()
    await shop.run()
    assert await shop.state("join") is State.COMPLETED
    assert await report(shop, runs["a"], member("c")) is State.COMPLETED
    with pytest.raises(LeaseLost):
        await report(shop, runs["a"], member("x"))


@pytest.mark.parametrize("first", ["unblock", "extend"])
async def test_one_of_two_that_add_and_release_at_the_same_moment_is_decided_anew(
    shop: Shop, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member was rerun after it had ended, so that the join may be found free while it runs."""
    runs = await flow(shop, "a", "b")
    await report(shop, runs["a"])
    await shop.engine.act(["a"], Rerun())
    again = await claim_one(shop, "a")
    control = shop.engine._control  # pyright: ignore[reportPrivateUsage]
    join = await shop.task("join")
    if first == "unblock":
        (acted,) = await control.act_on([join], Unblock(added=join.status.added))
        assert acted.changed
        with pytest.raises(InvalidSubmission, match="waits for nothing any more"):
            await report(shop, again, member("c"))
        assert (await shop.state("a"), await shop.state("c")) == (State.ACTIVE, None)
        return
    await report(shop, again, member("c"))
    (acted,) = await control.act_on([join], Unblock(added=join.status.added))
    assert "waits for more tasks" in str(acted.error)
    assert await shop.state("join") is State.BLOCKED
    await report(shop, runs["b"])
    await shop.run()
    assert await shop.state("join") is State.PENDING


async def test_members_that_end_while_others_add_release_the_join_once_at_the_end(
    shop: Shop,
) -> None:
    names = [f"m{n}" for n in range(8)]
    runs = await flow(shop, *names)
    await asyncio.gather(
        *(
            shop.engine.report(run, DONE, [member(f"{one}-x")] if place % 2 else [])
            for place, (one, run) in enumerate(runs.items())
        )
    )
    await shop.told()
    assert await shop.state("join") is State.BLOCKED
    more = await shop.claim(8)
    assert sorted(run.id for run in more) == [f"m{n}-x" for n in (1, 3, 5, 7)]
    await asyncio.gather(*(shop.engine.report(run, DONE) for run in more))
    await shop.told()
    assert await shop.state("join") is State.PENDING


@pytest.mark.parametrize("requires", ["all-completed", "all-resolved"])
async def test_an_added_member_that_fails_is_as_any_dependency_that_does(
    shop: Shop, requires: str
) -> None:
    runs = await flow(shop, "a", requires=requires)
    await report(shop, runs["a"], member("c"))
    await report(shop, await claim_one(shop, "c"), command=NO)
    ended = requires == "all-completed"
    assert await shop.state("join") is (State.UNREACHABLE if ended else State.PENDING)


async def test_an_addition_that_is_refused_fails_its_own_join_and_no_other(shop: Shop) -> None:
    await shop.submit("holder", unique_key="k", delay=60)
    runs = await flow(shop, "a", "b")
    await shop.submit("other", dependencies=("a",))
    await report(shop, runs["a"], member("bad", unique_key="k"), member("good", "other"))
    assert await shop.state("join") is State.UNREACHABLE
    told = (await shop.task("join")).status.last_error
    assert told is not None
    assert "Dependency bad does not exist" in told.message
    await report(shop, await claim_one(shop, "good"))
    assert await shop.state("other") is State.PENDING
    assert await shop.state("b") is State.ACTIVE


async def test_a_bad_addition_does_not_hold_up_the_reports_beside_it(shop: Shop) -> None:
    runs = await flow(shop, "a", "b", "c")
    outcomes = await asyncio.gather(
        shop.engine.report(runs["a"], DONE, [member("x", "nowhere")]),
        shop.engine.report(runs["b"], DONE, [member("y")]),
        shop.engine.report(runs["c"], DONE),
        return_exceptions=True,
    )
    await shop.told()
    assert isinstance(outcomes[0], InvalidSubmission)
    assert outcomes[1:] == [State.COMPLETED, State.COMPLETED]
    assert [await shop.state(i) for i in ("a", "x", "y")] == [State.ACTIVE, None, State.PENDING]


async def refusal(shop: Shop, run: Task, *follow_ups: Submission) -> str:
    """Why it is refused; nothing is changed then."""
    join = await shop.engine.get(["join"])
    with pytest.raises(InvalidSubmission) as refused:
        await shop.engine.report(run, DONE, [Submission(id="fine", name="member"), *follow_ups])
    await shop.told()
    assert await shop.engine.get(["join"]) == join
    assert [await shop.state(i) for i in (run.id, "fine", "c")] == [State.ACTIVE, None, None]
    return str(refused.value)


@pytest.mark.parametrize(
    ("command", "told"),
    [(Schedule(), "waits for nothing any more"), (Cancel(), "has ended"), (Delete(), "no such")],
)
async def test_a_join_that_waits_no_longer_is_refused(shop: Shop, command: Any, told: str) -> None:
    runs = await flow(shop, "a")
    if isinstance(command, Delete):
        await shop.engine.act(["join"], Cancel())
    await shop.engine.act(["join"], command, force=True)
    assert told in await refusal(shop, runs["a"], member("c"))


async def test_a_join_that_does_not_wait_for_the_run_or_needs_some_only_is_refused(
    shop: Shop,
) -> None:
    runs = await flow(shop, "a", "b", needs=1)
    await shop.submit("other", dependencies=("b",))
    assert "does not wait for task 'a'" in await refusal(shop, runs["a"], member("c", "other"))
    assert "`needs`" in await refusal(shop, runs["a"], member("c"))
    assert "waits for nothing" in await refusal(shop, runs["a"], member("c", "a"))


async def test_what_would_wait_for_itself_in_a_circle_is_refused(shop: Shop) -> None:
    runs = await flow(shop, "a")
    await shop.submit("after", dependencies=("join",))
    for parent in ("join", "after"):
        told = await refusal(shop, runs["a"], member("c", dependencies=(parent,)))
        assert "wait for each other" in told
    told = await refusal(
        shop,
        runs["a"],
        member("c", dependencies=("between",)),
        Submission(id="between", name="member", dependencies=("after",)),
    )
    assert "wait for each other" in told


async def test_more_than_may_be_waited_for_is_refused(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joins, "MOST_WAITED_FOR", 3)
    runs = await flow(shop, "a", "b")
    assert "the limit is 3" in await refusal(shop, runs["a"], member("c"), member("d"))
    await report(shop, runs["a"], member("c"))
    assert await shop.state("c") is State.PENDING


async def test_a_member_whose_record_is_gone_by_then_counts_as_it_ended(shop: Shop) -> None:
    await shop.submit("a", options={**OPTIONS, "retention": 0})
    await shop.submit("b", options=OPTIONS)
    await shop.submit("join", dependencies=("a", "b"))
    a, b = await shop.claim(2)
    await report(shop, a)
    kept = {**OPTIONS, "retention": 0}
    follow_up = Submission(id="c", name="m", headers={BEFORE_HEADER: "join"}, options=kept)
    await shop.engine.report(b, DONE, [follow_up, member("d")])
    await shop.told()
    c, d = await shop.claim(2)
    await report(shop, c)
    await shop.later(3_600)
    assert await shop.state("a") is None
    assert await shop.state("join") is State.BLOCKED
    (d,) = await shop.claim()
    await report(shop, d)
    assert await shop.state("join") is State.PENDING


async def test_a_rerun_of_the_flow_waits_for_what_was_added_again(shop: Shop) -> None:
    runs = await flow(shop, "a")
    await report(shop, runs["a"], member("c"))
    await shop.run()
    await shop.run()
    assert await shop.state("join") is State.COMPLETED
    await shop.engine.act(["c"], Rerun())
    await shop.engine.act(["join"], Rerun(waits=True))
    assert await shop.state("join") is State.BLOCKED
    await report(shop, await claim_one(shop, "c"))
    assert await shop.state("join") is State.PENDING


async def test_what_is_added_keeps_its_record_until_the_join_has_ended(shop: Shop) -> None:
    runs = await flow(shop, "a")
    follow_up = Submission(
        id="c", name="m", headers={BEFORE_HEADER: "join"}, options={"retention": 1}
    )
    await shop.engine.report(runs["a"], DONE, [follow_up, member("d")])
    await shop.told()
    c, _ = await shop.claim(2)
    await report(shop, c)
    await shop.later(5)
    assert await shop.state("c") is State.COMPLETED
    await shop.engine.act(["join"], Cancel())
    await shop.told()
    await shop.later(5)
    assert await shop.state("c") is None
