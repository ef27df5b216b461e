"""Tests of what only the Redis store has: its servers, and what may happen to them."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conformance.kit import Kit, StoreFactory
from conftest import selected_stores
from servers import Servers
from servers.redis import RedisServer


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    if "redis" not in selected_stores(config):
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="the Redis store is not selected"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on the loop on which its store was opened."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def shared(servers: Servers) -> RedisServer:
    """The server that all tests share: do not hurt it."""
    server = servers.running("redis")
    assert isinstance(server, RedisServer)
    return server


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RedisServer]]:
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
def open_kit(runner: asyncio.Runner) -> Iterator[Callable[[str], Kit]]:
    """Opens the store of a URL, with the few words that tests need."""
    kits: list[Kit] = []

    def make(url: str) -> Kit:
        kit = Kit(StoreFactory(url, shared=True, durable=True))
        kits.append(kit)
        return kit

    yield make
    for kit in kits:
        runner.run(kit.close())
