"""Applications in memory, in virtual time, and a hand that plays the worker."""

from typing import Any

import msgspec
import pytest

from andon import Andon
from andon.contract.requests import ClaimRequest
from andon.engine.base import Engine
from andon.lifecycle.commands import Command, Complete
from andon.model.task import Task


@pytest.fixture
def app() -> Andon:
    return Andon("memory://")


async def claim(engine: Engine, queue: str = "default") -> Task:
    """Claim the next task of a queue."""
    request = ClaimRequest(
        worker="w", token=f"t{engine.now()}", queues=(queue,), limit=1, lease_ms=30_000
    )
    [task] = await engine.claim(request)
    return task


async def finish(app: Andon, result: Any = None, command: Command | None = None) -> None:
    """Claim the next task and report how it ended."""
    engine = await app.engine()
    task = await claim(engine)
    await engine.report(task, command or Complete(result=msgspec.json.encode(result)))
