"""The application: its task types, and the way to the store that they are submitted to."""

import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from functools import cached_property
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    ParamSpec,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)

import msgspec

from andon.client.bridge import in_calling_thread, is_called_blocking
from andon.client.connections import Connections
from andon.client.declaring import ANY_CALL, Declaring
from andon.client.function import Draft, TaskFunction
from andon.client.handle import TaskHandle
from andon.client.ids import IdMaker, new_id
from andon.client.lifespan import Hook, WorkerLifespan
from andon.client.middleware import Measuring, Middleware, checked_middleware
from andon.client.naming import location_of
from andon.client.options import (
    SubmitOptions,
    TaskOptions,
    check_names,
)
from andon.client.policies import Policies
from andon.client.queues import Queue, Queues
from andon.client.services import CertificateFiles, is_service, service_at
from andon.client.signing import PathLike, Signing, trusted_keys
from andon.client.streaming import streamed
from andon.client.tasks import Tasks
from andon.client.unawaited import awaited
from andon.client.views import TaskView
from andon.contract.instruments import Instruments
from andon.contract.measured_store import measured
from andon.contract.queries import Query
from andon.contract.store import Store
from andon.engine.base import Engine, Joining, Submission, Submitted
from andon.engine.measuring import measured_engine
from andon.engine.opening import open_store
from andon.lifecycle.admission import check_name
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.errors import ConfigurationError, SubmissionsRefused, UniqueKeyHeld
from andon.model.fleet import WorkerInfo
from andon.model.policy import Policy
from andon.model.urls import shown
from andon.worker.registry import TaskType

if TYPE_CHECKING:
    from random import Random

    from andon.client.sync import SyncApp
    from andon.engine.local import LocalEngine
    from andon.signing import SigningKey, TrustedKeys
    from andon.worker.config import WorkerConfig
    from andon.worker.runs import Middleware as WorkerMiddleware
    from andon.worker.worker import Lifespan, Worker

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_URL = "sqlite:///andon.db"
"""Where tasks live when nothing else is said: a file in the current folder."""


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
    max_payload: int  #: bytes a result may take
    app: str  #: module:attribute of this application, for handlers in child processes
    children: int  #: runs at once in child processes; by default one a processor
    idle_children: int | None  #: child processes kept while they have nothing to do
    pass_env: Iterable[str]  #: environment variables that commands get besides
    trusted_keys: "TrustedKeys | PathLike | Iterable[PathLike]"
    """Public keys, or the PEM files of them: only tasks signed with one of these are run. Without,
    the environment variable ANDON_TRUSTED_KEYS names files; without that, no signature is asked
    for."""
    id: str  #: unique in the fleet


