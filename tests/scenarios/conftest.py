"""Coroutine tests on one loop each, and one stage per module and store: `APP` says which
application."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import shared_stores
from coroutines import Test, played
from servers import Servers

from .stage import Stage

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.scenario)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", shared_stores(metafunc.config), scope="module")


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
    url = servers.fresh_url(store_kind, folder)
    with Stage(request.module.APP, url, folder, **settings) as stage:
        yield stage


@pytest.fixture
def bare_stage(
    request: pytest.FixtureRequest, store_kind: str, servers: Servers, tmp_path: Path
) -> Stage:
    """The module's application on a store of the test's own, without a worker."""
    return Stage(request.module.APP, servers.fresh_url(store_kind, tmp_path), tmp_path)


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
