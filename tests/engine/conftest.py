"""A local engine on each store, on a clock that only the test moves."""

import asyncio
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import virtual_stores
from servers import Servers, on_clock

from andon.contract.outcomes import Created
from andon.contract.requests import ClaimRequest
from andon.contract.store import Store
from andon.engine.base import Submission, Submitted
from andon.engine.holding import Holding
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Command, Complete
from andon.lifecycle.timers import VERIFY_FIRST_MS
from andon.model.task import Task
from andon.model.words import State
from andon.stores.sqlite import settling

from .faulty import Faulty

START = 1_800_000_000_000


def cannot_settle(monkeypatch: pytest.MonkeyPatch, task_id: str) -> None:
    """Let it fail to decide what becomes of this task, whose key is held; of others as ever."""
    settle = Holding.settle_at_once

    async def fails_once(self: Holding, task: Task, held: Created) -> tuple[Task, Created]:
        if task.id == task_id:
            raise ValueError("cannot be decided")
        return await settle(self, task, held)

    monkeypatch.setattr(Holding, "settle_at_once", fails_once)


class Clock:
    """Store time, moved by hand."""

    def __init__(self) -> None:
        self.ms = START

    def __call__(self) -> int:
        return self.ms


class Shop:
    """An engine, its clock, and the few words that tests need."""

    def __init__(self, store: Store, clock: Clock, **options: Any) -> None:
        self.clock = clock
        self.engine = LocalEngine(store, random=random.Random(7), **options)
        self._numbers = itertools.count()

    async def submit(self, task_id: str = "", name: str = "job", **fields: Any) -> str:
        outcome = await self.try_submit(task_id, name, **fields)
        assert outcome.error is None, outcome.error
        return outcome.id

    async def try_submit(self, task_id: str = "", name: str = "job", **fields: Any) -> Submitted:
        (outcome,) = await self.engine.submit([self.submission(task_id, name, **fields)])
        return outcome

    def submission(self, task_id: str = "", name: str = "job", **fields: Any) -> Submission:
        return Submission(id=task_id or f"t{next(self._numbers):03}", name=name, **fields)

    async def claim(self, limit: int = 1, **fields: Any) -> list[Task]:
        request = {
            "worker": "w1",
            "token": f"token{next(self._numbers)}",
            "queues": ("default",),
            "limit": limit,
            "lease_ms": 30_000,
        }
        return await self.engine.claim(ClaimRequest(**{**request, **fields}))

    async def run(self, command: Command | None = None) -> Task:
        """Claim the next task and report on it (complete unless said otherwise)."""
        (task,) = await self.claim()
        await self.engine.report(task, command or Complete(result=b"1"))
        await self.told()
        return task

    async def told(self) -> None:
        """Wait until every end so far has been told to dependents."""
        await self.engine.settled()

    async def later(self, seconds: float) -> None:
        """Move the clock, and fire what is due then."""
        self.clock.ms += round(seconds * 1000)
        await self.fire()

    async def until_asked(self) -> None:
        """Move the clock until tasks that were just blocked ask about their dependencies, and have
        them do so."""
        await self.later(VERIFY_FIRST_MS / 1000)

    async def fire(self) -> None:
        await self.engine.timekeeper.run_once()
        await self.told()

    async def task(self, task_id: str) -> Task:
        (task,) = await self.engine.get([task_id])
        assert task is not None, f"{task_id} is gone"
        return task

    async def state(self, task_id: str) -> State | None:
        (task,) = await self.engine.get([task_id])
        return None if task is None else task.state


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", virtual_stores(metafunc.config))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def edges_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store leaves the edges of what ends to the engine, as if they were many."""
    monkeypatch.setattr(settling, "MOST_EDGES", 0)


@pytest.fixture
def url(store_kind: str, tmp_path: Path, servers: Servers) -> Iterator[str]:
    """Where nothing is stored."""
    with servers.empty_url(store_kind, tmp_path) as url:
        yield url


@pytest.fixture
def store(url: str, clock: Clock, request: pytest.FixtureRequest) -> Store | Faulty:
    """A store on the clock; one that can be made to fail for a test that asks for `faulty`."""
    store = on_clock(url, clock)
    return Faulty(store) if "faulty" in request.fixturenames else store


@pytest.fixture
def faulty(store: Store | Faulty) -> Faulty:
    assert isinstance(store, Faulty)
    return store


@pytest.fixture
def shop_options() -> dict[str, Any]:
    """Options of the engine; a test module may override them."""
    return {}


@pytest.fixture
def shop(
    store: Store, clock: Clock, runner: asyncio.Runner, shop_options: dict[str, Any]
) -> Iterator[Shop]:
    shop = Shop(store, clock, **shop_options)
    runner.run(shop.engine.open())
    yield shop
    runner.run(shop.engine.close())
