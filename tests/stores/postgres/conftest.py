"""A store on the shared server, another connection beside it, and a server that tests may hurt."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from conformance.kit import Kit, StoreFactory
from conftest import selected_stores
from servers import Servers
from servers.postgres import PostgresServer

from andon.stores.postgres import PostgresStore

from .hurting import HurtServers


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "postgres" in selected_stores(config):
        return
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="another --store was asked for"))


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


@pytest.fixture(autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def url(servers: Servers, tmp_path: Path) -> str:
    """A namespace on which nothing was stored."""
    return servers.fresh_url("postgres", tmp_path)


@pytest.fixture
def schema(url: str) -> str:
    return url.partition("namespace=")[2]


@pytest.fixture
def kit(url: str, runner: asyncio.Runner) -> Iterator[Kit]:
    """The store, open, with the words of the conformance suite."""
    kit = Kit(StoreFactory(url, shared=True, durable=True))
    runner.run(kit.open())
    yield kit
    runner.run(kit.close())


@pytest.fixture
def store(kit: Kit) -> PostgresStore:
    assert isinstance(kit.store, PostgresStore)
    return kit.store


@pytest.fixture
def db(url: str, runner: asyncio.Runner) -> Iterator[asyncpg.Connection]:
    """A connection of the application's own, to the same database."""
    db = runner.run(asyncpg.connect(url.partition("?")[0]))
    yield db
    runner.run(db.close())


@pytest.fixture(scope="session")
def hurt_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HurtServers]:
    servers = HurtServers(lambda: tmp_path_factory.mktemp("hurt"))
    yield servers
    servers.close()


@pytest.fixture
def hurt_server(hurt_servers: HurtServers) -> PostgresServer:
    """A server that tests may hurt; a healthy one, whatever the test before did to its."""
    return hurt_servers.healthy()
