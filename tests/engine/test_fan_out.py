"""What a run fans out runs if and only if that very run completes."""

from typing import Any

import pytest
from msgspec.structs import replace

from andon.engine.base import Submission
from andon.lifecycle.commands import Cancel, Complete, Fail, Rerun
from andon.lifecycle.fan_out import run_header
from andon.model.errors import LeaseLost, StoreUnavailable
from andon.model.task import Task, TaskError
from andon.model.words import Reason, State

from .conftest import Shop

DONE = Complete(result=b"1")
NO = Fail(error=TaskError(message="no"), retryable=False)
AGAIN = Fail(error=TaskError(message="again"))


async def begun(shop: Shop, task_id: str = "bearer", **options: Any) -> Task:
    """A run in hand."""
    told = {"max_retries": 3, "retry_delay": None, "on_lost": "retry", **options}
    await shop.submit(task_id, options=told)
    [run] = await shop.claim()
    assert run.id == task_id
    return run


def member(shop: Shop, run: Task, task_id: str, **fields: Any) -> Submission:
    """One task that this run fans out, as `Flow.fan_out` makes it."""
    fields = {"dependencies": (run.id,), "headers": run_header(run.id, run.status.run), **fields}
    return shop.submission(task_id, "member", **fields)


async def fan_out(shop: Shop, run: Task, *ids: str, **fields: Any) -> None:
    outcomes = await shop.engine.submit([member(shop, run, one, **fields) for one in ids])
    assert [one.error for one in outcomes] == [None] * len(ids)


async def states(shop: Shop, *ids: str) -> list[State | None]:
    return await shop.engine.store.states(list(ids))


async def report(shop: Shop, run: Task, command: Any) -> None:
    await shop.engine.report(run, command)
    await shop.told()


async def test_it_waits_for_the_end_of_the_run_and_runs_when_that_completes(shop: Shop) -> None:
    run = await begun(shop)
    await fan_out(shop, run, "a", "b")
    assert await states(shop, "a", "b") == [State.BLOCKED] * 2
    await report(shop, run, DONE)
    assert await states(shop, "a", "b") == [State.PENDING] * 2


async def test_it_is_unreachable_when_the_run_fails_for_good(shop: Shop) -> None:
    run = await begun(shop)
    await fan_out(shop, run, "a", "b")
    await report(shop, run, NO)
    assert await states(shop, "a", "b") == [State.UNREACHABLE] * 2


@pytest.mark.parametrize("how", ["failed", "lost"])
async def test_of_a_run_that_was_tried_again_only_what_the_last_one_fanned_out_runs(
    shop: Shop, how: str
) -> None:
    first = await begun(shop)
    await fan_out(shop, first, "a", "b")
    if how == "failed":
        await report(shop, first, AGAIN)
    else:
        await shop.later(31)
    assert await states(shop, "a", "b") == [State.BLOCKED] * 2
    [second] = await shop.claim()
    await fan_out(shop, second, "c", "d")
    await report(shop, second, DONE)
    assert await states(shop, *"abcd") == [State.CANCELLED] * 2 + [State.PENDING] * 2
    assert (await shop.task("a")).status.reason is Reason.SUPERSEDED_RUN


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "discarded"])
async def test_a_run_that_has_lost_its_lease_and_fans_out_late_starts_nothing(
    shop: Shop, kept: bool
) -> None:
    options: dict[str, Any] = {} if kept else {"discard_states": ("completed",)}
    zombie = await begun(shop, **options)
    await shop.later(31)
    [run] = await shop.claim()
    await report(shop, run, DONE)
    await fan_out(shop, zombie, "late")
    await fan_out(shop, run, "fine")
    assert await states(shop, "late", "fine") == [State.CANCELLED, State.PENDING]
    with pytest.raises(LeaseLost):
        await shop.engine.report(zombie, DONE)


