"""What a worker does before its first claim and after its last run, as the application says."""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from andon.client.middleware import check_hook, check_lifespan

Hook = TypeVar("Hook", bound=Callable[[], Any])


class WorkerLifespan:
    """The application's own context manager, and hooks at the start and at the stop.

    Each worker of the process enters it for itself.
    """

    def __init__(self, around: Callable[[], AbstractAsyncContextManager[Any]] | None) -> None:
        check_lifespan(around)
        self._around = around
        self._starts: list[Callable[[], Any]] = []
        self._stops: list[Callable[[], Any]] = []

    def on_start(self, hook: Hook) -> Hook:
        """Call this before the first claim, after the hooks registered before it."""
        check_hook(hook, "on_worker_start")
        self._starts.append(hook)
        return hook

    def on_stop(self, hook: Hook) -> Hook:
        """Call this after the last run, before the hooks registered before it. It is called too if
        a hook at the start has failed."""
        check_hook(hook, "on_worker_stop")
        self._stops.append(hook)
        return hook

    @asynccontextmanager
    async def entered(self) -> AsyncGenerator[None]:
        """One worker's life."""
        async with AsyncExitStack() as stack:
            if self._around is not None:
                await stack.enter_async_context(self._around())
            for hook in self._stops:
                stack.push_async_callback(_called, hook)
            for hook in self._starts:
                await _called(hook)
            yield


async def _called(hook: Callable[[], Any]) -> None:
    outcome = hook()
    if inspect.isawaitable(outcome):
        await _awaited(outcome)


async def _awaited(outcome: Awaitable[Any]) -> None:
    await outcome
