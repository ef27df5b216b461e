"""A store on the shared server, another connection beside it, and a server that tests may hurt."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
from conformance.kit import Kit, StoreFactory
from servers import Servers
from servers.postgres import PostgresServer

from andon.stores.postgres import PostgresStore, connection, connections

from .hurting import HurtServers

TellOfStatements = Callable[[Callable[[str], None]], None]


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
def tell_of_statements(monkeypatch: pytest.MonkeyPatch) -> TellOfStatements:
    """Has a function called with each statement from now on, when the server has answered it; what
    it raises the store gets in place of the answer."""
    real = connection.statement

    def tell(listener: Callable[[str], None]) -> None:
        async def told(
            location: object, db: object, sql: str, *arguments: object, alone: bool = False
        ) -> object:
            rows = await real(location, db, sql, *arguments, alone=alone)  # type: ignore[arg-type]
            listener(sql)
            return rows

        monkeypatch.setattr(connections, "statement", told)

    return tell


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
