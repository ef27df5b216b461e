"""What a worker does before its first claim and after its last run."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from andon import Andon
from andon.testing import running, virtual_time


@virtual_time
async def test_hooks_and_lifespan_surround_the_runs_in_order():
    order: list[str] = []

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        order.append("open")
        yield
        order.append("close")

    app = Andon("memory://", lifespan=lifespan)

    @app.task(name="work")
    async def work() -> None:
        order.append("work")

    @app.on_worker_start
    async def connect() -> None:
        order.append("connect")

    @app.on_worker_stop
    def disconnect() -> None:
        order.append("disconnect")

    async with running(app) as t:
        await work.submit()
        await t.run_until_idle()
    assert order == ["open", "connect", "work", "disconnect", "close"]


@virtual_time
async def test_a_start_hook_that_fails_keeps_the_worker_from_claiming(app: Andon):
    closed: list[bool] = []

    @app.task(name="work")
    async def work() -> None:
        closed.append(False)

    @app.on_worker_start
    async def connect() -> None:
        raise OSError("no database")

    app.on_worker_stop(lambda: closed.append(True))
    with pytest.raises(OSError, match="no database"):
        async with running(app):
            raise AssertionError("it started")
    assert closed == [True]


@virtual_time
async def test_a_stop_hook_that_fails_does_not_keep_the_others_from_running(app: Andon):
    stopped: list[str] = []

    app.on_worker_stop(lambda: stopped.append("first"))

    @app.on_worker_stop
    async def fails() -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        async with running(app):
            pass
    assert stopped == ["first"]
