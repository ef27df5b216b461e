"""Virtual time in which nothing is to be done costs next to nothing, and what comes after it comes
at its time."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from andon import Andon, Queue, State
from andon.testing import running, virtual_time

FEW = 500
"""Wake-ups in a day: some for each hour of each part. A look each five seconds would be 17,280."""


class Woken:
    """Timers armed on the running loop: whoever wakes by time has armed one."""

    def __init__(self) -> None:
        self.count = 0


@contextmanager
def counted() -> Iterator[Woken]:
    loop, woken = asyncio.get_running_loop(), Woken()
    call_at = loop.call_at

    def noted(*args: Any, **options: Any) -> asyncio.TimerHandle:
        woken.count += 1
        return call_at(*args, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "call_at", noted)
        yield woken


@pytest.fixture
def app() -> Andon:
    app = Andon("memory://")

    @app.task(name="work")
    async def work() -> float:
        return round(asyncio.get_running_loop().time())

    return app


@virtual_time
async def test_an_idle_day_wakes_hardly_anybody(app: Andon):
    async with running(app) as t:
        await t.advance(seconds=1)
        with counted() as woken:
            await t.advance(seconds=86_400)
        assert woken.count < FEW
        assert [worker.state for worker in await app.workers()] == ["running"]


@virtual_time
async def test_a_day_until_a_scheduled_task_wakes_hardly_anybody_and_it_starts_on_time(app: Andon):
    async with running(app) as t:
        handle = await app.submit("work", delay=86_400)
        waiting = asyncio.ensure_future(handle.result())
        with counted() as woken:
            await t.advance(seconds=86_000)
        assert woken.count < FEW
        await t.advance(seconds=400)
        assert await waiting == 86_400


@virtual_time
async def test_what_comes_after_an_idle_day_is_done_at_its_time(app: Andon):
    async with running(app) as t:
        await t.advance(days=1, seconds=7)
        began = round(t.engine.now() / 1000)
        assert await (await app.submit("work")).result() == 86_407
        soon = await app.submit("work", delay=12)  # sooner than anybody would look by himself
        late = await app.submit("work", delay=5_000)
        assert await soon.result() == 86_419
        assert await late.result() == 91_407
        assert round(t.engine.now() / 1000) - began == 5_000


@virtual_time
async def test_a_rate_limited_queue_runs_at_its_rate_after_an_idle_day():
    app = Andon("memory://", queues=[Queue("slow", rate_limit="1/m", rate_burst=1)])

    @app.task(name="work", queue="slow")
    async def work() -> float:
        return asyncio.get_running_loop().time()

    async with running(app) as t:
        await t.advance(days=1)
        handles = await app.submit_many([work.draft() for _ in range(4)])
        ends = [await handle.result() for handle in handles]
    gaps = [later - sooner for sooner, later in pairwise(ends)]
    assert all(59 <= gap <= 75 for gap in gaps), gaps


@virtual_time
async def test_a_paused_queue_goes_on_when_it_is_resumed(app: Andon):
    async with running(app) as t:
        await t.advance(hours=5)
        await t.engine.configure_queue("default", {"paused": True})
        handle = await app.submit("work")
        await t.advance(hours=30)
        assert await handle.status() is State.PENDING
        await t.engine.configure_queue("default", {"paused": False})
        await t.run_until_idle()
        assert await handle.status() is State.COMPLETED
