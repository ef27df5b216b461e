"""Runs the application's hooks and context manager around the work of a worker."""

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from andon.client.middleware import check_hook, check_lifespan

Hook = TypeVar("Hook", bound=Callable[[], Any])


class Fault(msgspec.Struct, frozen=True):
    """An error that a hook or the lifespan raised."""

    what: str  #: such as "start hook shop.connect"
    error: Exception
    traceback: TracebackType | None  #: from the hook's own frame on


class WorkerLifespan:
    """The application's own context manager, and hooks at the start and at the stop.

    Each worker of the process enters it for itself.
    """

    def __init__(self, around: Callable[[], AbstractAsyncContextManager[Any]] | None) -> None:
        check_lifespan(around)
        self._around = around
        self._starts: list[Callable[[], Any]] = []
        self._stops: list[Callable[[], Any]] = []
        self._fault: Fault | None = None

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
                what = f"lifespan {_name(self._around)}"
                manager = await self._called(what, self._around, awaits=False)
                await self._called(what, manager.__aenter__)
                stack.push_async_exit(self._leaving(what, manager))
            for hook in self._stops:
                stack.push_async_callback(self._called, f"stop hook {_name(hook)}", hook)
            for hook in self._starts:
                await self._called(f"start hook {_name(hook)}", hook)
            yield

    def fault_of(self, error: BaseException) -> Fault | None:
        """Which hook raised this error, if it was the last that one raised."""
        fault = self._fault
        return fault if fault is not None and fault.error is error else None

    def _leaving(self, what: str, manager: AbstractAsyncContextManager[Any]) -> Any:
        async def leave(
            kind: type[BaseException] | None,
            error: BaseException | None,
            traceback: TracebackType | None,
        ) -> bool | None:
            def left() -> Any:
                return manager.__aexit__(kind, error, traceback)

            return await self._called(what, left, passes=error)

        return leave

    async def _called(
        self,
        what: str,
        hook: Callable[[], Any],
        *,
        awaits: bool = True,
        passes: BaseException | None = None,
    ) -> Any:
        """Call the hook and return what it gives. An exception that it raises is noted as its own,
        unless it is the one that was passed to it (`passes`)."""
        try:
            outcome = hook()
            return await outcome if awaits and inspect.isawaitable(outcome) else outcome
        except Exception as error:
            if error is not passes:
                raised = error.__traceback__
                traceback = None if raised is None else raised.tb_next
                self._fault = Fault(what, error, traceback)
            raise


def _name(hook: Callable[[], Any]) -> str:
    name = getattr(hook, "__qualname__", None)
    return f"{hook.__module__}.{name}" if name else repr(hook)
