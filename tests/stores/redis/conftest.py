"""Tests of what only the Redis store has: its servers, and what may happen to them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from conformance.kit import Kit, StoreFactory
from servers import Servers
from servers.redis import RedisServer

Start = Callable[..., RedisServer]
OpenKit = Callable[[str], Awaitable[Kit]]


@pytest.fixture
def shared(servers: Servers) -> RedisServer:
    """The server that all tests share: do not hurt it."""
    server = servers.running("redis")
    assert isinstance(server, RedisServer)
    return server


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers of the test's own, to be hurt, with settings as given."""
    started: list[RedisServer] = []

    def make(name: str = "server", **options: object) -> RedisServer:
        server = RedisServer(tmp_path / name, **options)  # type: ignore[arg-type]
        started.append(server)
        server.start()
        return server

    yield make
    for server in started:
        server.stop()


@pytest.fixture
def open_kit(runner: asyncio.Runner) -> Iterator[OpenKit]:
    """Opens the store of a URL, with the few words that tests need."""
    kits: list[Kit] = []

    async def opened(url: str) -> Kit:
        kit = Kit(StoreFactory(url, shared=True, durable=True))
        kits.append(kit)
        await kit.open()
        return kit

    yield opened
    for kit in kits:
        runner.run(kit.close())
