"""Declares functions and programs as task types."""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import (
    Any,
    Concatenate,
    Literal,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from andon.client.drafts import Draft
from andon.client.function import TaskFunction
from andon.client.handle import TaskHandle
from andon.client.naming import default_name
from andon.client.options import SubmitOptions, TaskOptions, WhenHeld, split_task_options
from andon.client.recurring import Schedule, ScheduleOptions, schedules_given
from andon.client.submitting import Submitting
from andon.client.unawaited import awaited_as
from andon.lifecycle.admission import check_given, check_name
from andon.lifecycle.policies import check_options
from andon.model.errors import ConfigurationError
from andon.model.words import DEFAULT_QUEUE
from andon.worker.calls import ANY_CALL, Call
from andon.worker.context import Context
from andon.worker.registry import Registry, TaskType

P = ParamSpec("P")
R = TypeVar("R")


class _Anything:
    """No handler names this type: a parameter that accepts it accepts any value."""


class TaskDecorator(Protocol):
    """What `app.task(...)` with options returns.

    A handler whose first parameter may be anything cannot be distinguished from one that takes a
    `Context` there; a type checker lets every call of it pass.
    """

    @overload
    def __call__(
        self, function: Callable[Concatenate[_Anything, ...], Coroutine[Any, Any, R]], /
    ) -> TaskFunction[..., R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[_Anything, ...], R], /
    ) -> TaskFunction[..., R, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], R], /
    ) -> TaskFunction[P, R, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R, R]: ...


