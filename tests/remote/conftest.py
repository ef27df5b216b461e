"""Coroutine tests, each on a loop of its own, and services for them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coroutines import Test, played
from tests.service.kit import Running, serving

from andon import Andon

from .kit import ServiceProcess, serving_process


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    return played(pyfuncitem, _play)


async def _play(test: Test, arguments: dict[str, Any]) -> None:
    async with asyncio.timeout(100):
        await test(**arguments)


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
