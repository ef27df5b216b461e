"""Waits for clients that may disconnect: long polls and streams."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from andon.lifecycle.births import is_over
from andon.lifecycle.discarded import defined, is_bare
from andon.model.errors import AuthenticationFailed, StoreUnavailable, TaskNotFound
from andon.model.task import Task

if TYPE_CHECKING:
    from litestar.types import Receive

    from andon.service.calls import Call

log = logging.getLogger("andon.service")

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


async def still_allowed(request: "Call") -> None:
    """Raise `AuthenticationFailed` if the request's token is no longer valid: it was revoked or has
    expired, or its run has ended."""
    if any(name == b"authorization" for name, _ in request.scope["headers"]):
        await request.service.guard.authorize(request.scope)


async def held(request: "Call", work: Coroutine[Any, Any, T], wait: float) -> T | None:
    """The outcome of `work`; None after `wait` seconds, or when the service stops or the client
    goes away. Raises `AuthenticationFailed` when the token is no longer valid: nothing is handed
    out under a token with which a new request would be refused."""
    service = request.service
    outcome = await unless(
        work,
        service.stopping.wait(),
        until_gone(request.receive),
        until_refused(request),
        timeout=wait,
    )
    await still_allowed(request)
    return outcome


async def until_refused(request: "Call") -> None:
    """Wait until `still_allowed` would raise; checked as often as a stream's token is."""
    while True:
        await asyncio.sleep(request.service.settings.stream_ping)
        try:
            await still_allowed(request)
        except AuthenticationFailed:
            return
        except StoreUnavailable:
            continue  # not known now; it is checked again
        except Exception:
            log.exception("it is not known whether a token is good still")


async def ended_or_now(request: "Call", task: Task, wait: float) -> Task:
    """The task as it ended, or as it stands after `wait` seconds at the most.

    The service bounds the wait; its stop, a disconnect and the end of the token end it.
    """
    service = request.service
    most = min(wait, service.settings.max_wait)
    ended = await held(request, service.engine.wait_end(task.id), most)
    if ended is not None:
        return defined(ended, task.definition)
    [now] = await service.engine.get([task.id])
    if now is None:
        raise TaskNotFound(task.id)
    return now


def read_scope(task: Task) -> str:
    """The scope that it takes to read the task. The queue of a task that was discarded at its end
    is not known any more, so that needs the right to read every queue."""
    return "tasks:read:*" if is_bare(task) else f"tasks:read:{task.definition.queue}"


async def readable(request: "Call", task_id: str, wait: float) -> Task:
    """The task, for a caller who may read it: as it stands, or with `wait` as it ended, seconds at
    the most. With `wait` the end of a task that was discarded with it is found too
    (docs/rulings.md, R37).

    Raises `TaskNotFound`, and `Problem` (403).
    """
    service = request.service
    [task] = await service.engine.get([task_id])
    if task is not None:
        request.need(read_scope(task))
        if wait > 0 and not is_over(task.status):
            return await ended_or_now(request, task, wait)
        return task
    most = min(wait, service.settings.max_wait)
    ended = await held(request, service.engine.wait_end(task_id), most) if wait > 0 else None
    if ended is None:
        raise TaskNotFound(task_id)
    request.need(read_scope(ended))
    return ended
