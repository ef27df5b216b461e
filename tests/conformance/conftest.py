"""How a store takes part in the suite: by a `StoreFactory`, and nothing else.

Somebody else's store passes the same tests, on data they may spoil:

    ANDON_TEST_STORE_URL=redis://localhost/9 pytest tests/conformance

How late a timer may be is the store's own `slack_ms`.
"""

import asyncio
import inspect
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import selected_stores
from servers import Servers

from .kit import Kit, StoreFactory

GIVEN_URL = "ANDON_TEST_STORE_URL"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" not in metafunc.fixturenames:
        return
    kinds = ["given"] if GIVEN_URL in os.environ else list(selected_stores(metafunc.config))
    if find_spec("andon.stores.sqlite") is None and "sqlite" in kinds:
        kinds.remove("sqlite")
    kinds += [f"{kind}-4" for kind in ("memory", "sqlite") if kind in kinds]
    metafunc.parametrize("store_kind", kinds)


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
def store_factory(store_kind: str, tmp_path: Path, servers: Servers) -> StoreFactory:
    if store_kind == "given":
        return StoreFactory(os.environ[GIVEN_URL], shared=True, durable=True)
    kind, _, partitions = store_kind.partition("-")
    kept = kind != "memory"
    url = servers.fresh_url(kind, tmp_path)
    if partitions:
        url = f"{url}?partitions={partitions}"
    return StoreFactory(url, shared=kept, durable=kept)


@pytest.fixture
def kit(store_factory: StoreFactory, runner: asyncio.Runner) -> Iterator[Kit]:
    """The store under test, open, with the few words that tests need."""
    kit = Kit(store_factory)
    runner.run(kit.open())
    yield kit
    runner.run(kit.close())