class Andon(Declaring):
    """An application: task types, their defaults, and where their tasks live.

    `url` names the store; without one the environment variable ANDON_URL does, else it is
    `sqlite:///andon.db`. A URL that begins with http:// or https:// is that of a service
    (`andon serve`); `token`, or the environment variable ANDON_TOKEN, is what it asks for. To one
    that asks for a certificate it shows `client_certificate`: a PEM file with its key, or a pair of
    files; else those that ANDON_CLIENT_CERTIFICATE and ANDON_CLIENT_KEY name.
    `profile` sets the defaults under which tasks run. `queue` is where tasks go that name none,
    `queues` are settings of queues that a starting worker applies (see `andon.client.queues`).
    `artifacts` is the URL of the place for what runs leave behind, if it is not to be the store's
    own (see `andon.artifacts.place`). `middleware` wraps submits and runs, the outermost first (see
    `Middleware`). `ids` makes the ids of tasks that are given none. `signing_key`, the file of a
    private key or a `andon.signing.SigningKey`, signs what is submitted; without it the file that
    the environment variable ANDON_SIGNING_KEY names does, if any. `lifespan` is a function without
    arguments that gives an async context manager, which each worker is inside of while it works.
    All other keywords are defaults for every task type of this application (see `TaskOptions`),
    weaker than its own.

    Nothing is connected before the first use; that use opens, and the end of the event loop closes.
    `async with app:` does both at a chosen point.

    Example:
        from andon import Andon, Queue

        app = Andon("sqlite:///tasks.db", queues=[Queue("mail", rate_limit="5/s")], max_retries=5)

        @app.task(queue="mail")
        async def greet(name: str) -> str:
            return f"Hello, {name}"

        async with app:
            handle = await greet.submit("Ann")
            async with app.working():
                assert await handle.result(timeout=60) == "Hello, Ann"
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        client_certificate: CertificateFiles | None = None,
        profile: str = "native",
        queue: str = "default",
        queues: Iterable[Queue] = (),
        artifacts: str | None = None,
        signing_key: "SigningKey | PathLike | None" = None,
        middleware: Sequence[object] = (),
        lifespan: "Lifespan | None" = None,
        ids: IdMaker = new_id,
        **defaults: Unpack[TaskOptions],
    ) -> None:
        super().__init__(queue=queue, defaults=defaults)
        self.url = url or os.environ.get("ANDON_URL") or DEFAULT_URL
        """Of the store or service, as given or found."""
        self._token = token
        self._client_certificate = client_certificate
        self.profile = profile  #: name of the profile that sets the defaults
        self.artifacts = artifacts  #: URL of the place for artifacts; None: the store's own
        self.signing = Signing(signing_key)  #: signs submitted tasks
        self.declared_queues = list(queues)
        self.middleware = checked_middleware(middleware)  #: as given
        self.lifespan = WorkerLifespan(lifespan)  #: what each worker is inside of, and its hooks
        self.new_id = ids  #: makes the ids of tasks that are given none
        self._on_submit = [
            cast("Middleware", hook).on_submit
            for hook in self.middleware
            if hasattr(hook, "on_submit")
        ]
        self._instruments: list[Instruments] = [
            cast("Measuring", hook).instruments
            for hook in self.middleware
            if hasattr(hook, "instruments")
        ]
        self.connections = self._connections()

    def __repr__(self) -> str:
        return f"<Andon {shown(self.url)} with {len(self.registry)} task types>"

    def declared(self, task_type: TaskType) -> None:
        self.connections.tell_types([task_type.info])

    # --- submitting ---

    @awaited
    async def submit(
        self,
        name: str,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        /,
        *,
        version: int = 0,
        **options: Unpack[SubmitOptions],
    ) -> TaskHandle[Any]:
        """Submit by name, for code that does not have the handler.

        `args` are named arguments, or a list of positional ones. They are checked here if the
        name is a task type of this application. Raises like `TaskFunction.submit`.

        Example:
            handle = await app.submit("charge", {"order": 7, "cents": 990}, priority=2)
            assert await handle.result(timeout=60) == "order 7 paid"
        """
        return await self.submit_draft(self.draft(name, args, version=version, **options))

    def draft(
        self,
        name: str,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        /,
        *,
        version: int = 0,
        **options: Unpack[SubmitOptions],
    ) -> Draft[Any]:
        """A call by name, to be submitted later.

        Example:
            draft = app.draft("charge", {"order": 7, "cents": 990}, delay=60)
            handle = await draft.submit()
        """
        function = self.functions.get((name, version)) or self._foreign(name, version)
        chosen = function.options(**options) if options else function
        if args is None or isinstance(args, Mapping):
            return chosen.draft_call((), args or {})
        return chosen.draft_call(tuple(args), {})

    def _foreign(self, name: str, version: int) -> TaskFunction[..., Any, Any]:
        """A task whose code is elsewhere."""
        check_name(name, field="task")
        elsewhere = TaskType(
            name=name,
            version=version,
            codec=ANY_CALL,
            queue=self.queue,
            kind="command",
            argv=("elsewhere",),
        )
        return TaskFunction(self, elsewhere, defaults=SubmitOptions())

    @awaited
    async def submit_many(self, drafts: Iterable[Draft[R]]) -> list[TaskHandle[R]]:
        """Submit many drafts in few round trips; handles in the order given.

        Drafts may depend on one another. Each stands alone: if some are refused, the others are
        accepted all the same and `SubmissionsRefused` says which is which.

        Example:
            handles = await app.submit_many([charge.draft(order, 990) for order in range(100)])
            assert len(handles) == 100
        """
        # Drawn where the caller is: a cursor or a session may be used in its own thread only.
        many = await in_calling_thread(lambda: list(drafts))
        outcomes = await self._send_drafts(many)
        pairs = list(zip(many, outcomes, strict=True))
        errors = {o.id: o.error for draft, o in pairs if o.error and not _is_held(draft, o)}
        if errors:
            accepted = tuple(o.id for o in outcomes if o.id not in errors)
            raise SubmissionsRefused(errors, accepted)
        return [self.sent(*pair) for pair in pairs]

    def submit_stream(
        self, drafts: Iterable[Draft[Any]] | AsyncIterable[Draft[Any]]
    ) -> AsyncGenerator[list[Submitted]]:
        """Submit any number of drafts, drawing more while the store writes those before; yields
        how each ended, some hundred at a time, in the order given.

        None is raised for: a refusal is the `error` of its outcome, and the others are accepted all
        the same. What is yielded is stored. If the iterable raises, what it gave before is stored
        and yielded first; whoever wants all or nothing of what cannot be drafted makes a list, and
        submits that. A draft that depends on others of the stream comes after them.

        Example:
            drafts = (charge.draft(order, 990) for order in range(1_000))
            async for outcomes in app.submit_stream(drafts):
                for outcome in outcomes:
                    assert outcome.error is None, outcome.error
        """
        return streamed(self._send_drafts, self._at_once, drafts)

    async def submit_draft(self, draft: Draft[R]) -> TaskHandle[R]:
        """Submit one draft. Raises like `TaskFunction.submit`."""
        [outcome] = await self.sending(draft)
        return self.sent(draft, outcome)

    def sending(self, draft: Draft[Any]) -> Awaitable[list[Submitted]]:
        """What submits one draft when it is awaited, with as few coroutines as it takes."""
        engine = self.connections.at_hand()
        if engine is None or draft.connection is not None or self._on_submit or self.signing:
            return self._send([draft.submission], draft.connection)
        return engine.submit([draft.submission])

    def sent(self, draft: Draft[R], outcome: Submitted) -> TaskHandle[R]:
        """The handle on what was submitted, or on the holder of its key. Raises why not."""
        if outcome.error is not None:
            if _is_held(draft, outcome) and isinstance(outcome.error, UniqueKeyHeld):
                return TaskHandle(self, outcome.error.holder, draft.codec, created=False)
            raise outcome.error
        return TaskHandle(self, outcome.id, draft.codec, outcome.created)

    def records_invalid(self, task_type: TaskType, options: Mapping[str, Any]) -> bool:
        """Whether a submission with these options is kept, as failed, if its arguments do not fit
        (R25)."""
        chosen = options.get("on_invalid") or task_type.options.get("on_invalid")
        return (chosen or self._profile_on_invalid) == "record"

    @cached_property
    def _profile_on_invalid(self) -> str:
        return self._profile_default("on_invalid", "refuse")

    def _profile_default(self, option: str, otherwise: Any) -> Any:
        from andon.lifecycle.profiles import profile

        return profile(self.profile).defaults.get(option, otherwise)

    async def _at_once(self) -> int:
        engine = self.connections.at_hand() or await self.connections.engine()
        return engine.at_once

    async def _send_drafts(self, drafts: Sequence[Draft[Any]]) -> list[Submitted]:
        connections = {id(draft.connection): draft.connection for draft in drafts}
        if len(connections) > 1:
            raise TypeError(
                "These drafts are for several connections; submit those of each in a call of "
                "their own."
            )
        connection = next(iter(connections.values()), None)
        return await self._send([draft.submission for draft in drafts], connection)

    async def _send(self, submissions: list[Submission], connection: Any = None) -> list[Submitted]:
        for hook in self._on_submit:
            submissions = [hook(submission) for submission in submissions]
        engine = self.connections.at_hand() or await self.connections.engine()
        if self.signing:
            submissions = await self.signing.signed(submissions, engine)
        if connection is None:
            return await engine.submit(submissions)
        joining: Any = engine  # a service's engine is none
        if not isinstance(joining, Joining):
            raise ConfigurationError(
                "connection= needs the PostgreSQL store itself; the application's URL leads to a "
                "service, which cannot be part of a transaction."
            )
        is_awaited = joining.is_awaited(connection)
        joinable = await joining.join(submissions)
        if is_awaited:
            if is_called_blocking():
                raise TypeError(
                    "A connection whose calls are awaited belongs to its event loop: await the "
                    "async method there, or give the sync face a connection that blocks."
                )
            return await joinable.submit_async(connection)
        return await in_calling_thread(lambda: joinable.submit(connection))

    # --- what was submitted ---

    @cached_property
    def queues(self) -> Queues:
        """The queues of the store: declared, configured, paused, listed.

        Example:
            await app.queues.pause("mail")
        """
        return Queues(self)

    @cached_property
    def policies(self) -> Policies:
        """The named retry policies of the store: listed, set, deleted."""
        return Policies(self)

    @cached_property
    def tasks(self) -> Tasks:
        """The tasks of the store: found, listed, cancelled, retried, deleted.

        Example:
            failed = await app.tasks.list(state="failed")
        """
        return Tasks(self)

    async def workers(self) -> list[WorkerInfo]:
        """The workers that were alive within the last minute, as they described themselves.

        Example:
            for worker in await app.workers():
                print(worker.id, worker.host, worker.active)
        """
        engine = await self.connections.engine()
        return await engine.workers()

    def handle(self, task_id: str, task: TaskFunction[..., R, Any] | None = None) -> TaskHandle[R]:
        """A handle on a task by its id; with `task` its result is decoded like that one's.

        Example:
            submitted = await charge.submit(7, 990)
            handle = app.handle(submitted.id, charge)
            assert await handle.result(timeout=60) == "order 7 paid"
        """
        codec = ANY_CALL if task is None else task.type.codec
        return TaskHandle(self, task_id, codec)

    async def get(self, task_id: str) -> TaskView | None:
        """A task as it stands; None if there is none.

        Example:
            assert await app.get("no-such-task") is None
        """
        engine = await self.connections.engine()
        [task] = await engine.get([task_id])
        return None if task is None else TaskView.of(task, now=engine.now())

    async def find(self, query: Query | None = None) -> AsyncIterator[TaskView]:
        """Tasks that match, in the order they were created, page by page.

        Example:
            from andon.contract.queries import Query

            async for task in app.find(Query(queue="mail")):
                print(task.id, task.state)
        """
        engine = await self.connections.engine()
        query = query or Query()
        while True:
            page = await engine.find(query)
            for task in page.tasks:
                yield TaskView.of(task, now=engine.now())
            if not page.cursor:
                return
            query = msgspec.structs.replace(query, cursor=page.cursor)

    # --- the connection ---

    def live_at(self, url: str) -> None:
        """Let the tasks live elsewhere than the code says. Only before the first use."""
        self.url = url
        self.connections = self._connections()

    def _connections(self) -> Connections:
        return Connections(self._engine, shared=not self.url.startswith("memory:"))

    async def engine(self) -> "Engine":
        """The engine of the running loop, open: all that can be asked about tasks."""
        return await self.connections.engine()

    async def open(self) -> Self:
        """Connect now rather than at the first use.

        Example:
            from andon import Andon

            app = await Andon("memory://").open()
            await app.close()
        """
        await self.connections.engine()
        return self

    async def until_open(self, *, signals: bool = False) -> bool:
        """Connect, and wait for a store that is away; False if told to stop meanwhile by a signal.

        Raises whatever else keeps the store from being opened.

        Example:
            from andon import Andon

            app = Andon("memory://")
            assert await app.until_open()
            await app.close()
        """
        from andon.worker.opening import until_open

        return await until_open(self.connections.engine, shown(self.url), signals=signals)

    async def close(self) -> None:
        """Flush what was handed over and disconnect from the running loop. Idempotent.

        Example:
            from andon import Andon

            app = Andon("memory://")
            await app.open()
            await app.close()
        """
        await self.connections.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _engine(self) -> Engine:
        if is_service(self.url):
            engine = service_at(self.url, self._token, self._client_certificate)
            return measured_engine(engine, self._instruments) if self._instruments else engine
        return self.engine_on(self.measured(open_store(self.url)))

    def measure(self, instruments: Instruments) -> None:
        """Count with these what passes through engines that are opened from now on."""
        self._instruments.append(instruments)

    def measured(self, store: Store) -> Store:
        """The store, measured with what this application counts with."""
        for instruments in self._instruments:
            store = measured(store, instruments)
        return store

    def engine_on(
        self, store: Store, *, random: "Random | None" = None, poll_s: float = SLOW_POLL_S
    ) -> "LocalEngine":
        """An engine over a store, not yet open, that knows this application's task types.

        `random` decides jitter only; `poll_s` is how often those who sleep on hints look all the
        same.
        """
        from andon.engine.local import LocalEngine

        engine = LocalEngine(
            store,
            profile=self.profile,
            random=random,
            artifacts=self.artifacts,
            poll_s=poll_s,
        )
        engine.know_types([task_type.info for task_type in self.registry])
        return engine

    # --- running tasks ---

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
            prepare=self.queues.declare,
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
        the second hurries them (R11); without, cancel the call. A store that is away is waited
        for, and the log says so; with `require_store` it raises `StoreUnavailable`.

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
            given["app"] = location_of(self)
        # What the profile says of claims is the worker's: a claim comes before the task's policy.
        given.setdefault("per_type", self._profile_default("max_concurrent", None))
        given.setdefault("lease", self._profile_default("lease", Policy().lease))
        return WorkerConfig(**given)

    @cached_property
    def sync(self) -> "SyncApp":
        """The same application for code that is not async: scripts, Django.

        Example:
            handle = charge.sync.submit(7, 990)
            assert app.sync.get(handle.id).name == "charge"
        """
        from andon.client.sync import SyncApp

        return SyncApp(self)


def _is_held(draft: Draft[Any], outcome: Submitted) -> bool:
    """Whether another task holds the key of a draft that means that task then."""
    return draft.returns_holder and isinstance(outcome.error, UniqueKeyHeld)
