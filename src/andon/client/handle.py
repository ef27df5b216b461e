"""A handle on a submitted task: its result, its state, and the acts on it."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from andon.artifacts.links import file_behind
from andon.client.bridge import blocking, blocking_then, iterating
from andon.client.options import Moment, to_ms, to_priority
from andon.client.views import EventView, TaskView
from andon.lifecycle.commands import (
    Archive,
    Command,
    Delete,
    Reprioritise,
    Rerun,
    Reschedule,
    Schedule,
)
from andon.model.errors import TaskCancelled, TaskFailed, TaskNotFound
from andon.model.task import Task, TaskError
from andon.model.words import Reason, State
from andon.worker.slot_deadlock import awaited_in_run

if TYPE_CHECKING:
    from andon.artifacts.base import Artifact, LogLine
    from andon.client.store_access import StoreAccess
    from andon.engine.base import ActionResult, Engine
    from andon.worker.calls import Call

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class TaskHandle(msgspec.Struct, Generic[R_co], eq=False, gc=False):
    """One task, wherever it runs. `R_co` is what its handler returns.

    Every method asks the store and may raise `StoreUnavailable`.

    Example:
        handle = await charge.submit(7, 990)
        assert await handle.result(timeout=60) == "order 7 paid"
        for move in await handle.history():
            print(move.at, move.event, move.target)
    """

    app: "StoreAccess"
    id: str  #: of the task
    _codec: "Call"
    created: bool = True  #: False if this exact submission had been accepted before

    def __repr__(self) -> str:
        return f"<TaskHandle {self.id}>"

    @property
    def sync(self) -> "SyncHandle[R_co]":
        """The same handle for code that is not async.

        Example:
            handle = app.sync.handle("no-such-task")
            print(handle.id)
        """
        return SyncHandle(self)

    async def result(self, timeout: float | None = None) -> R_co:
        """What the handler returned; waits until the task has ended, `timeout` seconds at most.

        Raises `TaskFailed` when it ended in another state than completed (`TaskCancelled` when it
        was cancelled), `TimeoutError` when it has not ended in time, `TaskNotFound` when there is
        no such task, `msgspec.ValidationError` when the result is not of the annotated type.

        Example:
            from andon.errors import TaskFailed

            handle = await charge.options(max_retries=0).submit(7, -1)
            try:
                await handle.result(timeout=60)
            except TaskFailed as failure:
                print(failure.state, failure.reason, failure.error)
        """
        engine = self.app.connections.at_hand() or await self.app.engine()
        task = await awaited_in_run(self.id, engine.wait_end(self.id, timeout))
        if task.status.state is State.COMPLETED:
            return cast("R_co", self._codec.decode_result(task.result))
        raise _failure(task)

    async def status(self) -> State:
        """The state the task is in. Raises `TaskNotFound`.

        Example:
            from andon import State

            handle = await remind.submit_in(3600, "ann@example.org")
            assert await handle.status() is State.SCHEDULED
        """
        return (await self._read()).status.state

    async def get(self) -> TaskView:
        """The whole task as it stands. Raises `TaskNotFound`.

        Example:
            handle = await charge.submit(7, 990)
            task = await handle.get()
            print(task.state, task.tries, task.args)
        """
        return self._view(await self._read(), await self.app.engine())

    async def watch(self) -> AsyncIterator[TaskView]:
        """The task now, and again whenever it has moved or progressed, until it has ended.

        Example:
            handle = await charge.submit(7, 990)
            async for task in handle.watch():
                print(task.state, task.progress, task.progress_message)
        """
        engine = await self.app.engine()
        async for task in engine.watch(self.id):
            yield self._view(task, engine)

    async def history(self) -> tuple[EventView, ...]:
        """The task's moves, oldest first; the newest 1,000 of them.

        Example:
            handle = await charge.submit(7, 990)
            for move in await handle.history():
                print(move.at, move.source, "->", move.target, move.reason)
        """
        engine = await self.app.engine()
        return tuple(EventView.of(event) for event in (await engine.history(self.id)).events)

    async def dependents(self) -> AsyncIterator[TaskView]:
        """The tasks that name this one as a dependency, in the order of their ids: those that wait
        for it, those that were released by hand, and those that have ended, as long as their
        records are kept (docs/rulings.md, R42). Raises `TaskNotFound`.

        Example:
            first = await remind.submit_in(3600, "ann@example.org")
            second = await remind.options(depends_on=[first]).submit("bob@example.org")
            assert [task.id async for task in first.dependents()] == [second.id]
        """
        engine, cursor = await self.app.engine(), ""
        while True:
            page = await engine.dependents(self.id, cursor)
            for task in page.tasks:
                yield self._view(task, engine)
            if not page.cursor:
                return
            cursor = page.cursor

    async def logs(
        self, *, run: int | None = None, follow: bool = False
    ) -> AsyncIterator["LogLine"]:
        """What the task's runs have logged, or one of them by its number, a line at a time.

        With `follow` it goes on with what is logged, until the task has ended. Raises
        `TaskNotFound`, and `ConfigurationError` where no place for logs is known.

        Example:
            handle = await remind.submit("ann")
            async for line in handle.logs(follow=True):
                print(line.level, line.text)
        """
        from andon.client.runlogs import run_lines

        async for found in run_lines(await self.app.engine(), self.id, run=run, follow=follow):
            yield found.line

    async def artifacts(self, *, run: int | None = None) -> list["Artifact"]:
        """The files that the task's runs, or one of them, left behind, by run and name.

        Raises `ConfigurationError` where no place for artifacts is known.

        Example:
            handle = await remind.submit("ann")
            await handle.result(timeout=60)
            for artifact in await handle.artifacts():
                print(artifact.run, artifact.name, artifact.size)
        """
        engine = await self.app.engine()
        return await (await engine.artifacts()).find(self.id, run)

    async def read_artifact(self, name: str) -> bytes:
        """The content of the newest artifact of that name, whole and as it is kept: if it has an
        `encoding`, encoded. A link gives what it stands for. Raises `ArtifactNotFound`, also for a
        reference and for an error in the place of a file.

        Example:
            handle = await remind.submit("ann")
            await handle.result(timeout=60)
            assert (await handle.read_artifact("mail.txt")).startswith(b"Dear ann")
        """
        artifacts = await (await self.app.engine()).artifacts()
        found = await file_behind(artifacts, await artifacts.latest(self.id, name))
        return b"".join([piece async for piece in artifacts.read(found)])

    async def cancel(self, *, force: bool = False, wait: float | None = None) -> State | None:
        """Cancel the task; the state that follows, None if it is not kept.

        A running task is asked to stop and ends by itself; with `force` it is cancelled at once
        and its run can write no more. `wait` gives it that many seconds to end, then raises
        `TimeoutError`. Raises `InvalidTransition` for a task that has ended otherwise.

        Example:
            from andon import State

            handle = await remind.submit_in(3600, "ann@example.org")
            assert await handle.cancel() is State.CANCELLED
        """
        engine = await self.app.engine()
        [acted] = await engine.cancel([self.id], force=force)
        state = _state_after(acted)
        if wait is None or state is not State.ACTIVE:
            return state
        return (await engine.wait_end(self.id, wait)).status.state

    async def retry(self) -> State | None:
        """Run again what has ended, run now what waits; nothing to do for pending (docs/rulings.md,
        R20).

        Raises `InvalidTransition` for a running task.

        Example:
            handle = await remind.submit_in(3600, "ann@example.org")
            await handle.retry()  # it waits: run it now
            assert await handle.result(timeout=60) == "ann@example.org reminded"
        """
        engine = await self.app.engine()
        [acted] = await engine.retry([self.id])
        return _state_after(acted)

    async def rerun(
        self,
        *,
        run_at: Moment | None = None,
        deadline: Moment | None = None,
        keep_budget: bool = False,
        blocked: bool = False,
    ) -> State | None:
        """Run a task again that has ended, with a new budget of tries (docs/rulings.md, R20).

        With `keep_budget` the tries used still count, but for one more run. A new `deadline` is
        needed when the old one has passed. With `blocked` one that waits for its dependencies runs
        without them. Raises `InvalidTransition` for a task that has not ended, or has had as many
        runs as its policy allows (`max_runs`).

        Example:
            handle = await charge.submit(7, 990)
            await handle.result(timeout=60)
            await handle.rerun()
        """
        return await self._act(
            Rerun(
                run_at=None if run_at is None else to_ms("run_at", run_at),
                deadline=None if deadline is None else to_ms("deadline", deadline),
                keep_budget=keep_budget,
                blocked=blocked,
            )
        )

    async def schedule(self) -> State | None:
        """Release a blocked task by hand, whatever it waits for.

        Example:
            first = await remind.submit_in(3600, "ann@example.org")
            blocked = await charge.options(depends_on=first).submit(7, 990)
            await blocked.schedule()
            assert await blocked.result(timeout=60) == "order 7 paid"
        """
        return await self._act(Schedule())

    async def reschedule(self, run_at: Moment) -> State | None:
        """Give a waiting task another start time.

        Example:
            from datetime import UTC, datetime

            handle = await remind.submit_in(3600, "ann@example.org")
            await handle.reschedule(datetime(2040, 1, 1, 9, tzinfo=UTC))
        """
        return await self._act(Reschedule(run_at=to_ms("run_at", run_at)))

    async def reprioritise(self, priority: int | str) -> State | None:
        """Give a task another priority, -4 to 5 or one of the seven names. Of one that runs, it
        counts from its next run on. Raises `InvalidTransition` for a task that has ended.

        Example:
            handle = await remind.submit_in(3600, "ann@example.org")
            await handle.reprioritise("high")
        """
        return await self._act(Reprioritise(priority=to_priority("priority", priority)))

    async def archive(self) -> State | None:
        """Give up a waiting task: it becomes a dead letter, reason `archived-by-hand`, whatever its
        policy says of dead letters. Raises `InvalidTransition` for a task that runs or has ended.

        Example:
            handle = await remind.submit_in(3600, "ann@example.org")
            await handle.archive()
            assert (await handle.get()).reason == "archived-by-hand"
        """
        return await self._act(Archive())

    async def edit(self, *args: Any, **kwargs: Any) -> "TaskHandle[R_co]":
        """Give a task that has not begun other arguments; the handle on its successor.

        A definition is written once, so the task is cancelled (reason `edited`) and a successor
        submitted in its place: the same in all else, at the end of its line, and each names the
        other (`TaskView.successor`, `TaskView.predecessor`). A crash in between is finished by the
        timekeeper. All arguments are given anew.

        Raises `InvalidTransition` for a task that has begun or ended, or that others depend on
        (they would not follow), and `InvalidSubmission` for arguments that do not fit.

        Example:
            handle = await remind.submit_in(3600, "an@example.org")
            corrected = await handle.edit("ann@example.org")
            assert (await handle.get()).successor == corrected.id
            assert await corrected.result(timeout=7200) == "ann@example.org reminded"
        """
        task = await self._read()
        d = task.definition
        kind = self.app.registry.route(d.name, d.version)
        codec = self._codec if kind is None else kind.codec
        engine = await self.app.engine()
        done = await engine.edit(self.id, codec.encode(args, kwargs), self.app.new_id())
        if done.error is not None:
            raise done.error
        return TaskHandle(self.app, done.id, self._codec, created=done.created)

    async def delete(self) -> None:
        """Remove the record of a task that has ended.

        Example:
            handle = await charge.submit(7, 990)
            await handle.result(timeout=60)
            await handle.delete()
        """
        await self._act(Delete())

    async def _act(self, command: Command) -> State | None:
        engine = await self.app.engine()
        [acted] = await engine.act([self.id], command)
        return _state_after(acted)

    async def _read(self) -> Task:
        engine = await self.app.engine()
        [task] = await engine.get([self.id])
        if task is None:
            raise TaskNotFound(self.id)
        return task

    def _view(self, task: Task, engine: "Engine") -> TaskView:
        return TaskView.of(task, self._codec.decode_result, now=engine.now())


def _sync_handle(handle: TaskHandle[R]) -> "SyncHandle[R]":
    return SyncHandle(handle)


class SyncHandle(Generic[R_co]):
    """A `TaskHandle` whose methods wait.

    Example:
        handle = charge.sync.submit(7, 990)
        assert handle.result(timeout=60) == "order 7 paid"
        for move in handle.history():
            print(move.at, move.event)
    """

    def __init__(self, handle: TaskHandle[R_co]) -> None:
        self.inner = handle
        self.bridge = handle.app.bridge

    def __repr__(self) -> str:
        return f"<SyncHandle {self.id}>"

    @property
    def id(self) -> str:
        """The task's id."""
        return self.inner.id

    result = blocking(TaskHandle[R_co].result)
    status = blocking(TaskHandle[R_co].status)
    get = blocking(TaskHandle[R_co].get)
    watch = iterating(TaskHandle[R_co].watch)
    history = blocking(TaskHandle[R_co].history)
    dependents = iterating(TaskHandle[R_co].dependents)
    logs = iterating(TaskHandle[R_co].logs)
    artifacts = blocking(TaskHandle[R_co].artifacts)
    read_artifact = blocking(TaskHandle[R_co].read_artifact)
    cancel = blocking(TaskHandle[R_co].cancel)
    retry = blocking(TaskHandle[R_co].retry)
    rerun = blocking(TaskHandle[R_co].rerun)
    schedule = blocking(TaskHandle[R_co].schedule)
    reschedule = blocking(TaskHandle[R_co].reschedule)
    reprioritise = blocking(TaskHandle[R_co].reprioritise)
    archive = blocking(TaskHandle[R_co].archive)
    edit = blocking_then(TaskHandle[R_co].edit, _sync_handle)
    delete = blocking(TaskHandle[R_co].delete)


def sync_handles(handles: list[TaskHandle[R]]) -> list[SyncHandle[R]]:
    """The same handles for code that is not async."""
    return [SyncHandle(handle) for handle in handles]


def _state_after(acted: "ActionResult") -> State | None:
    if acted.error is not None:
        raise acted.error
    return acted.state


def _failure(task: Task) -> TaskFailed:
    status = task.status
    kind = TaskCancelled if status.state is State.CANCELLED else TaskFailed
    error = status.last_error
    if status.reason is Reason.SUPERSEDED:
        error = TaskError(message=f"task {status.successor!r} has its place.")
    reason = "" if status.reason is None else status.reason.value
    return kind(task.id, status.state.value, reason, "" if error is None else error.message)
