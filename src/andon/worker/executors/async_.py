"""Async handlers, on the worker's own loop."""

from typing import Any

from andon.worker.executors.base import RunInHand


class AsyncExecutor:
    """The run's asyncio task is the handler's: no task, timeout or wrapper of its own."""

    interrupts = True
    kills = False

    async def execute(self, run: RunInHand) -> Any:
        args, kwargs = run.arguments()
        kind = run.kind
        assert kind is not None
        assert kind.handler is not None
        return await kind.handler(*args, **kwargs)

    def stop(self, run: RunInHand) -> None:
        if run.handle is not None:
            run.handle.cancel()

    async def close(self) -> None: ...
