"""Waiting on behalf of somebody who may go away: long polls and streams."""

import asyncio
import contextlib
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from andon.model.errors import TaskNotFound
from andon.model.task import Task

if TYPE_CHECKING:
    from litestar.types import Receive

    from andon.service.calls import Call

T = TypeVar("T")


async def until_gone(receive: "Receive") -> None:
    """Wait until the client has disconnected. Only once the whole body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless(
    work: Coroutine[Any, Any, T], *others: Awaitable[Any], timeout: float | None = None
) -> T | None:
    """The outcome of `work`; None if any of the others, or `timeout` seconds, came first."""
    doing = asyncio.ensure_future(work)
    waiting = [asyncio.ensure_future(other) for other in others]
    try:
        await asyncio.wait({doing, *waiting}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        for future in (doing, *waiting):
            future.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(doing, *waiting, return_exceptions=True)


async def ended_or_now(request: "Call", task: Task, wait: float) -> Task:
    """The task as it ended, or as it stands after `wait` seconds at the most.

    The service bounds the wait; its stop and the client's going away end it.
    """
    service = request.service
    ended = await unless(
        service.engine.wait_end(task.id),
        service.stopping.wait(),
        until_gone(request.receive),
        timeout=min(wait, service.settings.max_wait),
    )
    if ended is not None:
        return ended
    [now] = await service.engine.get([task.id])
    if now is None:
        raise TaskNotFound(task.id)
    return now
