"""Servers that tests may hurt, one of each kind per test process, and a plant on each."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from conftest import shared_stores
from coroutines import Test, played
from servers import KINDS, Servers
from servers.hurt import Hurtable
from servers.proxy import Proxy

from .plant import Plant


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.crash)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    kinds = shared_stores(metafunc.config)
    if "server_kind" in metafunc.fixturenames:
        metafunc.parametrize("server_kind", [kind for kind in kinds if kind in KINDS])
    elif "store_kind" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", kinds)


@pytest.fixture(scope="session")
def own_servers() -> Iterator[dict[str, Hurtable]]:
    servers: dict[str, Hurtable] = {}
    yield servers
    for server in servers.values():
        server.stop()


@pytest.fixture
def server(
    server_kind: str,
    own_servers: dict[str, Hurtable],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Hurtable]:
    """A running server that the test may hurt."""
    if server_kind not in own_servers:
        own_servers[server_kind] = Hurtable(server_kind, tmp_path_factory.mktemp(server_kind))
    server = own_servers[server_kind]
    server.start()
    yield server
    server.resume()


@pytest.fixture
def proxy(server: Hurtable) -> Iterator[Proxy]:
    """What client and workers of the plant come through."""
    with Proxy(server.port, rng=random.Random(7)) as proxy:
        yield proxy


@pytest.fixture
def plant(
    request: pytest.FixtureRequest, server_kind: str, server: Hurtable, tmp_path: Path
) -> Plant:
    """A plant on the server; behind the proxy if the test asks for one."""
    proxy = request.getfixturevalue("proxy") if "proxy" in request.fixturenames else None
    return Plant(server_kind, server.fresh_url(), tmp_path, proxy)


@pytest.fixture
def any_plant(store_kind: str, servers: Servers, tmp_path: Path) -> Plant:
    """A plant on any store, which the test does not hurt."""
    return Plant(store_kind, servers.fresh_url(store_kind, tmp_path), tmp_path, None)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test, its plant open on the test's loop."""
    return played(pyfuncitem, _play)


async def _play(test: Test, arguments: dict[str, Any]) -> None:
    plant = cast("Plant", arguments.get("plant") or arguments["any_plant"])
    await plant.open()
    try:
        try:
            await test(**arguments)
        finally:
            _make_well(arguments)  # or nobody could leave in good order
    finally:
        await plant.close()


def _make_well(arguments: dict[str, object]) -> None:
    for harmed in arguments.values():
        if isinstance(harmed, Proxy):
            harmed.mend()
        elif isinstance(harmed, Hurtable):
            harmed.resume()
            harmed.start()
