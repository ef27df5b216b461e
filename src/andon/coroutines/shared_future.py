"""Shares the outcome of one asyncio task among several waiters."""

import asyncio
from typing import Any, TypeVar

T = TypeVar("T")


async def shared(work: "asyncio.Future[T]") -> T:
    """The outcome of the work; cancelling one waiter leaves it to the others.

    A failure is raised in every waiter. If no waiter is left it is dropped, where asyncio would log
    it as an error that was never retrieved.
    """
    work.add_done_callback(_heard)
    return await asyncio.shield(work)


def _heard(work: "asyncio.Future[Any]") -> None:
    if not work.cancelled():
        work.exception()
