"""Coroutine tests on one loop each, and one stage per module and store: `APP` says which
application."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import HTTP, stores_by_url
from coroutines import Test, played
from servers import Servers
from servers.http import service_of

from .stage import Stage


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.scenario)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", stores_by_url(metafunc.config), scope="module")


@pytest.fixture(scope="module")
def stage(
    request: pytest.FixtureRequest,
    store_kind: str,
    servers: Servers,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    """The module's application with a worker process on the queue `default`."""
    settings = getattr(request.module, "WORKER", {})
    folder = tmp_path_factory.mktemp("stage")
    with (
        _place_of(store_kind, request.module.APP, folder, servers) as (url, store_url),
        Stage(request.module.APP, url, folder, store_url=store_url, **settings) as stage,
    ):
        yield stage


@pytest.fixture
def bare_stage(
    request: pytest.FixtureRequest, store_kind: str, servers: Servers, tmp_path: Path
) -> Iterator[Stage]:
    """The module's application on a store of the test's own, without a worker."""
    place = request.module.APP
    options = ("--no-timekeeper",)  # nobody fires timers here
    with _place_of(store_kind, place, tmp_path, servers, *options) as (url, store_url):
        yield Stage(place, url, tmp_path, store_url=store_url)


@contextlib.contextmanager
def _place_of(
    store_kind: str, place: str, folder: Path, servers: Servers, *options: str
) -> Iterator[tuple[str, str]]:
    """The URL that everybody on the stage goes by, and that of the store behind it."""
    if store_kind == HTTP:
        with service_of(place, folder, *options) as service:
            yield service.url, service.store_url
    else:
        url = servers.fresh_url(store_kind, folder)
        yield url, url


class Opening:
    """Stands for the scene until the test's own loop runs."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage


@pytest.fixture
def scene(stage: Stage) -> Opening:
    """The stage as the test sees it."""
    return Opening(stage)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test, its scene open on the test's loop."""
    return played(pyfuncitem, _play)


async def _play(test: Test, arguments: dict[str, Any]) -> None:
    opening = arguments.get("scene")
    if isinstance(opening, Opening):
        async with opening.stage.scene() as scene:
            await test(**{**arguments, "scene": scene})
    else:
        await test(**arguments)
