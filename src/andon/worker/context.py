"""The context of a run: what its handler can read about it, and report while it runs.

`Context` is injected into a parameter annotated with it, and `current()` finds it from anywhere
below the handler, in threads started by the worker too. `progress` and `heartbeat` only set values
that the worker sends in batches, so calling them often costs nothing. They are safe from any
thread.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeVar

import msgspec

from andon.lifecycle.admission import check_id
from andon.lifecycle.births import check_follow_ups
from andon.model.errors import ConfigurationError, LeaseLost
from andon.model.task import Task
from andon.model.text import storable
from andon.worker.control import Snooze, Stopped
from andon.worker.dependency import Dependency
from andon.worker.files import NewArtifact
from andon.worker.follow_ups import FansOut, FollowUp, HasId

if TYPE_CHECKING:
    from andon.artifacts.base import Artifact
    from andon.engine.base import Submission
    from andon.worker.files import Content

H = TypeVar("H")

StopReason = Literal["", "cancel", "lease-lost", "timeout", "deadline", "shutdown"]
"""Why a handler was told to stop; empty while it was not."""

MOST_MESSAGE = 1_024
"""Characters of a progress message that are kept."""


_logger = logging.getLogger("andon.task")
_NOTHING: Mapping[str, Dependency] = MappingProxyType({})


class ArtifactWriter(Protocol):
    """Keeps artifacts for the runs of one process."""

    async def put(self, context: "Context", new: NewArtifact) -> "Artifact":
        """Keep one; it is there when this returns."""
        ...

    def put_blocking(self, context: "Context", new: NewArtifact) -> "Artifact":
        """The same from a thread that is not the loop's."""
        ...


class TaskWaits(Protocol):
    """Notes which runs wait for other tasks in their handlers."""

    def begin(self, context: "Context", task_id: str) -> int:
        """A run waits for this task from now on; the number to `end` it with."""
        ...

    def end(self, number: int) -> None:
        """It waits no longer."""
        ...


