"""Runs an application's tasks: makes workers with their settings, hooks and middleware."""

import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from andon.client.lifespan import Hook, WorkerLifespan
from andon.client.naming import location_of
from andon.client.options import check_names
from andon.client.reading import Reading
from andon.client.signing import PathLike, trusted_keys
from andon.model.policy import Policy

if TYPE_CHECKING:
    from andon.signing import TrustedKeys
    from andon.worker.config import WorkerConfig
    from andon.worker.handler_runner import Middleware as WorkerMiddleware
    from andon.worker.worker import Worker


log = logging.getLogger("andon.client")


class WorkerSettings(TypedDict, total=False):
    """Settings of a worker; what they mean and their defaults stand in `WorkerConfig`.

    Example:
        from andon import Andon
        from andon.client.app import WorkerSettings

        settings = WorkerSettings(queues=["default", "mail"], concurrency=20, shutdown_grace=10)
        app = Andon("memory://")
        async with app, app.working(**settings):
            print(await app.workers())
    """

    queues: Iterable[str]  #: queues to claim from; none named: every queue there is
    strict: bool  #: ask queues in the order named instead of by weight
    concurrency: int  #: runs at once
    per_type: int | None  #: runs at once of a type that sets no limit itself
    lease: float  #: seconds a claim holds
    shutdown_grace: float | None  #: seconds
    max_payload: int  #: bytes a result may take, and arguments with results in them
    app: str  #: module:attribute of this application, for handlers in child processes
    children: int  #: runs at once in child processes; by default one a processor
    idle_children: int | None  #: child processes kept while they have nothing to do
    pass_env: Iterable[str]  #: environment variables that commands get besides
    trusted_keys: "TrustedKeys | PathLike | Iterable[PathLike]"
    """Public keys, or the PEM files of them: only tasks signed with one of these are run. Without,
    the environment variable ANDON_TRUSTED_KEYS names files; without that, no signature is asked
    for."""
    id: str  #: unique in the fleet


class Running(Reading):
    """The part of an application that runs tasks."""

    middleware: tuple[object, ...]
    lifespan: WorkerLifespan

    async def worker(self, **settings: Unpack[WorkerSettings]) -> "Worker":
        """A worker for this application's task types on the running loop, not yet started.

        It claims and runs; timers are the timekeeper's, see `run_worker`. Raises
        `ConfigurationError` for settings that cannot be.

        Example:
            from andon import Andon

            app = Andon("memory://")
            worker = await app.worker(queues=["mail"], concurrency=20)
            await worker.start()
            await worker.stop()
            await app.close()
        """
        from andon.worker.worker import Worker

        check_names(settings, frozenset(WorkerSettings.__annotations__), "A worker")
        return Worker(
            await self.connections.engine(),
            self.registry,
            self.worker_config(settings),
            middleware=self.worker_middleware,
            lifespan=self.lifespan.entered,
            prepare=self.prepare,
        )

    async def run_worker(
        self,
        *,
        signals: bool = True,
        require_store: bool = False,
        **settings: Unpack[WorkerSettings],
    ) -> None:
        """Run tasks, and fire timers, until told to stop.

        With `signals` SIGTERM and SIGINT do that: the first lets runs end as their policies say,
        the second hurries them (docs/rulings.md, R11); without, cancel the call. A store that is
        away is waited for, and the log says so; with `require_store` it raises `StoreUnavailable`.

        Example:
            import asyncio
            from andon import Andon

            app = Andon("memory://")
            serving = asyncio.create_task(app.run_worker(signals=False, concurrency=20))
            await asyncio.sleep(1)
            serving.cancel()  # with signals=True, SIGTERM ends it
        """
        if not require_store and not await self.until_open(signals=signals):
            return
        worker = await self.worker(**settings)
        (await self.connections.engine()).keep_time()
        await worker.run(signals=signals)

    @asynccontextmanager
    async def working(self, **settings: Unpack[WorkerSettings]) -> "AsyncGenerator[Worker, None]":
        """A worker and a timekeeper on the running loop for as long as the block lasts.

        For scripts and small services that run their own tasks: `async with app.working(): …`.
        Leaving the block stops the worker as a first SIGTERM would.

        Example:
            from andon import Andon

            app = Andon("memory://")

            @app.task
            async def double(number: int) -> int:
                return 2 * number

            async with app, app.working(concurrency=20):
                handle = await double.submit(21)
                assert await handle.result(timeout=60) == 42
        """
        worker = await self.worker(**settings)
        (await self.connections.engine()).keep_time()
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    async def prepare(self) -> None:
        """Apply declared queues and schedules, before a worker claims."""
        await self.queues.declare()
        for outcome in await self.schedules.declare():
            if outcome.error is not None:
                log.warning("Schedule %s is not declared: %s", outcome.name, outcome.error)
            elif outcome.result == "older":
                log.info(
                    "Schedule %s is left as a newer release of this application declared it.",
                    outcome.name,
                )

    def on_worker_start(self, hook: Hook, /) -> Hook:
        """Have a worker call this, async or not, before its first claim; also a decorator.

        What it raises keeps the worker from starting.

        Example:
            pools = []

            @app.on_worker_start
            async def open_pool() -> None:
                pools.append("a pool of connections")
        """
        return self.lifespan.on_start(hook)

    def on_worker_stop(self, hook: Hook, /) -> Hook:
        """Have a worker call this, async or not, after its last run; also a decorator.

        Each of several is called, the newest first, also if another raises.

        Example:
            @app.on_worker_stop
            def say_goodbye() -> None:
                print("the last run is over")
        """
        return self.lifespan.on_stop(hook)

    @property
    def worker_middleware(self) -> "list[WorkerMiddleware]":
        """Those of `middleware` that wrap runs."""
        return [
            cast("WorkerMiddleware", hook) for hook in self.middleware if hasattr(hook, "around")
        ]

    def worker_config(self, settings: WorkerSettings) -> "WorkerConfig":
        """The worker's configuration; knows where children find this application."""
        from andon.worker.config import WorkerConfig

        given: dict[str, Any] = {**settings}
        if "queues" in given:
            given["queues"] = tuple(given["queues"])
        if "pass_env" in given and not isinstance(given["pass_env"], str):
            given["pass_env"] = tuple(given["pass_env"])
        given["trusted_keys"] = trusted_keys(given.get("trusted_keys"))
        if "app" not in given and any(kind.kind == "process" for kind in self.registry):
            given["app"] = location_of(self, self.registry)
        # The profile's settings for claims apply to the worker: a claim comes before the task's
        # policy.
        given.setdefault("per_type", self.profile_default("max_concurrent", None))
        given.setdefault("lease", self.profile_default("lease", Policy().lease))
        return WorkerConfig(**given)
