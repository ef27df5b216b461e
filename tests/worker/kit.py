"""What the worker's tests share: handlers become types, tasks are submitted, ends are awaited."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import psutil
from tests.service.kit import Running

from andon import Andon
from andon.engine.base import Engine, Submission
from andon.engine.completions import Completion, Completions
from andon.engine.http.engine import HttpEngine
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Command
from andon.model.errors import StoreUnavailable
from andon.model.task import Task
from andon.model.words import Reason, State
from andon.service.service import Service
from andon.service.settings import Settings
from andon.stores.memory import MemoryStore
from andon.worker.calls import Call
from andon.worker.config import WorkerConfig
from andon.worker.registry import Registry, TaskType
from andon.worker.worker import Worker

WAIT = 60.0


class Faults:
    """An engine in front of another: fails, loses replies and holds calls when told to."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.claims_ahead = engine.claims_ahead
        self.failing: dict[str, int] = {}  #: method to how many calls fail before they are made
        self.losing: dict[str, int] = {}  #: method to how many replies are lost
        self.raising: dict[str, list[Exception]] = {}  #: method to what its next calls raise
        self.turns: dict[str, int] = {}  #: method to how many turns of the loop its calls wait
        self.held: dict[str, asyncio.Event] = {}  #: method to what its calls wait for
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self._telling = Completions()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._engine, name)
        faulty = {"claim", "report", "dependency_results", "publish_types", "put_worker"}
        if name not in {*faulty, "keep_code"}:
            if name == "renew_blocking":
                return self._renew
            return real

        async def call(*args: Any) -> Any:
            self.calls.append((name, args))
            for _ in range(self.turns.get(name, 0)):
                await asyncio.sleep(0)
            if name in self.held:
                await self.held[name].wait()
            if self._counts(self.failing, name):
                raise StoreUnavailable("told to fail")
            if self.raising.get(name):
                raise self.raising[name].pop(0)
            answer = await real(*args)
            if self._counts(self.losing, name):
                raise StoreUnavailable("reply lost")
            return answer

        return call

    def report_nowait(
        self, task: Task, command: Command, then: Completion, follow_ups: Sequence[Submission] = ()
    ) -> None:
        self._telling.tell(self.report(task, command, follow_ups), then)

    def called(self, name: str) -> list[tuple[Any, ...]]:
        return [args for called, args in self.calls if called == name]

    def _renew(self, renewals: Any) -> Any:
        self.calls.append(("renew_blocking", (renewals,)))
        if self._counts(self.failing, "renew_blocking"):
            raise StoreUnavailable("told to fail")
        return self._engine.renew_blocking(renewals)

    @staticmethod
    def _counts(counts: dict[str, int], name: str) -> bool:
        left = counts.get(name, 0)
        counts[name] = left - 1
        return left > 0


class Kit:
    """One store, one engine, some workers."""

    def __init__(self, url: str = "memory://") -> None:
        self.url = url
        self.registry = Registry()
        self.workers: list[Worker] = []
        self._numbers = itertools.count()
        self.local: Engine

    async def open(self) -> None:
        self.local = LocalEngine(MemoryStore(self.url))
        await self.local.open()
        self.engine = Faults(self.local)

    async def close(self) -> None:
        for worker in self.workers:
            worker.begin_stop()
            worker.begin_stop()
            await worker.stop()
        await self.local.close()

    def add(self, handler: Callable[..., Any] | None = None, **settings: Any) -> TaskType:
        """Register a handler under its own name; a function that is not async runs in a thread."""
        if handler is not None:
            settings.setdefault("name", handler.__name__)
            is_async = asyncio.iscoroutinefunction(handler)
            settings.setdefault("kind", "async" if is_async else "thread")
        return self.registry.add(TaskType(codec=Call(handler), handler=handler, **settings))

    def make(self, **settings: Any) -> Worker:
        """A worker on the default queue, not started."""
        settings.setdefault("queues", ("default",))
        middleware: Sequence[Any] = settings.pop("middleware", ())
        return Worker(
            cast("Any", self.engine), self.registry, WorkerConfig(**settings), middleware=middleware
        )

    async def start(self, **settings: Any) -> Worker:
        """Start a worker; it is stopped with the kit."""
        worker = self.make(**settings)
        await worker.start()
        self.workers.append(worker)
        return worker

    async def submit(self, name: str, *positions: Any, **settings: Any) -> str:
        """Submit a task; its id. Keywords are fields of the submission, or its options."""
        fields = {k: settings.pop(k) for k in list(settings) if k in Submission.__struct_fields__}
        fields.setdefault("id", f"t{next(self._numbers)}")
        fields.setdefault("args", msgspec.json.encode(list(positions)))
        fields.setdefault("options", {"max_retries": 0, **settings})
        [submitted] = await self.local.submit([Submission(name=name, **fields)])
        assert submitted.error is None, submitted.error
        return submitted.id

    async def end(self, task_id: str) -> Task:
        """The record once the task has ended."""
        return await self.local.wait_end(task_id, WAIT)

    async def run(self, name: str, *positions: Any, **settings: Any) -> Task:
        """Submit, and wait for the end."""
        return await self.end(await self.submit(name, *positions, **settings))

    async def get(self, task_id: str) -> Task:
        [task] = await self.local.get([task_id])
        assert task is not None
        return task

    async def until(self, task_id: str, holds: Callable[[Task], bool]) -> Task:
        """The record once the condition holds for it."""
        async with asyncio.timeout(WAIT):
            async for task in self.local.watch(task_id):
                if holds(task):
                    return task
        raise AssertionError(f"{task_id} ended before that")


class RemoteKit(Kit):
    """The same with a service in between, on a store on disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        app = Andon(f"sqlite:///{folder}/tasks.db")
        self._service = Running(Service(app, Settings(port=0)))

    async def open(self) -> None:
        await asyncio.to_thread(self._service.start)
        self.local = HttpEngine(self._service.url, patience=0.5)
        await self.local.open()
        self.engine = Faults(self.local)

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            await asyncio.to_thread(self._service.stop)


def error_of(task: Task) -> tuple[State, Reason | None, str]:
    """State, reason and error code."""
    assert task.status.last_error is not None
    return task.state, task.status.reason, task.status.last_error.code


def result_of(task: Task) -> Any:
    assert task.state is State.COMPLETED, task.status
    assert task.result is not None
    return msgspec.json.decode(task.result)


def last_run(task: Task) -> Any:
    """How the newest resolved run ended."""
    run = next(run for run in reversed(task.status.runs) if run.resolved_at is not None)
    return run.resolved_event, run.resolved_reason


async def until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds, of which nobody tells."""
    async with asyncio.timeout(WAIT):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def written(path: Path) -> str:
    """What another process writes to a file, as soon as it is there."""
    async with asyncio.timeout(WAIT):
        while not (path.exists() and path.read_text()):  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.005)
    return path.read_text()  # noqa: ASYNC240


async def gone(pid: int) -> None:
    """Wait until a process has ended."""
    async with asyncio.timeout(WAIT):
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
