"""Servers that these tests may hurt, and a plant of tasks whose every move is accounted for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.nats import NatsCluster, NatsServer


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
