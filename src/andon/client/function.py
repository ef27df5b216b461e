"""A decorated function: still callable, and with methods to submit calls of it."""

import functools
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast

import msgspec
from msgspec.structs import replace

from andon.client.bridge import blocking_then
from andon.client.drafts import Draft
from andon.client.handle import SyncHandle, TaskHandle, sync_handles
from andon.client.options import Moment, SubmitOptions, given_of, to_fields
from andon.client.unawaited import awaited
from andon.engine.base import Submission
from andon.lifecycle.unique import derived_key
from andon.model.errors import InvalidSubmission

if TYPE_CHECKING:
    from andon.client.submitting import Submitting
    from andon.worker.registry import TaskType

P = ParamSpec("P")
R = TypeVar("R")
Returned = TypeVar("Returned")


class TaskFunction(Generic[P, R, Returned]):
    """What `@app.task` makes of a function.

    `P` are the parameters of a submission (a leading `Context` is the worker's to give), `R` is
    what the handler returns, and `Returned` what a plain call returns: a coroutine of `R` for an
    async handler. Calling it runs the function here and now, as if it were not decorated.

    Example:
        handle = await charge.submit(7, cents=990)
        assert await handle.result(timeout=60) == "order 7 paid"
        assert await charge(7, 990) == "order 7 paid"  # called here, nothing submitted
    """

    def __init__(
        self,
        app: "Submitting",
        task_type: "TaskType",
        *,
        defaults: SubmitOptions,
        options: SubmitOptions | None = None,
    ) -> None:
        self.app = app
        self.type = task_type
        self._defaults = defaults  # the type's own: priority, unique, key, tags …
        self._options = options or SubmitOptions()
        given = _merged(defaults, self._options)
        self._connection = given.pop("connection", None)
        chosen = to_fields(given)
        self._id = chosen.pop("id", None)
        queue = None if task_type.is_elsewhere else task_type.queue
        named = {"name": task_type.name, "version": task_type.version, "queue": queue}
        fields: dict[str, Any] = {**named, **chosen}
        self._blank = Submission(id="", **fields)  # what all of them have in common
        self._unique_by = _unique_by(task_type, given)
        self._unique = "unique_key" not in given and bool(given.get("unique") or self._unique_by)
        self._returns_holder = given.get("on_held") == "return"
        if task_type.handler is not None:
            functools.update_wrapper(cast("Callable[..., Any]", self), task_type.handler)

    def __repr__(self) -> str:
        return f"<TaskFunction {self.name}>"

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Returned:
        """Run the function itself, here; nothing is submitted."""
        handler = self.type.handler
        if handler is None:
            raise TypeError(f"{self.name} is a command: it runs in a worker only. Submit it.")
        return handler(*args, **kwargs)

    @property
    def name(self) -> str:
        """The name it is submitted under."""
        return self.type.name

    @property
    def sync(self) -> "SyncTaskFunction[P, R, Returned]":
        """The same for code that is not async.

        Example:
            handle = charge.sync.submit(7, 990)
            assert handle.result(timeout=60) == "order 7 paid"
        """
        return SyncTaskFunction(self)

    def options(self, **options: Unpack[SubmitOptions]) -> "TaskFunction[P, R, Returned]":
        """The same task with other options for what is submitted through it.

        Example:
            urgent = charge.options(priority=5, deadline_in=3600)
            await urgent.submit(7, 990)
            await urgent.submit(8, 990)
        """
        merged = _merged(self._options, options)
        return TaskFunction(self.app, self.type, defaults=self._defaults, options=merged)

    @awaited
    async def submit(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]:
        """Submit a call. Once this has returned, the task is stored.

        Raises `InvalidSubmission` when it could never work, `UniqueKeyHeld`, `QueueFull`,
        `TaskConflict` when the id is taken by something else, and `StoreUnavailable`.

        Example:
            handle = await charge.submit(7, cents=990)
            print(handle.id, await handle.status())
        """
        draft: Draft[R] = self.draft_call(args, kwargs)
        [outcome] = await self.app.sending(draft)  # as `submit_draft` does, a coroutine less
        return self.app.sent(draft, outcome)

    @awaited
    async def submit_in(
        self, seconds: float, /, *args: P.args, **kwargs: P.kwargs
    ) -> TaskHandle[R]:
        """Submit a call that may start in so many seconds.

        Example:
            handle = await remind.submit_in(86_400, "ann@example.org")
            assert (await handle.get()).run_at is not None
        """
        return await self.options(delay=seconds).submit(*args, **kwargs)

    @awaited
    async def submit_at(
        self, moment: Moment, /, *args: P.args, **kwargs: P.kwargs
    ) -> TaskHandle[R]:
        """Submit a call that may start at a moment: an aware datetime, or ms since 1970 UTC.

        Example:
            from datetime import UTC, datetime

            handle = await remind.submit_at(datetime(2040, 1, 1, 9, tzinfo=UTC), "ann@example.org")
        """
        return await self.options(run_at=moment).submit(*args, **kwargs)

    async def submit_many(self, drafts: Iterable[Draft[R]]) -> list[TaskHandle[R]]:
        """Submit many drafts in few round trips; see `Andon.submit_many`.

        Example:
            handles = await charge.submit_many([charge.draft(order, 990) for order in range(100)])
        """
        return await self.app.submit_many(drafts)

    def draft(self, /, *args: P.args, **kwargs: P.kwargs) -> Draft[R]:
        """A call to be submitted later. Raises `InvalidSubmission` if the arguments do not fit.

        Example:
            draft = charge.draft(7, 990)
            handle = await draft.submit()
            assert handle.id == draft.id
        """
        return self.draft_call(args, kwargs)

    def draft_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Draft[R]:
        """The same with the arguments as values, whatever they are called."""
        try:
            payload = self.type.codec.encode(args, kwargs)
        except InvalidSubmission as error:
            if not self.app.records_invalid(self.type, self._blank.options):
                raise
            draft = self.draft_of(kept_of(args, kwargs))
            draft.submission = replace(draft.submission, invalid=str(error))
            return draft
        return self.draft_of(payload)

    @property
    def chosen_id(self) -> str | None:
        """The id that its options set; None if each submission gets one of its own."""
        return self._id

    def draft_of(self, payload: bytes) -> Draft[R]:
        """A call whose arguments are encoded already."""
        blank = self._blank
        submission = replace(  # a quarter of what it takes to make one of names
            blank,
            id=self.app.new_id() if self._id is None else self._id,
            args=payload,
            headers=blank.headers.copy(),
            options=blank.options.copy(),
        )
        if self._unique:
            key = derived_key(self.name, payload, self._unique_by)
            submission = replace(submission, unique_key=key)
        codec = self.type.codec
        return Draft(self.app, submission, codec, self._connection, self._returns_holder)


