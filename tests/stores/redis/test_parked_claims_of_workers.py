"""A worker that has run nothing for a moment leaves word, and is handed the next task."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from conformance.kit import PATIENCE_S, Kit
from servers.redis import RedisServer

from andon.contract.requests import ClaimRequest
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Complete
from andon.model.task import Task
from andon.model.words import State
from andon.worker.calls import Call
from andon.worker.config import WorkerConfig
from andon.worker.registry import Registry, TaskType
from andon.worker.worker import Worker

from .conftest import OpenKit


class Asked:
    """An engine that remembers what was claimed for."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self.requests: list[ClaimRequest] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def claim(self, request: ClaimRequest) -> list[Task]:
        self.requests.append(request)
        return await self._engine.claim(request)


class Floor:
    """A worker whose handler waits until it may end, and a store to submit from."""

    def __init__(self, server: RedisServer, namespace: str, kit: Kit) -> None:
        self.server = server
        self.namespace = namespace
        self.kit = kit
        self.may_end = asyncio.Event()
        self.begun: list[str] = []
        self.worker: Worker
        self.asked: Asked

    @property
    def stands(self) -> bool:
        """Whether a claim stands for the queue."""
        return bool(self.server.ask("HEXISTS", f"{{{self.namespace}:0}}:meta", "stands:default"))

    async def until(self, look: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not look():  # noqa: ASYNC110 - the server's word
                await asyncio.sleep(0.005)

    async def submit(self) -> Task:
        """A task, and what it was right after its submit."""
        return await self.kit.there((await self.kit.submit()).id)


@asynccontextmanager
async def floor(
    server: RedisServer, open_kit: OpenKit, namespace: str, **settings: Any
) -> AsyncIterator[Floor]:
    kit = await open_kit(server.url(namespace))
    await kit.moved(await kit.active(), Complete())  # the first task of a queue is never plain
    made = Floor(server, namespace, kit)

    async def job() -> None:
        made.begun.append("job")
        await made.may_end.wait()

    registry = Registry()
    registry.add(TaskType(name="job", kind="async", codec=Call(job), handler=job))
    engine = LocalEngine(await kit.again())
    await engine.open()
    made.asked = Asked(engine)
    config = WorkerConfig(queues=("default",), **settings)
    made.worker = Worker(cast("Any", made.asked), registry, config)
    await made.worker.start()
    try:
        yield made
    finally:
        made.may_end.set()
        await made.worker.stop()
        await engine.close()


async def test_a_worker_at_rest_starts_what_is_handed_over_without_asking(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    async with floor(shared, open_kit, "at-rest") as at:
        await at.until(lambda: at.stands)
        asked = len(at.asked.requests)
        task = await at.submit()
        assert task.state is State.ACTIVE  # as it was created, before anybody could ask for it
        assert task.status.runs[-1].worker == at.worker.id
        await at.until(lambda: len(at.begun) == 1)
        assert len(at.asked.requests) == asked
        at.may_end.set()
        await at.until(lambda: at.stands)
        assert await at.kit.state(task.id) is State.COMPLETED


async def test_a_worker_that_runs_something_does_not_stand_and_claims_what_comes(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    async with floor(shared, open_kit, "busy") as at:
        await at.until(lambda: at.stands)
        await at.submit()
        await at.until(lambda: len(at.begun) == 1)
        await at.submit()
        await at.until(lambda: len(at.begun) == 2)
        assert not at.stands
        assert not any(request.parks for request in at.asked.requests[-1:])


async def test_a_worker_that_leaves_takes_its_claim_back(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    async with floor(shared, open_kit, "leaving") as at:
        await at.until(lambda: at.stands)
        await at.worker.stop()
        assert not at.stands
        assert (await at.submit()).state is State.PENDING


async def test_a_quiet_worker_is_handed_nothing_until_it_works_again(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    async with floor(shared, open_kit, "quiet") as at:
        await at.until(lambda: at.stands)
        at.worker.set_quiet(True)
        await at.until(lambda: not at.stands)
        assert (await at.submit()).state is State.PENDING
        at.worker.set_quiet(False)
        await at.until(lambda: len(at.begun) == 1)


async def test_a_worker_with_a_short_lease_does_not_stand(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    at_most = 5.0  # what is handed over is held from when its claim was sent, seconds before
    async with floor(shared, open_kit, "short", lease=at_most) as at:
        at.may_end.set()
        await at.submit()
        await at.until(lambda: len(at.begun) == 1)
        await at.submit()
        await at.until(lambda: len(at.begun) == 2)
        assert not any(request.parks for request in at.asked.requests)
        assert not at.stands


async def test_a_run_handed_over_is_renewed_and_survives_its_first_lease(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    async with floor(shared, open_kit, "renewed", lease=20.0) as at:
        await at.until(lambda: at.stands)
        task = await at.submit()
        assert task.cell is not None
        before = task.cell.lease_until
        async with asyncio.timeout(2 * PATIENCE_S):
            while True:
                now = (await at.kit.there(task.id)).cell
                assert now is not None
                if now.lease_until > before:
                    break
                await asyncio.sleep(0.05)
        at.may_end.set()
        await at.until(lambda: at.stands)
        assert await at.kit.state(task.id) is State.COMPLETED


async def test_a_worker_with_room_for_some_types_only_does_not_stand(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    async with floor(shared, open_kit, "some-types", per_type=3) as at:
        at.may_end.set()
        for count in (1, 2):
            await at.submit()
            await at.until(lambda count=count: len(at.begun) == count)
        await at.kit.store.events_end()
        assert not any(request.parks for request in at.asked.requests)
        assert len(at.asked.requests) < 12  # it does not ask again and again either
