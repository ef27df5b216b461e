"""Blocked tasks that ask again delay no timer, and many of them cost few calls."""

import asyncio

import pytest

from andon.contract.limits import MAX_BATCH
from andon.engine import verifying
from andon.lifecycle.commands import Complete, Fail
from andon.lifecycle.timers import VERIFY_FIRST_MS
from andon.model.task import TaskError
from andon.model.words import State

from .conftest import Shop
from .faulty import Faulty

MANY = 1_000
PATIENCE_S = 60.0
FAILS = Fail(error=TaskError(message="x"), retryable=False)


async def blocked(shop: Shop, count: int = MANY) -> list[str]:
    """Children of one parent."""
    await shop.submit("parent")
    ids = [f"child{n:05}" for n in range(count)]
    outcomes = await shop.engine.submit([shop.submission(i, dependencies=("parent",)) for i in ids])
    assert all(outcome.error is None for outcome in outcomes)
    return ids


async def test_a_start_that_is_due_comes_before_the_many_that_ask(
    shop: Shop, faulty: Faulty
) -> None:
    await blocked(shop)
    await shop.submit("start", delay=2 * VERIFY_FIRST_MS / 1000)
    shop.clock.ms += 3 * VERIFY_FIRST_MS
    with faulty.held("link"):
        firing = asyncio.ensure_future(shop.fire())
        async with asyncio.timeout(PATIENCE_S):
            while await shop.state("start") is not State.PENDING:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert not firing.done(), "nobody is verified yet"
    await firing


async def test_many_that_ask_are_verified_in_batches(shop: Shop, faulty: Faulty) -> None:
    await blocked(shop)
    faulty.calls.clear()
    await shop.until_asked()
    assert faulty.calls["link"] == MANY // MAX_BATCH
    assert faulty.calls["rearm"] <= 2 * MANY // MAX_BATCH
    faulty.calls.clear()
    await shop.later(1)
    assert faulty.calls["link"] == 0, "they ask again after a while"


async def test_the_line_of_those_that_ask_is_bounded(
    shop: Shop, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "MOST_WAITING", 400)
    await blocked(shop)
    faulty.calls.clear()
    with faulty.held("link"):
        firing = asyncio.ensure_future(shop.until_asked())
        async with asyncio.timeout(PATIENCE_S):
            while faulty.calls["take_due"] <= MANY // MAX_BATCH:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            while faulty.calls["rearm"] < 3:  # noqa: ASYNC110 - those that found the line full
                await asyncio.sleep(0.005)
    await firing
    assert faulty.calls["link"] == 2
    for _ in range(10):
        await shop.later(10)
    assert faulty.calls["link"] >= MANY // MAX_BATCH, "the others have their turn"


async def test_a_parent_that_fails_costs_about_what_one_that_completes_costs(
    shop: Shop, faulty: Faulty
) -> None:
    calls: dict[State, int] = {}
    for command, follows in ((Complete(), State.PENDING), (FAILS, State.UNREACHABLE)):
        ids = [f"{follows}{n:05}" for n in range(MANY)]
        parent = f"parent-{follows}"
        await shop.submit(parent)
        await shop.engine.submit([shop.submission(i, dependencies=(parent,)) for i in ids])
        (task,) = [t for t in await shop.claim(2_000) if t.id == parent]
        before = faulty.calls.total()
        await shop.engine.report(task, command)
        await shop.told()
        calls[follows] = faulty.calls.total() - before
        assert {task.state for task in await shop.engine.get(ids) if task} == {follows}
    assert calls[State.UNREACHABLE] <= 2 * calls[State.PENDING]


async def test_those_that_ask_wait_while_ends_are_told(shop: Shop, faulty: Faulty) -> None:
    await blocked(shop, 10)
    (parent,) = await shop.claim()
    with faulty.held("settle"):
        await shop.engine.report(parent, Complete())
        async with asyncio.timeout(PATIENCE_S):
            while not faulty.calls["settle"]:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        faulty.calls.clear()
        firing = asyncio.ensure_future(shop.until_asked())
        line = shop.engine.timekeeper._verifying._line  # pyright: ignore[reportPrivateUsage]
        async with asyncio.timeout(PATIENCE_S):
            while len(line) < 10:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        for _ in range(100):
            await asyncio.sleep(0)
        assert faulty.calls["link"] == 0, "this process is about to tell them"
    await firing
    assert faulty.calls["link"] == 0, "whoever has been told asks no more"
    assert faulty.calls["settle"] == 0, "nobody was told twice"


async def test_those_that_ask_wait_for_ends_no_longer_than_is_good_for_them(
    shop: Shop, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "_PATIENCE_S", 0.01)
    await blocked(shop, 10)
    (parent,) = await shop.claim()
    with faulty.held("settle"):
        await shop.engine.report(parent, Complete())
        firing = asyncio.ensure_future(shop.until_asked())
        async with asyncio.timeout(PATIENCE_S):
            while faulty.calls["link"] < 2:  # noqa: ASYNC110 - the first was that of the submit
                await asyncio.sleep(0.005)
    await firing