class SyncTaskFunction(Generic[P, R, Returned]):
    """A `TaskFunction` whose submits wait until the task is stored.

    Example:
        handle = charge.sync.submit(7, 990)
        later = remind.sync.submit_in(3600, "ann@example.org")
        print(handle.status(), later.status())
    """

    def __init__(self, function: TaskFunction[P, R, Returned]) -> None:
        self.inner = function
        self.bridge = function.app.bridge

    def __repr__(self) -> str:
        return f"<Sync{repr(self.inner)[1:]}"

    submit = blocking_then(TaskFunction[P, R, Returned].submit, SyncHandle[R])
    submit_in = blocking_then(TaskFunction[P, R, Returned].submit_in, SyncHandle[R])
    submit_at = blocking_then(TaskFunction[P, R, Returned].submit_at, SyncHandle[R])
    submit_many = blocking_then(TaskFunction[P, R, Returned].submit_many, sync_handles)


def _unique_by(task_type: "TaskType", given: SubmitOptions) -> tuple[str, ...]:
    """The arguments that make the unique key. Raises `InvalidSubmission` for one there is none."""
    asked = given.get("unique_by", ())
    names = (asked,) if isinstance(asked, str) else tuple(asked)
    known = task_type.codec.names
    for name in names if known else ():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" It has: {', '.join(known)}."
            raise InvalidSubmission(
                f"unique_by: task {task_type.name!r} has no argument {name!r}.{hint}",
                field="unique_by",
            )
    return names


def _merged(weaker: SubmitOptions, stronger: SubmitOptions) -> SubmitOptions:
    stronger = given_of(stronger)
    merged: dict[str, Any] = {**weaker, **stronger}
    if "headers" in weaker and "headers" in stronger:
        merged["headers"] = {**weaker["headers"], **stronger["headers"]}
    for absolute, relative in (("run_at", "delay"), ("deadline", "deadline_in")):
        if absolute in stronger or relative in stronger:  # one way of saying it replaces the other
            for name in {absolute, relative} - stronger.keys():
                merged.pop(name, None)
    if "on_held" in stronger:  # options of the replaced way are dropped with it
        for name in _ONLY_WITH.get(stronger["on_held"], ()) - stronger.keys():
            merged.pop(name, None)
    return cast("SubmitOptions", merged)


_ONLY_WITH: dict[str, frozenset[str]] = {
    "refuse": frozenset({"supersede_active", "max_delay"}),
    "return": frozenset({"supersede_active", "max_delay"}),
    "supersede": frozenset({"max_delay"}),
}
"""Options of a task type that a submit with another `on_held` does without."""


def kept_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """Arguments that do not fit, as far as they have a JSON form, for a policy that records
    invalid submissions (docs/rulings.md, R25)."""
    try:
        return msgspec.json.encode([*args, kwargs] if args else kwargs)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return b"{}"