class Context:
    """One run, as its handler sees it.

    Example:
        from andon import Context

        @app.task
        async def import_rows(ctx: Context, rows: int) -> str:
            for row in range(rows):
                ctx.raise_if_cancelled()
                ctx.progress(100 * row // rows, f"row {row}")
            ctx.log.info("run %d, try %d, fence %d", ctx.run, ctx.attempt, ctx.fence)
            return ctx.task_id

        handle = await import_rows.submit(3)
        assert await handle.result(timeout=60) == handle.id
    """

    __slots__ = (
        "_adapter",
        "_clock",
        "_files",
        "_mark",
        "_marked",
        "beat_at",
        "dependencies",
        "follow_ups",
        "message",
        "percent",
        "stop_reason",
        "task",
        "task_waits",
        "worker",
    )

    def __init__(
        self,
        task: Task,
        worker: str,
        mark: Callable[["Context"], None],
        clock: Callable[[], float] = time.monotonic,
        files: "ArtifactWriter | None" = None,
    ) -> None:
        self.task = task  #: the record as it was claimed
        self.worker = worker  #: id of the worker
        self.dependencies: Mapping[str, Dependency] = _NOTHING
        """Id to state, result, error, finished_at, for a task with `load_dependencies`."""
        self.stop_reason: StopReason = ""
        """Why the handler was told to stop; empty while it was not."""
        self.percent: int | None = None  #: newest progress, None before the first
        self.message = ""  #: newest message
        self.follow_ups: tuple[Submission, ...] = ()  #: for the worker: what the run bears
        self.beat_at: float | None = None  #: monotonic time of the newest heartbeat
        self._clock = clock
        self._files = files
        self._mark = mark
        self._marked = False
        self.task_waits: TaskWaits | None = None  #: for the worker: runs that wait for tasks
        self._adapter: logging.LoggerAdapter[logging.Logger] | None = None

    def __repr__(self) -> str:
        return f"<Context of {self.name} {self.task_id} run {self.run}>"

    @property
    def task_id(self) -> str:
        """The task's id, the same in every run."""
        return self.task.definition.id

    @property
    def name(self) -> str:
        """The task's name, as submitted."""
        return self.task.definition.name

    @property
    def args(self) -> Any:
        """The payload as plain JSON values."""
        return msgspec.json.decode(self.task.definition.args)

    @property
    def headers(self) -> Mapping[str, str]:
        """What the task was submitted with in `headers=`; not to be changed."""
        return MappingProxyType(self.task.definition.headers)

    @property
    def run(self) -> int:
        """The number of this run, from 0; never used twice."""
        runs = self.task.status.runs
        return runs[-1].number if runs else 0

    @property
    def fence(self) -> int:
        """Grows with every run of the task: a guard for the handler's own side effects. A number of
        up to 63 bits: a column for it is a BIGINT."""
        return self.task.status.fence

    @property
    def attempt(self) -> int:
        """Which try this is, from 1, of those that count against the budget."""
        return self.task.status.tries + 1

    @property
    def is_cancelled(self) -> bool:
        """Whether the handler was told to stop; `stop_reason` says why."""
        return self.stop_reason != ""

    def raise_if_cancelled(self) -> None:
        """Raise `Stopped` if the handler was told to stop: the way out of a sync handler.

        Example:
            from andon import Context

            @app.task
            def crunch(ctx: Context, rows: int) -> None:
                for _ in range(rows):
                    ctx.raise_if_cancelled()
        """
        if self.stop_reason:
            raise Stopped(self.stop_reason)

    def progress(self, percent: int, message: str = "") -> None:
        """Report how far the run is, 0 to 100, and what it does; counts as a heartbeat.

        What no store can keep of a message (half surrogates, NUL) is replaced by its escape. Raises
        `ValueError` for anything but an integer from 0 to 100 (docs/rulings.md, R15), and
        `TypeError` for a message that is no text.

        Example:
            from andon import Context

            @app.task
            async def crunch(ctx: Context, rows: int) -> None:
                for row in range(rows):
                    ctx.progress(100 * row // rows, f"row {row}")

            handle = await crunch.submit(3)
            await handle.result(timeout=60)
        """
        if type(percent) is not int or not 0 <= percent <= 100:
            raise ValueError(f"Progress is an integer from 0 to 100, got {percent!r}.")
        if not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"The message of a progress is text, got a {type(message).__name__}.")
        self.message = storable(message[:MOST_MESSAGE])[:MOST_MESSAGE]
        self.percent = percent
        self.heartbeat()

    def heartbeat(self) -> None:
        """Report that the handler is alive; matters where `max_heartbeat_interval` is set.

        Example:
            from andon import Context

            @app.task(max_heartbeat_interval=60)
            async def mirror(ctx: Context, pages: int) -> None:
                for _ in range(pages):
                    ctx.heartbeat()

            await (await mirror.submit(3)).result(timeout=60)
        """
        self.beat_at = self._clock()
        if not self._marked:
            self._marked = True
            self._mark(self)

    def snooze(self, seconds: float) -> NoReturn:
        """End this run now and start the task again in `seconds`; costs no try.

        Example:
            from andon import Context

            @app.task
            async def export(ctx: Context, day: str) -> None:
                if ctx.run == 0:
                    ctx.snooze(3600)

            await (await export.submit("today")).result(timeout=7200)
        """
        raise Snooze(seconds)

    def follow_up(self, *drafts: FollowUp[H], before: HasId | str | None = None) -> list[H]:
        """Submit tasks with the end of this run: they exist if and only if it completes.

        They are written with its result, so that no crash comes between the two: a run that fails,
        is retried or has lost its lease submits none, and the run that completes in the end submits
        its own. A rerun submits its own again. Returns handles in the order given; once this task
        has ended, they exist. At most 100 for a run, and 64 KiB.

        A unique key that is held, or an id that is taken, does not undo the run: the task's event
        `deliver` says what was refused. Raises `InvalidSubmission` for too many or too much
        (docs/rulings.md, R38).

        `before`, a task or its id, is one that waits for this run's task, the closing task of a
        flow for instance: it is to wait for these follow-ups, too. They join the group of this
        run's task, unless they have one. A task that is blocked no more, does not wait for this
        one, has `needs`, or would wait for more than 10,000 is refused with the end of the run,
        which fails then (docs/flows.md).

        Example:
            from andon import Context

            @app.task
            async def place(ctx: Context, order: int) -> int:
                [paid] = ctx.follow_up(charge.draft(order, 990))
                return order

            handle = await place.submit(7)
            assert await handle.result(timeout=60) == 7
        """
        if before is None:
            taken = [draft.follow() for draft in drafts]
        else:
            join = before if isinstance(before, str) else before.id
            check_id(join)
            group = self.task.definition.group
            taken = [draft.follow(join, group) for draft in drafts]
        follow_ups = (*self.follow_ups, *(submission for submission, _ in taken))
        check_follow_ups([len(one.args) for one in follow_ups])
        self.follow_ups = follow_ups
        return [handle for _, handle in taken]

    def fan_out(self, flow: FansOut[H]) -> H:
        """Submit a flow that runs if and only if this run completes: thousands of tasks, and those
        that close it. In async code it is awaited, and gives the flow's handle; in threads give it
        a flow of `app.sync`.

        All of it is stored when this returns, and waits for the end of this run. If the run fails
        for good, it ends `unreachable`. If the run is lost or retried, the flow of the later run is
        the one that runs; this one is cancelled (reason `superseded-run`) as soon as that has
        completed. Raises what `Flow.submit` raises, `InvalidSubmission` for a flow with an `id` of
        its own, and `LeaseLost`.

        Example:
            from andon import Context

            @app.task
            async def bill_all(ctx: Context, orders: list[int]) -> str:
                with app.flow("billing") as flow:
                    paid = flow.group(*(flow.add(charge, order, 990) for order in orders))
                    flow.chord(paid, flow.add(report))
                return (await ctx.fan_out(flow)).id

            handle = await bill_all.submit([7, 8])
            flow = app.flows.handle(await handle.result(timeout=60))
            assert await flow.result(timeout=60)
        """
        run = self.task.status.run
        if self.stop_reason == "lease-lost":
            raise LeaseLost(self.task_id, run)
        return flow.fan_out(self.task_id, run)

    async def artifact(
        self,
        name: str,
        content: "Content",
        *,
        content_type: str = "",
        expires_in: float | None = None,
    ) -> "Artifact":
        """Keep a file with this run: bytes, text, the file at a path, or a stream of bytes.

        It is there, whole, when this returns; one of the same name is replaced. `content_type` is
        guessed from the name; `expires_in` seconds, else it is kept as long as the task. Raises
        `InvalidSubmission` for a name that cannot be, `ConfigurationError` when there is no place
        for artifacts, `StoreUnavailable`, and `LeaseLost`.

        Example:
            from andon import Context

            @app.task
            async def draw(ctx: Context) -> int:
                kept = await ctx.artifact("plan.svg", "<svg/>", content_type="image/svg+xml")
                return kept.size

            assert await (await draw.submit()).result(timeout=60) == 6
        """
        new = NewArtifact(name, content, content_type, expires_in)
        return await self._writer.put(self, new)

    def artifact_blocking(
        self,
        name: str,
        content: "Content",
        *,
        content_type: str = "",
        expires_in: float | None = None,
    ) -> "Artifact":
        """The same for sync handlers.

        Example:
            from andon import Context

            @app.task
            def draw(ctx: Context) -> int:
                return ctx.artifact_blocking("plan.svg", "<svg/>", expires_in=3600).size

            assert await (await draw.submit()).result(timeout=60) == 6
        """
        new = NewArtifact(name, content, content_type, expires_in)
        return self._writer.put_blocking(self, new)

    @property
    def _writer(self) -> "ArtifactWriter":
        if self._files is None:
            raise ConfigurationError("This run has nowhere to keep artifacts.")
        return self._files

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """The logger `andon.task`; its records carry `task_id`, `task_name`, `run`, `worker`."""
        if self._adapter is None:
            self._adapter = logging.LoggerAdapter(
                _logger,
                {
                    "task_id": self.task_id,
                    "task_name": self.name,
                    "run": self.run,
                    "worker": self.worker,
                },
            )
        return self._adapter

    def unmark(self) -> None:
        """Make the next progress or heartbeat notify the worker again; the worker calls it before
        it sends them."""
        self._marked = False


running: ContextVar[Context] = ContextVar("andon_context")
"""Set by the worker around each handler."""


def current() -> Context:
    """The context of the run that the caller is part of. Raises `LookupError` outside of one.

    Example:
        from andon import current

        def say(text: str) -> None:
            current().log.info(text)

        @app.task
        async def greet(name: str) -> None:
            say(f"Hello, {name}")

        await (await greet.submit("Ann")).result(timeout=60)
    """
    try:
        return running.get()
    except LookupError:
        raise LookupError("No task runs here: current() works inside a handler only.") from None
