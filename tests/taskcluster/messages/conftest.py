"""An engine with tasks of the face."""

import asyncio
from collections.abc import Iterator

import pytest

from .life import Life


@pytest.fixture
def life(runner: asyncio.Runner) -> Iterator[Life]:
    life = Life()
    runner.run(life.engine.open())
    yield life
    runner.run(life.engine.close())
