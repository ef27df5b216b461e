"""How long the board waits for its store."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from andon.model.errors import StoreUnavailable

T = TypeVar("T")

PATIENCE_S = 10.0
"""A store that has not answered by then does not answer."""


async def within(work: Awaitable[T], seconds: float = PATIENCE_S) -> T:
    """What it gives in time. Raises `StoreUnavailable` if it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise StoreUnavailable(f"The store has not answered for {seconds:.0f} seconds.") from error