async def test_what_takes_any_end_does_not_run_for_a_run_that_was_superseded(shop: Shop) -> None:
    first = await begun(shop)
    await fan_out(shop, first, "a")
    await fan_out(shop, first, "close", dependencies=("a",), requires="all-resolved")
    await report(shop, first, AGAIN)
    [second] = await shop.claim()
    await fan_out(shop, second, "b")
    await fan_out(shop, second, "closes", dependencies=("b",), requires="all-resolved")
    await report(shop, second, DONE)
    assert await states(shop, "a", "close") == [State.CANCELLED] * 2
    assert (await shop.run(NO)).id == "b"
    assert await shop.state("closes") is State.PENDING


@pytest.mark.parametrize("operation", ["dependents_of_each", "settle", "get"])
async def test_a_crash_before_its_end_was_told_is_finished_by_the_timer(
    shop: Shop, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crashed(*_: object) -> None:
        raise StoreUnavailable("away")

    first = await begun(shop)
    await fan_out(shop, first, "a")
    await report(shop, first, AGAIN)
    [second] = await shop.claim()
    await fan_out(shop, second, "b")
    with monkeypatch.context() as patch:
        patch.setattr(shop.engine.store, operation, crashed)
        await report(shop, second, DONE)
    assert await states(shop, "a", "b") == [State.BLOCKED] * 2
    await shop.later(3_600)
    assert await states(shop, "a", "b") == [State.CANCELLED, State.PENDING]


@pytest.mark.parametrize("end", [DONE, NO], ids=["completed", "failed"])
async def test_what_a_completed_run_fanned_out_runs_though_its_task_was_rerun_since(
    shop: Shop, end: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crashed(*_: object) -> None:
        raise StoreUnavailable("away")

    run = await begun(shop)
    await fan_out(shop, run, "a")
    with monkeypatch.context() as patch:
        patch.setattr(shop.engine.store, "dependents", crashed)
        await report(shop, run, DONE)
    await shop.engine.act(["bearer"], Rerun())
    [again] = await shop.claim()
    await fan_out(shop, again, "b")
    await report(shop, again, end)
    other = State.PENDING if end is DONE else State.UNREACHABLE
    assert await states(shop, "a", "b") == [State.PENDING, other]


async def test_one_that_cannot_be_told_holds_up_no_other(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle: Any = shop.engine.store.settle

    async def fails_for_one(ends: Any) -> Any:
        if any(end.child == "m3" for end in ends):
            raise ValueError("it cannot be encoded")
        return await settle(ends)

    run = await begun(shop)
    await fan_out(shop, run, *(f"m{n}" for n in range(8)))
    monkeypatch.setattr(shop.engine.store, "settle", fails_for_one)
    await report(shop, run, DONE)
    told = await states(shop, *(f"m{n}" for n in range(8)))
    assert told == [State.PENDING] * 3 + [State.BLOCKED] + [State.PENDING] * 4


async def test_many_are_told_with_one_look_at_the_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await begun(shop)
    await fan_out(shop, run, *(f"m{n}" for n in range(1_000)))
    looks: list[int] = []
    get: Any = shop.engine.store.get

    async def counted(ids: Any) -> Any:
        looks.append(len(ids))
        return await get(ids)

    monkeypatch.setattr(shop.engine.store, "get", counted)
    await report(shop, run, DONE)
    assert set(await states(shop, *(f"m{n}" for n in range(1_000)))) == {State.PENDING}
    assert looks.count(1) <= len(looks) // 2, "one for a batch of children"


async def test_only_what_waits_is_superseded(shop: Shop) -> None:
    run = await begun(shop)
    [acted] = await shop.engine.act([run.id], Cancel(superseded_run=True))
    assert "Only a task that waits is superseded" in str(acted.error)


async def test_a_header_that_names_no_run_does_no_harm(shop: Shop) -> None:
    run = await begun(shop)
    odd = [
        replace(member(shop, run, f"odd{place}"), headers={"andon-run": text})
        for place, text in enumerate(("", "no id of a task/x", "bearer", "/", "nobody/x"))
    ]
    await shop.engine.submit(odd)
    await report(shop, run, DONE)
    told = await states(shop, *(one.id for one in odd))
    assert told[0] is State.PENDING
    assert told[2] is State.CANCELLED, "it names a run that there is none of"
    assert State.BLOCKED not in told
