"""The real worker, fitted for virtual time.

Two parts of it count real seconds and are exchanged. Leases are kept from the loop instead of from
a thread. Threads and commands do take real time; the clock stands still for them. Handlers that
ask for a process of their own run in a thread, so that a test can replace what they reach.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from andon.contract.outcomes import Verdict
from andon.testing.clock import VirtualLoop
from andon.worker.context import Context
from andon.worker.executors.base import Executor, RunInHand
from andon.worker.lease_keeper import Lease, LeaseKeeper, Renews
from andon.worker.worker import Worker

if TYPE_CHECKING:
    from andon.client.app import Andon
    from andon.engine.local import LocalEngine


POLL_S = 3600.0
"""Virtual seconds after which loops that wait for hints look without one. No hint is lost within
one process, and each look takes real time: as often as on a real store, an idle day of virtual time
took seconds."""


class LoopKeeper(LeaseKeeper):
    """A lease keeper that renews from the loop, by the loop's clock."""

    def __init__(
        self, engine: Renews, *, shortest: float, loop: asyncio.AbstractEventLoop, rng: Random
    ) -> None:
        super().__init__(engine, shortest=shortest, clock=loop.time, rng=rng)
        self._loop = loop
        self._alarm: asyncio.TimerHandle | None = None

    def start(self, told: Callable[[Lease, Verdict], None]) -> None:
        self._told = told
        self._arm(0)

    def stop(self) -> None:
        self._stopping = True
        if self._alarm is not None:
            self._alarm.cancel()

    def hold(self, lease: Lease) -> None:
        super().hold(lease)
        if self._alarm is None:
            self._arm(0)

    def mark(self, context: Context) -> None:
        super().mark(context)
        self._loop.call_soon_threadsafe(self._arm, 0)

    def ask(self) -> None:
        super().ask()
        self._arm(0)

    def _arm(self, seconds: float) -> None:
        if self._stopping:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_later(seconds, self._tick)

    def _tick(self) -> None:
        self._alarm = None
        pause = self.turn()
        if self._held:
            self._arm(pause)  # else what is held next does


class _Outside:
    """An executor whose runs take real time: virtual time stands still meanwhile."""

    def __init__(self, inner: Executor, loop: VirtualLoop) -> None:
        self._inner = inner
        self._loop = loop
        self.interrupts = inner.interrupts
        self.kills = inner.kills

    async def execute(self, run: RunInHand) -> Any:
        with self._loop.outside():
            return await self._inner.execute(run)

    def stop(self, run: RunInHand) -> None:
        self._inner.stop(run)

    async def close(self) -> None:
        await self._inner.close()


class VirtualWorker(Worker):
    """A worker whose every clock is the loop's."""

    def _make_keeper(self) -> LeaseKeeper:
        return LoopKeeper(self._engine, shortest=self.lease, loop=_virtual_loop(), rng=self._rng)

    def _make_watch(self) -> None:
        """None: virtual time stands still while the loop is busy."""

    def _make_logs(self) -> None:
        """None are kept: gathering them for a second would let virtual time pass."""

    def _make_executors(self) -> dict[str, Executor]:
        loop = _virtual_loop()
        made = super()._make_executors()
        threads = _Outside(made["thread"], loop)
        return {
            **made,
            "thread": threads,
            "process": threads,
            "command": _Outside(made["command"], loop),
        }


def _virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


@asynccontextmanager
async def virtual_worker(
    app: "Andon",
    engine: "LocalEngine",
    *,
    queues: Sequence[str] = (),
    concurrency: int = 10,
    seed: int = 0,
) -> AsyncGenerator[Worker, None]:
    """A worker of the application that runs inside the block."""
    config = app.worker_config(
        {
            "queues": queues,
            "concurrency": concurrency,
            "children": concurrency,  # one course on every machine, however many processors
            "app": "a:b",
        }
    )
    worker = VirtualWorker(
        engine,
        app.registry,
        config,
        middleware=app.worker_middleware,
        lifespan=app.lifespan.entered,
        prepare=app.prepare,
        rng=Random(seed),
        poll_s=POLL_S,
        clock=asyncio.get_running_loop().time,
    )
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()
