"""A primary that is replaced by its replica: writes that were confirmed are still there."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conformance.kit import Kit, ids
from servers.redis import RedisCluster, RedisServer, until

from andon.lifecycle.commands import Complete
from andon.model.errors import StoreUnavailable
from andon.model.words import State
from andon.stores.base import ChangeKind, CreateKind
from andon.stores.redis import network

OpenKit = Callable[[str], Kit]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    cluster = RedisCluster(tmp_path, masters=3, replicas=1)
    try:
        cluster.start()
        for replica in cluster.replicas:
            until(
                lambda r=replica: b"master_link_status:up" in r.ask("INFO", "replication"), "link"
            )
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.slow
async def test_nothing_is_lost_while_replicas_take_over(
    cluster: RedisCluster, open_kit: OpenKit
) -> None:
    kit = open_kit(cluster.url("t") + "&wait=1&wait_ms=2000")
    await kit.open()
    accepted: set[str] = set()
    ended: set[str] = set()
    stop = asyncio.Event()

    async def submit(worker: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            task = kit.record(f"s{worker}-{number}")
            (created,) = await kit.create(task)
            assert created.kind in (CreateKind.CREATED, CreateKind.EXISTS)
            accepted.add(task.id)
            await asyncio.sleep(0)

    async def complete() -> None:
        while not stop.is_set():
            for task in await kit.claim(limit=20):
                changed = await kit.try_move(task, Complete())
                assert changed.kind is ChangeKind.APPLIED
                ended.add(task.id)
            await asyncio.sleep(0.001)

    working = asyncio.gather(submit(0), submit(1), complete())

    async def twenty_more() -> None:
        wanted = len(accepted) + 20

        async def enough() -> bool:
            return len(accepted) >= wanted

        await kit.until(enough)

    for replica in cluster.replicas:
        await twenty_more()
        await asyncio.to_thread(cluster.fail_over, replica)
    await twenty_more()
    stop.set()
    await working
    while tasks := await kit.claim(limit=100):
        for task in tasks:
            await kit.move(task, Complete())
            ended.add(task.id)
    assert ended == accepted
    states = await kit.store.states(sorted(accepted))
    assert set(states) == {State.COMPLETED}


@pytest.mark.slow
async def test_a_master_that_dies_is_replaced_and_what_was_confirmed_is_there(
    cluster: RedisCluster, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "PATIENCE_S", 30.0)
    kit = open_kit(cluster.url("t") + "&wait=1&wait_ms=2000")
    await kit.open()
    tasks = await kit.submit_many(40)
    cluster.masters[1].kill()
    # The master that takes over has no replica of its own now, so nothing could confirm.
    alone = open_kit(cluster.url("t"))
    await alone.open()
    assert sorted(ids(await alone.claim(limit=100))) == sorted(ids(tasks))
    await alone.submit_many(40)


async def test_a_write_that_too_few_replicas_have_is_not_called_written(
    tmp_path: Path, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "PATIENCE_S", 0.5)
    primary = RedisServer(tmp_path / "primary")
    replica = RedisServer(tmp_path / "replica", settings=[f"replicaof 127.0.0.1 {primary.port}"])
    try:
        primary.start()
        replica.start()
        until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"), "no link")
        kit = open_kit(primary.url("t") + "&wait=1&wait_ms=200")
        await kit.open()
        await kit.submit("both")
        replica.stop()
        with pytest.raises(StoreUnavailable, match="0 of 1 replicas confirmed"):
            await kit.submit("one")
        replica.start()
        until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"), "no link")
        (again,) = await kit.create(kit.record("one"))
        assert again.kind is CreateKind.EXISTS, "it was written, and a repeat says so"
    finally:
        replica.stop()
        primary.stop()
