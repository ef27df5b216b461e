"""Handlers that wait for tasks of their own, and what the log says when they take every slot."""

import asyncio
import logging

import pytest

from andon import Andon, Context
from andon.testing import running, virtual_time


@pytest.fixture
def shop(app: Andon) -> Andon:
    @app.task(name="pack")
    async def pack(n: int) -> int:
        return n

    @app.task(name="order", max_retries=0)
    async def order(ctx: Context, n: int, patience: float) -> int:
        handle = await app.submit("pack", {"n": n})
        return await app.handle(handle.id, pack).result(timeout=patience)

    @app.task(name="orders", max_retries=0)
    async def orders(n: int) -> list[int]:
        handles = [await app.submit("pack", {"n": one}) for one in range(n)]
        return list(await asyncio.gather(*(handle.result(timeout=60) for handle in handles)))

    @app.task(name="order_in_thread", max_retries=0)
    def order_in_thread(n: int) -> int:
        return app.sync.submit("pack", {"n": n}).result(timeout=60)

    return app


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "No slot is left" in r.getMessage()]


@virtual_time
async def test_runs_that_take_all_slots_and_wait_are_named_in_the_log_once(
    shop: Andon, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    async with running(shop, concurrency=2) as t:
        drafts = [shop.draft("order", {"n": n, "patience": 900.0}) for n in range(2)]
        parents = await shop.submit_many(drafts)
        await t.advance(seconds=4)
        assert said(caplog) == [], "most waits are short"
        await t.advance(seconds=800)
        [line] = said(caplog)
        assert "all 2 runs of this worker wait for other tasks" in line
        assert all(f"{parent.id} (order) waits for " in line for parent in parents)
        await t.run_until(parents[0])


@virtual_time
async def test_it_is_said_again_when_it_comes_to_that_again(
    shop: Andon, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    async with running(shop, concurrency=1) as t:
        for _ in range(2):
            parent = await shop.submit("order", {"n": 1, "patience": 30.0})
            await t.run_until(parent)
            await t.run_until_idle()
    assert len(said(caplog)) == 2


@virtual_time
async def test_one_run_that_waits_for_many_takes_one_slot(
    shop: Andon, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    async with running(shop, concurrency=2) as t:
        parent = await t.run_until(await shop.submit("orders", {"n": 5}))
    assert parent.result == [0, 1, 2, 3, 4]
    assert said(caplog) == []


@virtual_time
async def test_a_sync_handler_that_waits_is_seen_too(shop: Andon, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    async with running(shop, concurrency=1) as t:
        await t.run_until(await shop.submit("order_in_thread", {"n": 1}))
    assert "(order_in_thread) waits for " in said(caplog)[0]


@virtual_time
async def test_waiting_outside_of_a_run_is_nobodys_business(
    shop: Andon, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    async with running(shop, worker=False):
        handle = await shop.submit("pack", {"n": 1})
        with pytest.raises(TimeoutError):
            await handle.result(timeout=60)
    assert said(caplog) == []
