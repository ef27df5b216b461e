"""A worker over the real engine, in memory or behind a service, and coroutine tests on one loop."""

import asyncio
import inspect
from pathlib import Path
from typing import cast

import pytest

from .kit import Kit, RemoteKit


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on the loop of its kit, and close the kit on it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    kit = cast("Kit | None", arguments.get("kit"))

    async def test() -> None:
        if kit is not None:
            await kit.open()
        try:
            async with asyncio.timeout(30):
                await pyfuncitem.obj(**arguments)
        finally:
            if kit is not None:
                await kit.close()

    asyncio.run(test())
    return True


@pytest.fixture(params=["local", "http"])
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Kit:
    """The worker's promises hold whether its engine is in the process or behind HTTP."""
    return Kit() if request.param == "local" else RemoteKit(tmp_path)
