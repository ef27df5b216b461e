"""A store, worker processes on it and a client, and the account of all that was submitted."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil
from processes import WorkerProcess
from servers import may_repeat
from servers.proxy import Proxy

from andon import TaskHandle
from andon.model.errors import StoreUnavailable
from andon.model.task import Task
from andon.model.words import TERMINAL, Event, State
from andon.stores.registry import open_store
from andon.testing.ledger import Ledger

from .app import app, hold, is_open, step

if TYPE_CHECKING:
    from andon.engine.local import LocalEngine

PATIENCE_S = 60.0
TICK_S = 0.05
BATCH = 20

Handle = TaskHandle[Any]


class Plant:
    """What one test has. The client and the workers come through the proxy, where there is one;
    the account is taken beside it."""

    def __init__(self, kind: str, url: str, folder: Path, proxy: Proxy | None) -> None:
        self.kind = kind
        self.folder = folder
        self.direct = url
        self.url = url if proxy is None else proxy.before(url)
        self.submitted: dict[str, Handle] = {}
        self.refused = 0  #: submits that had to be repeated
        self.ledger = Ledger(may_repeat=may_repeat(url))
        self._workers: list[WorkerProcess] = []
        self._numbers = itertools.count()
        self._cursor = ""

    async def open(self) -> None:
        self._account = open_store(self.direct)
        await self._account.open()
        self.engine: LocalEngine = app.engine_on(open_store(self.url))
        await self.engine.open()
        self._put_back = app.connections.use(self.engine)

    async def close(self) -> None:
        """Let go of everything; a worker that does not leave in good order fails the test."""
        self._put_back()
        for worker in self._workers:
            worker.close()
        await self.engine.close()
        await self._account.close()

    # --- acting ---

    def worker(self, **settings: Any) -> WorkerProcess:
        """A worker process. It must log no traceback: what fails here is foreseen."""
        url = settings.pop("url", self.url)
        name = f"worker-{next(self._numbers)}"
        settings = {"lease": "3s", "grace": "1s", "concurrency": 20, **settings}
        worker = WorkerProcess(
            "pressure.app:app", url, self.folder, id=name, queue="default", **settings
        )
        self._workers.append(worker)
        return worker

    async def two_workers(self) -> list[WorkerProcess]:
        """Two worker processes that claim: one that still starts would be told that the server is
        away and end at once, which is another matter."""
        workers = [self.worker(), self.worker()]
        for worker in workers:
            await self.running(worker)
        return workers

    async def running(self, worker: WorkerProcess) -> None:
        """Wait until the worker says that it claims."""

        async def holds() -> bool:
            return worker.id in {found.id for found in await self._account.workers()}

        await until(holds)

    async def submit(self, count: int, *, pause: float = 0.02, **options: Any) -> list[Handle]:
        """Submit, each batch repeated until it was answered."""
        kind = step.options(**options)
        handles: list[Handle] = []
        for start in range(0, count, BATCH):
            drafts = [kind.draft(pause=pause) for _ in range(start, min(start + BATCH, count))]
            handles += await self._submitted(drafts)
        return handles

    async def hold(self, count: int, **options: Any) -> tuple[list[Handle], "Gate"]:
        """Submit tasks whose handlers wait at one gate."""
        gate = Gate(self.folder / f"gate-{next(self._numbers)}")
        drafts = [hold.options(**options).draft(gate=gate.path) for _ in range(count)]
        return await self._submitted(drafts), gate

    async def _submitted(self, drafts: Sequence[Any]) -> list[Handle]:
        for _ in range(1_000):
            try:
                handles = await app.submit_many(drafts)
            except StoreUnavailable:
                self.refused += 1
                await asyncio.sleep(TICK_S)
                continue
            self.submitted.update((handle.id, handle) for handle in handles)
            return handles
        raise AssertionError("no submit was ever answered")

    # --- looking ---

    async def look(self) -> bool:
        """Read what is new in the event log; False if the store does not answer."""
        try:
            while (page := await self._account.events(self._cursor)).events:
                assert not page.gap
                self._cursor = page.cursor
                self.ledger.read(page.events)
        except StoreUnavailable:
            return False
        return True

    async def ended(self, share: float = 1.0) -> None:
        """Wait until that share of what was submitted has ended."""
        wanted = share * len(self.submitted)

        async def holds() -> bool:
            return await self.look() and self._ended() >= wanted

        await until(holds, self._where)

    def _ended(self) -> int:
        return sum(n for state, n in self.ledger.states().items() if state in TERMINAL)

    def _where(self) -> str:
        logs = "\n".join(f"== {w.id}\n{w.log[-3000:]}" for w in self._workers)
        return f"{len(self.submitted)} submitted, now {dict(self.ledger.states())}\n{logs}"

    async def balanced(self) -> list[Task]:
        """Everything submitted has completed once; what was accepted was really done."""
        await self.ended()
        await self.look()
        self.ledger.balance(self.submitted)
        assert set(self.ledger.states()) == {State.COMPLETED}
        assert self.ledger.moves[Event.SUBMIT.value] == len(self.submitted)
        assert self.ledger.moves[Event.COMPLETE.value] == len(self.submitted)
        done = self.done()
        found: list[Task] = []
        ids = sorted(self.submitted)
        for start in range(0, len(ids), 200):
            for task in await self._account.get(ids[start : start + 200]):
                assert task is not None
                assert task.result == str(task.status.fence).encode()
                last = task.status.runs[-1]
                assert (task.id, last.number, last.fence) in done
                found.append(task)
        for worker in self._workers:
            assert "Traceback" not in worker.log, worker.log
        return found

    def done(self) -> list[tuple[str, int, int]]:
        """Task, run and fence of every handler that came to its end."""
        path = self.folder / "done"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(t, int(run), int(fence)) for t, run, fence in map(str.split, lines)]

    # --- measuring ---

    @contextmanager
    def patiently(self, *workers: WorkerProcess) -> Iterator[None]:
        """What goes on meanwhile must cost the workers little: who waits does not spin."""
        before = [cpu_s(worker.pid) for worker in workers]
        start = time.monotonic()
        yield
        elapsed = time.monotonic() - start
        spent = [cpu_s(worker.pid) - b for worker, b in zip(workers, before, strict=True)]
        most = 0.3 + 0.2 * elapsed
        assert max(spent) < most, f"{spent} s of processor time in {elapsed:.1f} s of waiting"

    def connections(self) -> int:
        """Connections that this process has to the server; 0 where there is none."""
        port = urlsplit(self.url).port
        found = psutil.Process().net_connections("tcp")
        return sum(bool(c.raddr) and c.raddr.port == port for c in found)


class Gate:
    """Holds handlers until it is opened."""

    def __init__(self, path: Path) -> None:
        self._file = path
        self.path = str(path)

    async def begun(self) -> None:
        """Wait until a handler runs."""

        async def holds() -> bool:
            return is_open(f"{self.path}.begun")

        await until(holds)

    def open(self) -> None:
        self._file.touch()


async def until(holds: Callable[[], Awaitable[bool]], why: Callable[[], str] = str) -> None:
    """Wait for a condition, bounded by a patience that nothing needs when it works."""
    deadline = time.monotonic() + PATIENCE_S
    while not await holds():
        assert time.monotonic() < deadline, f"waited in vain: {why()}"
        await asyncio.sleep(TICK_S)


def cpu_s(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
