"""Stores with tasks to look at."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import HTTP, stores_by_url
from servers import Servers
from servers.http import PLAIN, service_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", dict.fromkeys([*stores_by_url(metafunc.config), HTTP]))


@pytest.fixture
def url(tmp_path: Path) -> str:
    """An empty store."""
    return f"sqlite:///{tmp_path}/tasks.db"


@pytest.fixture
def any_url(store_kind: str, servers: Servers, tmp_path: Path) -> Iterator[str]:
    """An empty store of each kind, and one behind a service."""
    if store_kind == HTTP:
        with service_of(PLAIN, tmp_path) as service:
            yield service.url
    else:
        yield servers.fresh_url(store_kind, tmp_path)
