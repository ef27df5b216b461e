"""Whose presence is whose."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.service.kit import Running, serving

from andon import Andon
from andon.engine.http.engine import HttpEngine
from andon.model.errors import PermissionRefused
from andon.model.fleet import WorkerInfo
from andon.service.trust.registry import Registry

from .kit import until


class World:
    """A service that asks for tokens, or does not, and engines that speak to it."""

    def __init__(self, running: Running, stack: AsyncExitStack) -> None:
        self.running = running
        self._stack = stack

    async def token(self, *scopes: str) -> tuple[str, str]:
        """A new token's text, and its id."""
        registry = self.running.service.access.registry
        made = self._on_loop(registry.create("worker", scopes or ("queues:claim:*",)))
        text, record = await asyncio.to_thread(made)
        return text, record.id

    async def revoke(self, token_id: str) -> None:
        registry = self.running.service.access.registry
        await asyncio.to_thread(self._on_loop(registry.revoke(token_id)))

    async def engine(self, token: str | None, url: str = "") -> HttpEngine:
        engine = HttpEngine(url or self.running.url, token=token)
        await engine.open()
        self._stack.push_async_callback(engine.close)
        return engine

    async def engine_with(self, *scopes: str) -> HttpEngine:
        text, _ = await self.token(*scopes)
        return await self.engine(text)

    async def seen(self) -> dict[str, int]:
        """Each worker in the list, and its concurrency."""
        found: list[WorkerInfo] = await asyncio.to_thread(
            self._on_loop(self.running.service.engine.workers())
        )
        return {worker.id: worker.concurrency for worker in found}

    def _on_loop(self, coroutine: Any) -> Any:
        return lambda: self.running.call(coroutine)


@asynccontextmanager
async def world_at(
    folder: Path, *, first_token: bool = True, **settings: Any
) -> AsyncIterator[World]:
    url = f"sqlite:///{folder}/tasks.db"
    if first_token:
        app = Andon(url)
        store = (await app.connections.engine()).store  # type: ignore[attr-defined]
        await Registry(store).create("first", ["*"])
        await app.close()
    with serving(Andon(url), **settings) as running:
        async with AsyncExitStack() as stack:
            yield World(running, stack)


def worker(concurrency: int = 1) -> WorkerInfo:
    return WorkerInfo(id="w", concurrency=concurrency)


async def test_a_presence_is_not_overwritten_nor_removed_with_another_token(tmp_path: Path):
    async with world_at(tmp_path, require_token=True) as world:
        one, other = await world.engine_with(), await world.engine_with()
        await one.put_worker(worker())
        with pytest.raises(PermissionRefused, match="another token"):
            await other.put_worker(worker(100))
        with pytest.raises(PermissionRefused, match="another token"):
            await other.remove_worker("w")
        await one.put_worker(worker(2))
        assert await world.seen() == {"w": 2}
        await one.remove_worker("w")
        await other.put_worker(worker(3))
        assert await world.seen() == {"w": 3}


async def test_nobody_names_another_as_the_owner_of_a_presence(tmp_path: Path):
    async with world_at(tmp_path, require_token=True) as world:
        text, mine = await world.token()
        engine, other = await world.engine(text), await world.engine_with()
        await engine.put_worker(WorkerInfo(id="w", owner="somebody"))
        [found] = await asyncio.to_thread(
            world.running.call, world.running.service.engine.workers()
        )
        assert found.owner == mine
        with pytest.raises(PermissionRefused):
            await other.put_worker(WorkerInfo(id="w", owner=mine))


async def test_an_administrator_of_workers_removes_any(tmp_path: Path):
    async with world_at(tmp_path, require_token=True) as world:
        one, admin = await world.engine_with(), await world.engine_with("admin:workers")
        await one.put_worker(worker())
        await admin.remove_worker("w")
        assert await world.seen() == {}


async def test_a_worker_comes_back_under_its_name_once_its_old_token_is_revoked(tmp_path: Path):
    async with world_at(tmp_path, require_token=True) as world:
        text, old = await world.token()
        before, after = await world.engine(text), await world.engine_with()
        await before.put_worker(worker())
        await world.revoke(old)

        async def taken_over() -> bool:
            try:
                await after.put_worker(worker(2))
            except PermissionRefused:
                return False
            return True

        await until(taken_over)
        assert await world.seen() == {"w": 2}


async def test_a_presence_has_its_owner_on_every_service_and_after_a_restart(tmp_path: Path):
    async with world_at(tmp_path, require_token=True) as world:
        text, _ = await world.token()
        await (await world.engine(text)).put_worker(worker())
        async with world_at(tmp_path, require_token=True, first_token=False) as second:
            with pytest.raises(PermissionRefused):
                await (await second.engine_with()).put_worker(worker(2))
            await (await second.engine(text)).put_worker(worker(3))
            assert await world.seen() == {"w": 3}


async def test_on_an_open_service_anyone_may_tell_of_any_worker(tmp_path: Path):
    async with world_at(tmp_path) as world:
        with_token, without = await world.engine_with(), await world.engine(None)
        await with_token.put_worker(worker())
        await without.put_worker(worker(2))
        assert await world.seen() == {"w": 2}
        with pytest.raises(PermissionRefused, match="or with none"):
            await with_token.put_worker(worker(3))
        await without.remove_worker("w")
        assert await world.seen() == {}


async def test_a_worker_whose_name_is_anothers_runs_its_tasks_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async with world_at(tmp_path, require_token=True) as world:
        await (await world.engine_with()).put_worker(worker())
        text, _ = await world.token("queues:*", "tasks:*", "types:publish")
        app = Andon(world.running.url, token=text)

        @app.task(name="one")
        async def one() -> int:
            return 1

        async with running_as(app, "w"):
            handle = await one.submit()
            assert await handle.result(timeout=20) == 1
        assert await world.seen() == {"w": 1}
    told = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert [one.message[:30] for one in told] == ["This worker is missing in the "]


@asynccontextmanager
async def running_as(app: Andon, name: str) -> AsyncIterator[None]:
    async with app.working(id=name, concurrency=5):
        yield
    await app.close()
