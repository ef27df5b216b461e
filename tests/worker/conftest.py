"""A worker over the real engine, in memory or behind a service, and coroutine tests on one loop."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from coroutines import Test, played

from .kit import Kit, RemoteKit


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on the loop of its kit, and close the kit on it."""
    return played(pyfuncitem, _play)


async def _play(test: Test, arguments: dict[str, Any]) -> None:
    kit = cast("Kit | None", arguments.get("kit"))
    if kit is not None:
        await kit.open()
    try:
        async with asyncio.timeout(60):
            await test(**arguments)
    finally:
        if kit is not None:
            await kit.close()


@pytest.fixture(params=["local", "http"])
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Kit:
    """The worker's promises hold whether its engine is in the process or behind HTTP."""
    return Kit() if request.param == "local" else RemoteKit(tmp_path)