class Declaring(Submitting):
    """The part of an application that knows its task types, and their schedules."""

    name: str | None
    release: str | None

    def __init__(self, *, queue: str, defaults: TaskOptions) -> None:
        check_given(queue, field="queue")
        check_options(split_task_options(defaults, "Andon").policy)
        self.queue = queue  #: where tasks go that name no queue
        self.registry = Registry()
        self.functions: dict[tuple[str, int], TaskFunction[..., Any, Any]] = {}
        self.declared_schedules: list[tuple[TaskFunction[..., Any, Any], str, Schedule]] = []
        self._defaults = defaults

    @property
    def queue_elsewhere(self) -> str | None:
        """Where tasks go that name no queue and whose code is elsewhere: the application's queue,
        if it was given one. None: the queue that workers have published of the type."""
        return None if self.queue == DEFAULT_QUEUE else self.queue

    @overload
    def task(
        self, function: Callable[Concatenate[_Anything, ...], Coroutine[Any, Any, R]], /
    ) -> TaskFunction[..., R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[_Anything, ...], R], /
    ) -> TaskFunction[..., R, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> TaskFunction[P, R, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> TaskFunction[P, R, R]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        version: int = 0,
        queue: str | None = None,
        isolation: Literal["process"] | None = None,
        unique: bool = False,
        unique_by: Iterable[str] = (),
        on_held: WhenHeld = "refuse",
        supersede_active: bool = False,
        delay: float = 0,
        max_delay: float | None = None,
        priority: int | str = 0,
        headers: Mapping[str, str] | None = None,
        tags: Iterable[str] = (),
        load_dependencies: bool = False,
        cron: str | Iterable[str] = (),
        every: int | None = None,
        tz: str | None = None,
        schedules: Iterable[Schedule] = (),
        **options: Unpack[TaskOptions],
    ) -> TaskDecorator: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        version: int = 0,
        queue: str | None = None,
        isolation: Literal["process"] | None = None,
        unique: bool = False,
        unique_by: Iterable[str] = (),
        on_held: WhenHeld = "refuse",
        supersede_active: bool = False,
        delay: float = 0,
        max_delay: float | None = None,
        priority: int | str = 0,
        headers: Mapping[str, str] | None = None,
        tags: Iterable[str] = (),
        load_dependencies: bool = False,
        cron: str | Iterable[str] = (),
        every: int | None = None,
        tz: str | None = None,
        schedules: Iterable[Schedule] = (),
        **options: Unpack[TaskOptions],
    ) -> Any:
        """Make a function a task type: `@app.task`, or `@app.task(name=…, …)`.

        An async function runs on the worker's loop, a plain one in a thread, and with
        `isolation="process"` in a process of its own. A parameter annotated with `Context` gets
        the run's context and is not submitted; put it first. `name` is by default the module's
        name and the function's; it is stored with every task, so give one if the code may move.
        `unique` derives a unique key from the arguments of each submission, `unique_by` from those
        named. `on_held` says what a submit does whose key another task holds: `refuse`, `return`
        the handle on that task, `supersede` it, or `extend`: supersede it and start `delay` seconds
        after the newest submit, `max_delay` seconds after the first at the most. An active holder
        is left to its run, and with `supersede_active` asked to cancel. `delay` is that of each
        submission that names no other start.
        `headers` and `tags` are those of each submission, headers beside its own; with
        `load_dependencies` the handler gets the results of what it waited for.

        `cron`, an expression or several, with `tz`, the zone whose clocks it goes by, or `every`,
        a number of seconds, make a schedule of the task's name, whose tasks have no arguments;
        `schedules` are others. They fire once a worker of the application has started.

        Raises `ConfigurationError` for options that cannot be, for annotations that JSON cannot
        carry, and for a name that another function has already.

        Example:
            from andon import Andon, Context

            app = Andon("memory://")

            @app.task
            async def greet(name: str) -> str:
                return f"Hello, {name}"

            @app.task(name="thumbnail", isolation="process", timeout=60, retry_on=(OSError, "BUSY"))
            def make_thumbnail(ctx: Context, image: int) -> str:
                return f"{ctx.task_id}-{image}.png"
        """
        times = _times(cron, every, tz)

        def decorate(handler: Callable[..., Any]) -> TaskFunction[..., Any, Any]:
            kind = "async" if inspect.iscoroutinefunction(handler) else "thread"
            codec = Call(handler)
            named = default_name(handler) if name is None else name
            declared = schedules_given(named, schedules, times)
            function = self._register(
                named,
                codec,
                options,
                _given(
                    unique=unique,
                    unique_by=unique_by,
                    on_held=on_held,
                    supersede_active=supersede_active,
                    delay=delay,
                    max_delay=max_delay,
                    priority=priority,
                    headers=headers,
                    tags=tags,
                    load_dependencies=load_dependencies,
                ),
                version=version,
                queue=self.queue if queue is None else queue,
                handler=handler,
                kind=isolation or kind,
                wants_context=bool(codec.context),
            )
            self._declare(function, declared)
            return function

        return decorate if function is None else decorate(function)

    def command(
        self,
        name: str,
        argv: Sequence[str],
        *,
        version: int = 0,
        queue: str | None = None,
        unique: bool = False,
        unique_by: Iterable[str] = (),
        on_held: WhenHeld = "refuse",
        supersede_active: bool = False,
        delay: float = 0,
        max_delay: float | None = None,
        priority: int | str = 0,
        env: Mapping[str, str] | None = None,
        pass_env: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        tags: Iterable[str] = (),
        load_dependencies: bool = False,
        **options: Unpack[TaskOptions],
    ) -> TaskFunction[..., Any, NoReturn]:
        """Make a program a task type: each run starts it and judges it by its exit code
        (docs/rulings.md, R24).

        Of the worker's environment it gets PATH, HOME, the locale and the like; besides what
        `pass_env` names (`AWS_*` for all that begin so), and `env`.

        Example:
            from andon import Andon

            app = Andon("memory://")
            checksum = app.command("checksum", ["cksum"], queue="files", timeout=60)
            async with app:
                handle = await checksum.submit("some", "payload")
        """
        return self._register(
            name,
            ANY_CALL,
            options,
            _given(
                unique=unique,
                unique_by=unique_by,
                on_held=on_held,
                supersede_active=supersede_active,
                delay=delay,
                max_delay=max_delay,
                priority=priority,
                headers=headers,
                tags=tags,
                load_dependencies=load_dependencies,
            ),
            version=version,
            queue=self.queue if queue is None else queue,
            argv=tuple(argv),
            env=dict(env or {}),
            pass_env=pass_env if isinstance(pass_env, str) else tuple(pass_env),
            kind="command",
        )

    def _declare(
        self, function: TaskFunction[..., Any, Any], schedules: Iterable[tuple[str, Schedule]]
    ) -> None:
        taken = {name for _, name, _ in self.declared_schedules}
        for name, schedule in schedules:
            if name in taken:
                raise ConfigurationError(
                    f"Task type {function.name!r}: there is another schedule {name!r} in this "
                    "application; give one of them another name."
                )
            self.declared_schedules.append((function, name, schedule))

    def _register(
        self,
        name: str,
        codec: Call,
        options: TaskOptions,
        submit_defaults: SubmitOptions,
        **how: Any,
    ) -> TaskFunction[..., Any, Any]:
        merged = cast("TaskOptions", {**self._defaults, **options})
        split = split_task_options(merged, f"Task type {name!r}")
        task_type = self.registry.add(
            TaskType(
                name=name,
                codec=codec,
                options=split.policy,
                retry_on_types=split.retry_on,
                no_retry_on_types=split.no_retry_on,
                backoff=split.backoff,
                max_concurrent=split.policy.get("max_concurrent"),
                **how,
            )
        )
        function = TaskFunction[..., Any, Any](self, task_type, defaults=submit_defaults)
        self.functions[task_type.name, task_type.version] = function
        self.connections.tell_types([task_type.info])
        return function

    @awaited_as("Andon.submit")
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
            is_elsewhere=self.queue_elsewhere is None,
            kind="command",
            argv=("elsewhere",),
        )
        return TaskFunction(self, elsewhere, defaults=SubmitOptions())


def _times(cron: str | Iterable[str], every: int | None, tz: str | None) -> ScheduleOptions:
    """The options of a schedule that a task type's own ones make."""
    given = {"cron": cron or None, "every": every, "tz": tz}
    return cast("ScheduleOptions", {k: v for k, v in given.items() if v is not None})


def _given(**options: Any) -> SubmitOptions:
    """The options that a task type sets for each of its submissions, if any."""
    said = {name: value for name, value in options.items() if value and value != "refuse"}
    return cast("SubmitOptions", said)
