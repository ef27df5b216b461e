"""Servers that die, freeze and come back: nothing accepted is lost, and nothing is done twice."""

import asyncio
import gc
import itertools
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from servers.nats import NatsCluster, NatsServer

from andon.contract.outcomes import CreateKind
from andon.contract.requests import ClaimRequest, Renewal
from andon.contract.topics import TIMER_TOPIC
from andon.engine.writes import new_write_id
from andon.lifecycle.admission import admit
from andon.model.errors import StoreUnavailable
from andon.model.task import Definition
from andon.stores.nats import NatsStore
from andon.stores.registry import open_store

from .plant import PATIENCE_S, Plant

MOST_TO_CLOSE_S = 8.0

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(240)]


async def under_load(url: str, trouble: Callable[[Plant], Awaitable[None]]) -> Plant:
    """Run the plant, make trouble meanwhile, let everything come to an end, and account."""
    plant = Plant(url)
    store = await plant.open()
    crew: list[asyncio.Future[None]] = []
    try:
        async with asyncio.timeout(PATIENCE_S * 2):
            crew += [
                asyncio.ensure_future(work)
                for work in (
                    plant.submit(),
                    plant.submit(),
                    plant.work("w1"),
                    plant.work("w2"),
                    plant.keep_time(),
                )
            ]
            await trouble(plant)
            plant.stop_submitting()
            await asyncio.gather(*crew)
            await plant.account(store)
    finally:
        for work in crew:
            work.cancel()
        await asyncio.gather(*crew, return_exceptions=True)
        await plant.close()
    return plant


async def reached(plant: Plant, more: int) -> None:
    """Wait until so many more tasks were completed."""
    wanted = len(plant.completed) + more
    async with asyncio.timeout(PATIENCE_S):
        while len(plant.completed) < wanted:  # noqa: ASYNC110 - any worker may complete them
            await asyncio.sleep(0.01)


def test_a_server_killed_between_writes_loses_nothing(server: NatsServer) -> None:
    async def trouble(plant: Plant) -> None:
        for _ in range(3):
            await reached(plant, 100)
            server.kill()
            server.start(wait=False)
        await reached(plant, 50)

    asyncio.run(under_load(server.url("crash"), trouble))


def test_a_leader_killed_under_load_loses_nothing(cluster: NatsCluster) -> None:
    async def trouble(plant: Plant) -> None:
        for _ in range(2):
            await reached(plant, 60)
            leader = await cluster.leader("ANDON_crash_0")
            leader.kill()
            await reached(plant, 60)
            leader.start(wait=False)

    asyncio.run(under_load(cluster.url("crash"), trouble))


def test_a_node_cut_off_and_back_loses_nothing(cluster: NatsCluster) -> None:
    async def trouble(plant: Plant) -> None:
        await reached(plant, 60)
        leader = await cluster.leader("ANDON_crash_0")
        leader.pause()
        try:
            await reached(plant, 60)
        finally:
            leader.resume()
        await reached(plant, 60)

    asyncio.run(under_load(cluster.url("crash"), trouble))


def test_a_store_that_is_away_is_told_so_and_comes_back_by_itself(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("andon.stores.nats.jetstream.PATIENCE_S", 1.0)

    async def course() -> None:
        store = open_store(server.url("away"))
        await store.open()
        numbers = itertools.count()

        async def create() -> CreateKind:
            definition = Definition(id=f"t{next(numbers)}", name="job")
            (created,) = await store.create([admit(definition, store.now(), new_write_id())])
            return created.kind

        assert await create() is CreateKind.CREATED
        server.kill()
        with pytest.raises(StoreUnavailable, match="does not take or give messages"):
            await create()
        server.start()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    assert await create() is CreateKind.CREATED
                    break
                except StoreUnavailable:
                    continue
        await store.close()

    asyncio.run(course())


def test_a_connection_whose_end_somebody_gave_up_waiting_for_is_made_again(
    server: NatsServer,
) -> None:
    """All who wait for the end of a connection share one future; the library's reader is one of
    them, and is cancelled in the middle of it whenever a server goes away at a bad moment."""

    async def course() -> None:
        store = NatsStore(server.url("halfway"))
        await store.open()
        assert store._context is not None
        client: Any = store._context.js.client
        waiting = asyncio.ensure_future(client._socket._writer.wait_closed())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        server.kill()
        server.start()
        (created,) = await store.create(
            [admit(Definition(id="t", name="job"), store.now(), new_write_id())]
        )
        assert created.kind is CreateKind.CREATED
        await store.close()

    asyncio.run(course())


def test_a_server_frozen_while_somebody_begins_to_listen_is_heard_again(
    server: NatsServer,
) -> None:
    """What it answers to late must not leave the connection open with nobody who reads it."""

    async def course() -> None:
        store = open_store(server.url("frozen"))
        await store.open()
        claim = ClaimRequest(worker="w", token="w-0", queues=("default",), limit=1, lease_ms=1_000)
        server.pause()
        try:
            listener = store.listen([TIMER_TOPIC])
            with pytest.raises(StoreUnavailable):
                await store.claim(claim)  # after the listener's subscription was waited for
        finally:
            server.resume()
        assert await store.claim(replace(claim, token="w-1")) == []
        listener.close()
        await store.close()

    asyncio.run(course())


def test_a_store_that_is_closed_while_its_server_is_frozen_leaves_no_socket(
    server: NatsServer,
) -> None:
    async def course() -> None:
        store = open_store(server.url("stuck"))
        await store.open()
        server.pause()
        try:
            large = b'["' + b"x" * 500_000 + b'"]'  # more than a socket takes that nobody reads
            tasks = [
                admit(Definition(id=f"t{n}", name="job", args=large), store.now(), "w")
                for n in range(20)
            ]
            writing = asyncio.ensure_future(store.create(tasks))
            await asyncio.wait({writing}, timeout=0.5)
            await store.close()
            await asyncio.gather(writing, return_exceptions=True)
        finally:
            server.resume()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(course())
        gc.collect()
    assert [str(w.message) for w in caught if w.category is ResourceWarning] == []


def test_a_store_is_closed_within_seconds_while_its_server_is_away(server: NatsServer) -> None:
    """Also with writes, renewals and a listener under way; nobody is left waiting."""

    async def course() -> None:
        store = open_store(server.url("leaving"))
        await store.open()
        task = admit(Definition(id="t", name="job"), store.now(), new_write_id())
        await store.create([task])
        renewal = Renewal(task="t", run="none", lease_ms=1_000)
        await asyncio.to_thread(store.renew_blocking, [renewal])
        listener = store.listen([TIMER_TOPIC])
        server.kill()
        under_way = [
            asyncio.ensure_future(work)
            for work in (
                store.create([admit(Definition(id="u", name="job"), store.now(), new_write_id())]),
                store.get(["t"]),
                asyncio.to_thread(store.renew_blocking, [renewal]),
            )
        ]
        await asyncio.sleep(0.2)  # so that they are under way; the outcome is the same without
        start = time.monotonic()
        await store.close()
        assert time.monotonic() - start < MOST_TO_CLOSE_S
        async with asyncio.timeout(PATIENCE_S):
            outcomes = await asyncio.gather(*under_way, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
        listener.close()

    asyncio.run(course())
