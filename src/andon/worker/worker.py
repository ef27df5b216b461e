"""The worker: claims tasks with room for them, runs their handlers, and leaves in good order.

Put together from its parts: `claiming` (which tasks), `runs` (each run in hand), `executors` (where
handlers run), `lease_keeper` (renewals, from a thread), `shutdown`, `presence`. It promises that it
never dies of a store that is away or of anything a handler does, and that no run is reported by
it after its lease may have passed on.
"""

import asyncio
import contextlib
import logging
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from andon.contract.topics import CONFIG_TOPIC, Listener, control_topic
from andon.engine.artifacts import warn_if_not_kept
from andon.engine.base import Engine
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.errors import ConfigurationError
from andon.model.fleet import WorkerInfo
from andon.worker.background import attempt, keep_on, until_done
from andon.worker.backoff import Backoff
from andon.worker.blocked_loop import BlockedLoopWatch
from andon.worker.claiming.loop import ClaimLoop
from andon.worker.claiming.queues import QueueOrder
from andon.worker.config import WorkerConfig
from andon.worker.executors.base import Executor
from andon.worker.executors.factory import make_executors, make_process_executor
from andon.worker.executors.guard import Guard
from andon.worker.handler_runner import Middleware
from andon.worker.lease_keeper import LeaseKeeper
from andon.worker.logs.capture import LogCapture
from andon.worker.presence import EVERY_S, Presence
from andon.worker.registry import Registry
from andon.worker.runs import Runs
from andon.worker.shutdown import Shutdown, Signals
from andon.worker.type_limits import TypeLimits
from andon.worker.type_publisher import TypePublisher, queues_of

logger = logging.getLogger("andon.worker")
Lifespan = Callable[[], AbstractAsyncContextManager[Any]]
"""Makes what a worker is inside of while it works: connections opened once, closed at its end."""

_LAST_CLAIM_S = 10.0
"""How long a stop waits for the answer to a claim that is under way."""

_COUNT_S = 60.0
"""How often a worker of a store with partitions counts the fleet, about."""


