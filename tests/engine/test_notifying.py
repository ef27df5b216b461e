"""Ends are told many in each call; none waits for the fan-out of another, and a bad one fails
alone."""

import asyncio
from typing import Any

import pytest

from andon.engine import dependencies, notifying, timekeeper
from andon.lifecycle.commands import Complete, Fail, Rerun
from andon.model.errors import StoreUnavailable
from andon.model.task import Task, TaskError
from andon.model.words import State

from .conftest import Shop
from .faulty import Faulty

pytestmark = pytest.mark.usefixtures("edges_left")

MANY = 25
NO = Fail(error=TaskError(message="no"), retryable=False)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that is gathered is done when somebody waits for it."""
    monkeypatch.setattr(dependencies, "_GATHERS_S", 3600.0)


async def submitted(shop: Shop, ids: list[str], **fields: Any) -> None:
    outcomes = await shop.engine.submit([shop.submission(one, **fields) for one in ids])
    assert [one.error for one in outcomes] == [None] * len(ids)


async def states(shop: Shop, ids: list[str]) -> set[State | None]:
    return set(await shop.engine.store.states(ids))


async def report(shop: Shop, runs: list[Task], command: Any) -> None:
    await asyncio.gather(*(shop.engine.report(run, command) for run in runs))
    await shop.told()


@pytest.mark.parametrize("command", [Complete(), NO], ids=["completed", "failed"])
async def test_ends_of_many_that_one_waits_for_are_told_in_few_calls(
    shop: Shop, faulty: Faulty, command: Any
) -> None:
    members = [f"m{number:02}" for number in range(MANY)]
    await submitted(shop, members)
    await shop.submit("closing", dependencies=tuple(members))
    runs = await shop.claim(MANY)
    faulty.calls.clear()
    await report(shop, runs, command)
    told = State.PENDING if isinstance(command, Complete) else State.UNREACHABLE
    assert await shop.state("closing") is told
    assert faulty.calls["dependents_of_each"] <= 5
    assert faulty.calls["settle"] <= 5


async def test_dependents_beyond_the_first_and_beyond_a_page_are_told(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "FIRST", 3)
    monkeypatch.setattr(notifying, "PAGE", 5)
    children = [f"c{number:02}" for number in range(MANY)]
    for parent in ("few", "many"):
        await shop.submit(parent)
    await submitted(shop, ["c"], dependencies=("few",))
    await submitted(shop, children, dependencies=("many",))
    await report(shop, await shop.claim(2), Complete())
    assert await states(shop, ["c", *children]) == {State.PENDING}


async def test_no_end_waits_for_the_fan_out_of_another(
    shop: Shop, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "FIRST", 2)
    children = [f"c{number:02}" for number in range(MANY)]
    for parent in ("many", "one"):
        await shop.submit(parent)
    await submitted(shop, children, dependencies=("many",))
    await submitted(shop, ["child"], dependencies=("one",))
    many, one = await shop.claim(2)
    asked, may_go_on = asyncio.Event(), asyncio.Event()
    real = faulty.real.dependents_of_each

    async def pages_wait(parents: Any, limit: int) -> Any:
        if limit == notifying.PAGE:
            asked.set()
            await may_go_on.wait()
        return await real(parents, limit)

    monkeypatch.setattr(faulty.real, "dependents_of_each", pages_wait)
    await shop.engine.report(many, Complete())
    await asked.wait()
    await shop.engine.report(one, Complete())
    while await shop.state("child") is not State.PENDING:  # noqa: ASYNC110 - told in background
        await asyncio.sleep(0)
    assert State.BLOCKED in await states(shop, children)
    may_go_on.set()
    await shop.told()
    assert await states(shop, children) == {State.PENDING}


async def test_what_ends_anew_while_it_is_told_is_told_from_the_first_on(
    shop: Shop, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "FIRST", 2)
    monkeypatch.setattr(notifying, "PAGE", 5)
    children = [f"c{number:02}" for number in range(MANY)]
    options = {"on_dependency_failure": "wait"}
    await shop.submit("parent")
    await submitted(shop, children, dependencies=("parent",), options=options)
    [run] = await shop.claim()
    pages: list[str] = []
    asked, may_go_on = asyncio.Event(), asyncio.Event()
    real = faulty.real.dependents_of_each

    async def third_page_waits(parents: Any, limit: int) -> Any:
        pages.extend(after for _, after in parents)
        if len(pages) == 3:
            asked.set()
            await may_go_on.wait()
        return await real(parents, limit)

    monkeypatch.setattr(faulty.real, "dependents_of_each", third_page_waits)
    await shop.engine.report(run, NO)
    await asked.wait()
    await shop.engine.act(["parent"], Rerun())
    [again] = await shop.claim()
    await shop.engine.report(again, NO)
    may_go_on.set()
    await shop.told()
    assert pages.count("") == 2
    assert pages.count("c06") >= 1, "and the pages of before are told once more"
    edges = await shop.engine.store.dependents("parent")
    assert all(edge.settled for edge in edges)


async def test_a_fan_out_that_is_being_told_is_not_begun_anew(
    shop: Shop, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "FIRST", 2)
    monkeypatch.setattr(notifying, "PAGE", 5)
    monkeypatch.setattr(timekeeper, "LOOKS_LEFT_OUT", 0)
    children = [f"c{number:02}" for number in range(MANY)]
    await shop.submit("parent")
    await submitted(shop, children, dependencies=("parent",))
    [run] = await shop.claim()
    begun: list[str] = []
    real = faulty.real.dependents_of_each

    async def looked_at(parents: Any, limit: int) -> Any:
        begun.extend(parent for parent, after in parents if not after)
        await shop.engine.timekeeper.housekeep()
        return await real(parents, limit)

    monkeypatch.setattr(faulty.real, "dependents_of_each", looked_at)
    await report(shop, [run], Complete())
    assert await states(shop, children) == {State.PENDING}
    assert begun == ["parent"]


async def test_who_is_telling_ends_looks_for_what_a_crash_left_now_and_then_only(
    shop: Shop, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.submit("parent")
    await shop.submit("child", dependencies=("parent",))
    [run] = await shop.claim()
    asked, may_go_on = asyncio.Event(), asyncio.Event()
    real = faulty.real.dependents_of_each

    async def slow(parents: Any, limit: int) -> Any:
        asked.set()
        await may_go_on.wait()
        return await real(parents, limit)

    monkeypatch.setattr(faulty.real, "dependents_of_each", slow)
    await shop.engine.report(run, Complete())
    await asked.wait()
    chores = shop.engine.timekeeper.housekeep
    before = faulty.calls["take_unsettled"]
    looks: list[int] = []
    for _ in range(2 * (timekeeper.LOOKS_LEFT_OUT + 1)):
        await chores()
        looks.append(faulty.calls["take_unsettled"] - before)
    assert looks[timekeeper.LOOKS_LEFT_OUT - 1] == 0
    assert looks[timekeeper.LOOKS_LEFT_OUT] == 1
    assert looks[-1] == 2
    may_go_on.set()
    await shop.told()
    await chores()
    assert faulty.calls["take_unsettled"] - before == 3, "it has time for it again"


async def test_a_dependent_that_cannot_be_told_keeps_no_other_end_from_anybody(
    shop: Shop, faulty: Faulty
) -> None:
    parents = [f"p{number}" for number in range(5)]
    await submitted(shop, parents)
    for parent in parents:
        await shop.submit(f"c{parent}", dependencies=(parent,))
    runs = await shop.claim(5)
    faulty.bad = {"cp2"}
    faulty.fails = {"settle": RuntimeError("a defect"), "link": RuntimeError("a defect")}
    await report(shop, runs, Complete())
    others = [f"c{parent}" for parent in parents if parent != "p2"]
    assert await states(shop, others) == {State.PENDING}
    assert await shop.state("cp2") is State.BLOCKED
    faulty.fails = {}
    await shop.later(600)
    assert await shop.state("cp2") is State.PENDING


async def test_a_record_that_cannot_be_read_keeps_no_other_end_from_anybody(
    shop: Shop, faulty: Faulty
) -> None:
    parents = [f"p{number}" for number in range(5)]
    await submitted(shop, parents)
    for parent in parents:
        await shop.submit(f"c{parent}", dependencies=(parent,))
    runs = await shop.claim(5)
    faulty.bad = {"cp2"}
    faulty.fails = {"get": RuntimeError("a defect")}
    await report(shop, runs, Complete())
    faulty.fails = {}
    others = [f"c{parent}" for parent in parents if parent != "p2"]
    assert await states(shop, others) == {State.PENDING}
    assert await shop.state("cp2") is State.BLOCKED
    await shop.later(600)
    assert await shop.state("cp2") is State.PENDING, "its verify timer finds the end"


async def test_while_the_store_is_away_nothing_is_told_and_after_it_all_is(
    shop: Shop, faulty: Faulty
) -> None:
    await submitted(shop, ["a", "b"])
    await shop.submit("closing", dependencies=("a", "b"))
    runs = await shop.claim(2)
    faulty.broken = {"dependents_of_each": StoreUnavailable("away")}
    await report(shop, runs, Complete())
    assert await shop.state("closing") is State.BLOCKED
    faulty.broken = {}
    await shop.engine.timekeeper.housekeep()
    await shop.told()
    assert await shop.state("closing") is State.PENDING


@pytest.mark.usefixtures("patient")
async def test_results_that_nobody_needs_any_more_are_released_together(
    shop: Shop, faulty: Faulty
) -> None:
    await submitted(shop, ["p0", "p1", "p2"])
    for number in range(3):
        loads = {"dependencies": (f"p{number}",), "load_dependencies": True}
        await submitted(shop, [f"c{number}"], **loads)
    await report(shop, await shop.claim(3), Complete())
    faulty.calls.clear()
    for run in await shop.claim(3):
        assert run.id in {"c0", "c1", "c2"}
        await shop.engine.report(run, Complete())
    assert faulty.calls["release_edges"] == 0
    await shop.told()
    assert faulty.calls["release_edges"] == 1
    edges = [e for n in range(3) for e in await shop.engine.store.dependents(f"p{n}")]
    assert [edge.loads for edge in edges] == [False] * 3
