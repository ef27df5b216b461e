"""Work of one task that several wait for."""

import asyncio
from typing import Any, TypeVar

T = TypeVar("T")


async def shared(work: "asyncio.Future[T]") -> T:
    """The outcome of the work; who is cancelled leaves it to the others.

    A failure is raised for everybody who waits. When nobody is left it is dropped, where asyncio
    would write it to the log as an error that nobody has looked at.
    """
    work.add_done_callback(_heard)
    return await asyncio.shield(work)


def _heard(work: "asyncio.Future[Any]") -> None:
    if not work.cancelled():
        work.exception()
