"""A primary that is replaced by its replica: writes that were confirmed are still there."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance.kit import ids
from servers.redis import RedisCluster, RedisSentinel, RedisServer, until

from andon.contract.outcomes import ChangeKind, CreateKind
from andon.lifecycle.commands import Complete
from andon.model.errors import StoreUnavailable
from andon.model.words import State
from andon.stores.redis import network

from .conftest import OpenKit


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
    kit = await open_kit(cluster.url("t") + "&wait=1&wait_ms=2000")
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
async def test_a_node_of_a_cluster_that_is_named_alone_sends_us_to_who_holds_the_keys(
    tmp_path: Path, open_kit: OpenKit
) -> None:
    cluster = RedisCluster(tmp_path, masters=3)
    try:
        cluster.start()
        kits = [await open_kit(node.url("t")) for node in cluster.masters]
        for number, kit in enumerate(kits):
            await kit.submit(f"one{number}")
            await kit.submit(f"two{number}")
        assert len(await kits[0].claim(limit=10)) == 2 * len(kits)
    finally:
        cluster.stop()


@pytest.mark.slow
async def test_a_master_that_dies_is_replaced_and_what_was_confirmed_is_there(
    cluster: RedisCluster, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "PATIENCE_S", 30.0)
    kit = await open_kit(cluster.url("t") + "&wait=1&wait_ms=2000")
    tasks = await kit.submit_many(40)
    cluster.masters[1].kill()
    # The master that takes over has no replica of its own now, so nothing could confirm.
    alone = await open_kit(cluster.url("t"))
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
        kit = await open_kit(primary.url("t") + "&wait=1&wait_ms=200")
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


@pytest.mark.slow
async def test_sentinels_name_the_primary_also_after_it_was_replaced(
    tmp_path: Path, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "PATIENCE_S", 30.0)
    primary = RedisServer(tmp_path / "primary")
    replica = RedisServer(tmp_path / "replica", settings=[f"replicaof 127.0.0.1 {primary.port}"])
    sentinel = RedisSentinel(tmp_path / "sentinel", primary)
    try:
        for server in (primary, replica, sentinel):
            server.start()
        until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"), "no link")
        until(lambda: b"slaves=1" in sentinel.ask("INFO", "sentinel"), "the replica is not known")
        kit = await open_kit(sentinel.url("t") + "&wait=1")
        tasks = await kit.submit_many(20)
        primary.kill()
        alone = await open_kit(sentinel.url("t"))
        assert sorted(ids(await alone.claim(limit=50))) == sorted(ids(tasks))
        await alone.submit("after")
    finally:
        for server in (sentinel, replica, primary):
            server.stop()


async def test_a_primary_that_no_sentinel_knows_is_told(
    tmp_path: Path, shared: RedisServer, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "PATIENCE_S", 0.3)
    sentinel = RedisSentinel(tmp_path / "sentinel", shared)
    try:
        sentinel.start()
        url = sentinel.url("t").replace("/mymaster/", "/another/")
        with pytest.raises(StoreUnavailable, match="know no primary named 'another'"):
            await open_kit(url)
    finally:
        sentinel.stop()
