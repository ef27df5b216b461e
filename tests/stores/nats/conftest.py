"""A store on the shared server, and servers that these tests may hurt."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance.kit import Kit, StoreFactory
from servers import Servers
from servers.nats import NatsCluster, NatsServer

from andon.stores.nats import NatsStore


@pytest.fixture
def store(servers: Servers, tmp_path: Path, runner: asyncio.Runner) -> Iterator[NatsStore]:
    """A store on which nothing was stored, open."""
    store = NatsStore(servers.fresh_url("nats", tmp_path))
    runner.run(store.open())
    yield store
    runner.run(store.close())


@pytest.fixture
def others(store: NatsStore, runner: asyncio.Runner) -> Iterator[list[NatsStore]]:
    """More of them in the same place, as other processes would open it."""
    others = [NatsStore(store.url) for _ in range(3)]
    for other in others:
        runner.run(other.open())
    yield others
    for other in others:
        runner.run(other.close())


@pytest.fixture
def partitions() -> int:
    """Of the kit's store."""
    return 1


@pytest.fixture
def kit(servers: Servers, tmp_path: Path, runner: asyncio.Runner, partitions: int) -> Iterator[Kit]:
    """The words of the conformance suite, on a store on which nothing was stored."""
    url = f"{servers.fresh_url('nats', tmp_path)}&partitions={partitions}"
    kit = Kit(StoreFactory(url, shared=True, durable=True))
    runner.run(kit.open())
    yield kit
    runner.run(kit.close())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path / "nats")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NatsCluster]:
    cluster = NatsCluster(tmp_path / "cluster")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
