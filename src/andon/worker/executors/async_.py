"""Async handlers, on the worker's own loop."""

from typing import TYPE_CHECKING, Any

from andon.worker.executors.base import RunInHand

if TYPE_CHECKING:
    from types import CoroutineType


class AsyncExecutor:
    """Runs the handler in the run's own asyncio task, without another task, timeout or wrapper."""

    interrupts = True
    kills = False

    def execute(self, run: RunInHand) -> "CoroutineType[Any, Any, Any]":
        args, kwargs = run.arguments()
        kind = run.kind
        assert kind is not None
        assert kind.handler is not None
        return kind.handler(*args, **kwargs)

    def stop(self, run: RunInHand) -> None:
        if run.handle is not None:
            run.handle.cancel()

    async def close(self) -> None: ...
