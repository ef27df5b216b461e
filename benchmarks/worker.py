"""What the worker itself costs per task: a no-op handler, an engine that answers at once.

    python benchmarks/worker.py [tasks]

Claims, decoding, calling, encoding and the end of the run are the worker's; the engine hands out
records stamped beforehand and counts reports.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any

from andon.contract.hints import Hub
from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.engine.completions import Completion
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import stamped
from andon.lifecycle.commands import Command
from andon.model.errors import ConfigurationError
from andon.model.task import Definition, Stamp, Task
from andon.model.words import State
from andon.worker.calls import Call
from andon.worker.config import WorkerConfig
from andon.worker.registry import Registry, TaskType
from andon.worker.worker import Worker


async def noop() -> None: ...


def sync_noop() -> None: ...


class FreeEngine:
    """An engine that costs next to nothing."""

    in_flight = 1
    claims_ahead = False
    parks_claims = False

    def __init__(self, tasks: int) -> None:
        self._hub = Hub()
        self._left = tasks
        self._ready = [self._task(n) for n in range(tasks)]
        self.done = asyncio.Event()

    def _task(self, n: int) -> Task:
        task = admit(Definition(id=f"t{n}", name="noop"), 1_000, "w")
        return stamped(task, Stamp(f"r{n}", 1, "w", "t", 1_000, 31_000))

    def now(self) -> int:
        return 1_000

    async def claim(self, request: ClaimRequest) -> list[Task]:
        tasks = self._ready[-request.limit :]
        del self._ready[-request.limit :]
        return tasks

    def report_nowait(
        self, task: Task, command: Command, then: Completion, follow_ups: Sequence[Submission] = ()
    ) -> None:
        self._left -= 1
        if not self._left:
            self.done.set()
        asyncio.get_running_loop().call_soon(then, State.COMPLETED, None)

    def renew_blocking(self, renewals: Any) -> list[Any]:
        return []

    def listen(self, topics: Any) -> Any:
        return self._hub.listen(topics)

    async def queues(self) -> list[Any]:
        return []

    async def partitions(self) -> int:
        return 1

    def on_handoff(self, worker: str, start: Any) -> None: ...

    async def publish_types(self, types: Any) -> None: ...

    async def put_worker(self, info: Any) -> None: ...

    async def remove_worker(self, worker: str) -> None: ...

    async def artifacts(self) -> Any:
        raise ConfigurationError("There is no place for the logs of runs.")


async def measure(kind: Any, tasks: int, concurrency: int) -> float:
    """Microseconds per task."""
    engine: Any = FreeEngine(tasks)
    handler = noop if kind == "async" else sync_noop
    registry = Registry()
    registry.add(TaskType(name="noop", codec=Call(handler), handler=handler, kind=kind))
    worker = Worker(engine, registry, WorkerConfig(concurrency=concurrency))
    start = time.perf_counter()
    await worker.start()
    await engine.done.wait()
    took = time.perf_counter() - start
    await worker.stop()
    return took / tasks * 1e6


def main() -> None:
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    for kind in ("async", "thread"):
        for concurrency in (1, 10, 100, 1_000):
            each = asyncio.run(measure(kind, tasks, concurrency))
            print(f"{kind:6} concurrency {concurrency:5,}: {each:5.1f} µs per task")


if __name__ == "__main__":
    main()
