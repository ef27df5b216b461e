"""How long the board waits for its store, and how often it looks at it anew."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from andon.model.errors import StoreUnavailable

T = TypeVar("T")

PATIENCE_S = 10.0
"""A store that has not answered by then does not answer."""

EVERY = {
    "alerts": 5.0,
    "andon": 0.5,
    "bulk": 0.5,
    "flow": 2.0,
    "history": 15.0,
    "letters": 3.0,
    "log": 1.0,
    "looking": 0.5,
    "queue": 0.5,
    "schedules": 2.0,
    "store": 1.0,
    "task": 0.5,
    "tasks": 2.0,
    "type": 15.0,
    "types": 15.0,
    "workers": 2.0,
}
"""Seconds from one reading to the next of what somebody looks at, by what it is. Each of it is read
once however many look."""

LONGEST_S = 5.0
"""Seconds between two tries to read what cannot be read, at the most."""

AWAY = "The store does not answer. What you see is as it was; it goes on by itself."


def until_next(every: float, failures: int) -> float:
    """Seconds until something is read again that is read every so many seconds, and could not be
    read the last times."""
    return min(max(LONGEST_S, every), every * (1 + failures))


async def within(work: Awaitable[T], seconds: float = PATIENCE_S) -> T:
    """What it gives in time. Raises `StoreUnavailable` if it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise StoreUnavailable(f"The store has not answered for {seconds:.0f} seconds.") from error
