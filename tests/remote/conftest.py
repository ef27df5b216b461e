"""Coroutine tests, each on a loop of its own, and services for them."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.kit import Running, serving

from andon import Andon

from .kit import ServiceProcess, serving_process


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters

    async def test() -> None:
        async with asyncio.timeout(100):
            await pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})

    asyncio.run(test())
    return True


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A service on loopback, in a thread."""
    with serving(Andon(f"sqlite:///{tmp_path}/tasks.db")) as running:
        yield running


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    """A service in a process of its own."""
    with serving_process(tmp_path) as service:
        yield service