class Worker:
    """One worker on the running event loop. The engine is the caller's to open and close.

    Example:
        from andon import Andon

        app = Andon("memory://")
        worker = await app.worker(concurrency=20)
        await worker.start()
        worker.set_quiet(True)  # goes on with what runs, claims nothing
        print(worker.id, worker.active, worker.lease)
        await worker.stop()
        await app.close()
    """

    def __init__(
        self,
        engine: Engine,
        registry: Registry,
        config: WorkerConfig | None = None,
        *,
        middleware: Sequence[Middleware] = (),
        lifespan: Lifespan | None = None,
        prepare: Callable[[], Awaitable[object]] | None = None,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        poll_s: float = SLOW_POLL_S,
    ) -> None:
        """`middleware`: outermost first. `lifespan` makes the context manager that the worker is
        inside of from before its first claim until after its last run. `prepare` is awaited before
        the first claim, again and again while the store is away. `rng` decides jitter and the order
        of queues only. `clock` gives monotonic seconds; leases are given up by it. `poll_s`: how
        often to look without a hint, as in the engine."""
        self._clock = clock
        self._poll_s = poll_s
        self.config = config or WorkerConfig()  #: its settings
        self._engine = engine
        self._registry = registry
        self._middleware = middleware
        self._lifespan = lifespan
        self._prepare_app = prepare
        self._inside = contextlib.AsyncExitStack()
        self._rng = rng or random.Random()
        self._state: Literal["running", "quiet", "stopping"] = "running"
        self._started_at = 0
        self._hurried = False
        self._loops: list[asyncio.Task[None]] = []
        self._claiming: asyncio.Task[None] | None = None
        self._asked_to_stop = asyncio.Event()
        self._is_begun = False
        self._unwatch: Callable[[], None] = _nothing
        self._closing: asyncio.Task[None] | None = None
        self._guard = Guard()

    def __repr__(self) -> str:
        return f"<Worker {self.id}: {self._state if self._is_begun else 'not started'}>"

    @property
    def id(self) -> str:
        """The worker's id."""
        return self.config.id

    @property
    def lease(self) -> float:
        """Seconds for which runs are claimed.

        A claim is for tasks of any type, so it takes the shortest lease among them: were it longer
        than a task's own, a worker that dies before its first renewal would be missed too late.
        """
        own = (kind.options.get("lease") for kind in self._registry)
        return min((self.config.lease, *(lease for lease in own if lease is not None)))

    @property
    def active(self) -> int:
        """Runs whose handler is running."""
        return self._runs.running

    async def start(self) -> None:
        """Begin to claim. Returns at once, and waits in the background for a store that is away.

        Raises `ConfigurationError` when a handler cannot be run as it wishes, and what the lifespan
        raises; nothing was claimed then. Raises `RuntimeError` for a worker that has been started
        or stopped already: each start takes a worker of its own.
        """
        if self._asked_to_stop.is_set():
            raise RuntimeError(
                f"Worker {self.id} has been stopped, and starts no more. "
                "Make another: app.worker()."
            )
        if self._is_begun:
            raise RuntimeError(
                f"Worker {self.id} has been started already. For more runs at once raise its "
                "concurrency, or make another: app.worker()."
            )
        self._is_begun = True
        try:
            await self._start()
        except BaseException:
            self._is_begun = False
            raise

    async def _start(self) -> None:
        config, engine, rng = self.config, self._engine, self._rng
        limits = TypeLimits(self._registry, config.per_type, children=config.children)
        self._executors = self._make_executors()
        self._limits = limits
        self._order = QueueOrder(
            config.queues, own=queues_of(self._registry), strict=config.strict, rng=rng
        )
        self._keeper = self._make_keeper()
        self._logs = self._make_logs()
        self._runs = Runs(
            engine,
            self._registry,
            self._executors,
            worker=config.id,
            concurrency=config.concurrency,
            limits=limits,
            lease=self.lease,
            max_payload=config.max_payload,
            middleware=self._middleware,
            trusted_keys=config.trusted_keys,
            keeper=self._keeper,
            rng=rng,
            clock=self._clock,
            logs=self._logs,
        )
        self._claim_loop = ClaimLoop(
            engine,
            self._runs,
            self._order,
            limits,
            worker=config.id,
            concurrency=config.concurrency,
            lease=self.lease,
            rng=rng,
            clock=self._clock,
            poll_s=self._poll_s,
        )
        self._runs.when_freed(self._claim_loop.freed)
        self._types = TypePublisher(
            engine, self._registry, self._executors, claim=self._claim_loop.set_code
        )
        self._shutdown = Shutdown(self._runs, grace=config.shutdown_grace)
        every = EVERY_S * self._poll_s / SLOW_POLL_S
        self._presence = Presence(engine, self._describe, rng, every_s=every)
        if self._lifespan is not None:
            await self._inside.enter_async_context(self._lifespan())
        self._started_at = engine.now()
        self._loop = asyncio.get_running_loop()
        self._unwatch = self._types.watch()
        self._keeper.start(self._runs.told)
        self._watch = self._make_watch()
        if self._watch is not None:
            self._runs.when_busy(self._watch.set_busy)
        self._claiming = asyncio.create_task(self._claim())
        self._spawn(keep_on("Presence", self._presence.run_once, rng))
        self._spawn(keep_on("The watch over leases", self._watch_leases, rng))
        self._spawn(self._follow("Control", control_topic(config.id), self._on_control))
        if self._asked_to_stop.is_set():  # while the lifespan was entered
            self._begin_leaving()

    async def run(self, *, signals: bool = True) -> None:
        """Work until told to stop, by `begin_stop` or a signal; returns when all is in order.

        With `signals` the worker takes SIGTERM, SIGINT, SIGTSTP and SIGCONT (main thread only).
        Told to stop before, it claims nothing. Raises what `start` raises.

        Example:
            import asyncio
            from andon import Andon

            app = Andon("memory://")
            worker = await app.worker()
            running = asyncio.create_task(worker.run(signals=False))
            await asyncio.sleep(0)
            worker.begin_stop()
            await running
            await app.close()
        """
        if self._asked_to_stop.is_set() and not self._is_begun:
            return
        await self.start()
        try:
            with Signals(self) if signals else contextlib.nullcontext():
                await self._asked_to_stop.wait()
                await self.stop()
        finally:
            await self._close_once()

    async def stop(self) -> None:
        """Claim no more, let runs end as their policies say, and leave. Idempotent."""
        if not self._asked_to_stop.is_set():
            self.begin_stop()
        if self._claiming is None:
            return
        await asyncio.wait((self._claiming,), timeout=_LAST_CLAIM_S)
        await self._runs.wait_empty()
        await self._close_once()

    def begin_stop(self) -> None:
        """The first step of leaving, without waiting; called again, the second (see `shutdown`).

        Example:
            import asyncio
            from andon import Andon

            app = Andon("memory://")
            worker = await app.worker()
            running = asyncio.create_task(worker.run(signals=False))
            await asyncio.sleep(0)
            worker.begin_stop()  # again: hurry
            await running
            await app.close()
        """
        if not self._asked_to_stop.is_set():
            self._asked_to_stop.set()
            if self._claiming is not None:
                self._begin_leaving()
        elif not self._hurried and self._claiming is not None:
            self._hurried = True
            self._shutdown.hurry()

    def _begin_leaving(self) -> None:
        self._set_state("stopping")
        self._claim_loop.stop()
        self._shutdown.begin()

    def set_quiet(self, quiet: bool) -> None:
        """Claim nothing while quiet; what runs goes on."""
        if self._state != "stopping" and self._claiming is not None:
            self._claim_loop.set_quiet(quiet)
            self._set_state("quiet" if quiet else "running")

    # --- the parts ---

    # A worker in virtual time makes these two otherwise.

    def _make_keeper(self) -> LeaseKeeper:
        return LeaseKeeper(self._engine, shortest=self.lease, clock=self._clock, rng=self._rng)

    def _make_watch(self) -> BlockedLoopWatch | None:
        return BlockedLoopWatch(self._runs.named)

    def _make_logs(self) -> LogCapture | None:
        return LogCapture(self._engine)

    def _make_executors(self) -> dict[str, Executor]:
        return make_executors(self.config, self._registry, self._guard)

    def _spawn(self, loop: Coroutine[Any, Any, None]) -> None:
        self._loops.append(asyncio.create_task(loop))

    def _set_state(self, state: Literal["running", "quiet", "stopping"]) -> None:
        self._state = state
        self._presence.changed()

    def _describe(self) -> WorkerInfo:
        return WorkerInfo(
            id=self.config.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=self._order.names,
            concurrency=self.config.concurrency,
            active=self._runs.running,
            started_at=self._started_at,
            state=self._state,
            code=self._types.code.digest,
            trusts=() if self.config.trusted_keys is None else self.config.trusted_keys.ids,
        )

    # --- its loops ---

    async def _follow_types(self) -> None:
        """Run tasks of types that are registered while the worker runs."""
        await self._types.follow(self._take_in_types)
        await self._on_configuration()
        self._presence.changed()

    def _take_in_types(self) -> None:
        self._take_in_processes()
        self._limits.take_in(self._registry)
        self._order.take_in(queues_of(self._registry))

    async def _claim(self) -> None:
        """Publish the types, learn of the queues, then claim until stopped."""
        backoff = Backoff(self._rng)
        while not await attempt("Starting", self._prepare):
            if self._asked_to_stop.is_set():
                return
            await asyncio.sleep(backoff.failed())
        self._spawn(self._follow("Queues", CONFIG_TOPIC, self._on_configuration, poll=self._poll_s))
        self._spawn(keep_on("Types", self._follow_types, self._rng))
        if self._partitions > 1:
            self._spawn(keep_on("Counting workers", self._count_workers, self._rng))
        await until_done("Claiming", self._claim_on, self._rng)

    async def _claim_on(self) -> None:
        await self._claim_loop.run(self._partitions)

    async def _prepare(self) -> None:
        await self._types.publish()
        if self._prepare_app is not None:
            await self._prepare_app()
        self._partitions = await self._engine.partitions()
        self._order.refresh(await self._engine.queues())
        await warn_if_not_kept(self._engine, logger)

    async def _follow(self, what: str, topic: str, act: Any, *, poll: float | None = None) -> None:
        """Call `act` once subscribed (docs/rulings.md, R30), after each hint, and every `poll` s or
        so besides."""

        async def listen() -> None:
            with self._engine.listen([topic]) as listener:
                while True:
                    await act()
                    await self._hinted(listener, poll)

        await keep_on(what, listen, self._rng)

    async def _hinted(self, listener: Listener, poll: float | None) -> None:
        timeout = None if poll is None else poll * (0.75 + 0.5 * self._rng.random())
        await listener.wait(timeout)

    async def _on_control(self) -> None:
        self._keeper.ask()

    def _take_in_processes(self) -> None:
        """Make the executor of child processes, if a type asks for it by now."""
        if "process" not in self._executors:
            try:
                made = make_process_executor(self.config, self._registry, self._guard)
                self._executors.update(made)
            except ConfigurationError as error:
                logger.error("Types registered since this worker began are not run: %s", error)

    async def _on_configuration(self) -> None:
        await self._types.keep_code()
        if self._order.refresh(await self._engine.queues()):
            self._claim_loop.queues_changed()

    async def _watch_leases(self) -> None:
        await self._runs.wait_busy()
        await asyncio.sleep(self.lease / 6)
        self._keeper.expired()

    async def _count_workers(self) -> None:
        """How many workers share the partitions with this one (see `claiming.rotation`)."""
        workers = await self._engine.workers()
        others = [worker for worker in workers if worker.id != self.id]
        room = [w for w in others if w.state == "running" and w.active < w.concurrency]
        self._claim_loop.set_fleet(workers=len(others) + 1, idle=len(room) + 1)
        await asyncio.sleep(_COUNT_S * (0.75 + 0.5 * self._rng.random()))

    # --- the end ---

    async def _close_once(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._unwatch()
        self._unwatch = _nothing
        loops = [task for task in (self._claiming, *self._loops) if task is not None]
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        self._keeper.stop()
        if self._watch is not None:
            self._watch.stop()
        # An error of one keeps none of the others from being closed, and the worker stops.
        for name, executor in self._executors.items():
            await attempt(f"Closing the executor {name!r}", executor.close)
        self._guard.close()
        if self._logs is not None:
            await attempt("Keeping the last log lines", self._logs.aclose)
        await attempt("Leaving the list of workers", self._presence.leave)
        await self._inside.aclose()


def _nothing() -> None:
    """The default where there is nothing to undo."""
