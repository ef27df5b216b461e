"""Tasks from Python, many at once: found, listed, and acted on. `app.tasks`."""

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec

from andon.client.handle import TaskHandle
from andon.client.options import check_names
from andon.client.views import TaskView
from andon.engine.filtering import Filters
from andon.lifecycle.commands import Archive, Delete, Rerun
from andon.lifecycle.profiles import profile
from andon.worker.calls import ANY_CALL
from andon.worker.follow_ups import HasId

if TYPE_CHECKING:
    from andon.client.store_access import StoreAccess
    from andon.engine.base import ActionResult

_PAGE = 200


class TaskFilters(TypedDict, total=False):
    """Which tasks; those that fit all that is given.

    Example:
        from andon.client.tasks import TaskFilters

        mail = TaskFilters(queue="mail", state=("failed", "stalled"))
        print(await app.tasks.list(limit=10, **mail))
    """

    state: str | Iterable[str]  #: `"failed"`, or several; also the profile's own names
    queue: str  #: name of the queue
    name: str  #: of the task type
    key: str  #: concurrency key
    group: str  #: the name that the tasks share
    tag: str  #: one of their tags
    worker: str  #: that runs it now
    fingerprint: str  #: what kind of error was its last (`andon dlq groups`)


_FILTERS = frozenset(TaskFilters.__annotations__)


class Tasks:
    """The tasks of an application's store.

    Example:
        handle = await remind.submit_in(3600, "ann@example.org")
        waiting = await app.tasks.list(queue="mail", state="scheduled", limit=10)
        assert waiting[0].id == handle.id
        for acted in await app.tasks.cancel(waiting):
            print(acted.id, acted.error or acted.state)
    """

    def __init__(self, app: "StoreAccess") -> None:
        self._app = app

    def __repr__(self) -> str:
        return f"<Tasks of {self._app!r}>"

    async def get(self, task_id: str) -> TaskView | None:
        """A task as it stands; None if there is none.

        Example:
            handle = await charge.submit(7, 990)
            task = await app.tasks.get(handle.id)
            assert task is not None and task.name == "charge"
        """
        engine = await self._app.engine()
        [task] = await engine.get([task_id])
        return None if task is None else TaskView.of(task, now=engine.now())

    async def list(
        self,
        *,
        limit: int = 100,
        newest_first: bool | None = None,
        **filters: Unpack[TaskFilters],
    ) -> "list[TaskView]":
        """Up to `limit` tasks that fit, the newest first. If `newest_first` is not given, those
        that wait for a time (`state="scheduled"` or `"retry"`, without a key, group or tag) come by
        due time, the soonest first; False is the order in which they were created.

        Raises `ConfigurationError` for a state that there is none of.

        Example:
            failed = await app.tasks.list(state="failed", queue="mail")
        """
        found: list[TaskView] = []
        if limit < 1:
            return found
        async for task in self._found(filters, newest_first, otherwise=True):
            found.append(task)
            if len(found) >= limit:
                break
        return found

    async def find(
        self, *, newest_first: bool | None = None, **filters: Unpack[TaskFilters]
    ) -> AsyncIterator[TaskView]:
        """All tasks that fit, page by page, in the order they were created (or from the newest). If
        `newest_first` is not given, those that wait for a time come as in `list`.

        Example:
            async for task in app.tasks.find(tag="spring"):
                print(task.id, task.state)
        """
        async for task in self._found(filters, newest_first, otherwise=False):
            yield task

    async def _found(
        self, filters: TaskFilters, newest_first: bool | None, *, otherwise: bool
    ) -> AsyncIterator[TaskView]:
        check_names(filters, _FILTERS, "A list of tasks")
        given: dict[str, Any] = {**filters}
        states = given.pop("state", ())
        asked = Filters(states=(states,) if isinstance(states, str) else tuple(states), **given)
        shown_as = profile(self._app.profile)
        keep = asked.keep(shown_as)
        query = asked.listed(shown_as, newest_first=newest_first, otherwise=otherwise, limit=_PAGE)
        engine = await self._app.engine()
        while True:
            page = await engine.find(query)
            for task in page.tasks:
                if keep is None or keep(task):
                    yield TaskView.of(task, now=engine.now())
            if not page.cursor:
                return
            query = msgspec.structs.replace(query, cursor=page.cursor)

    async def cancel(
        self, tasks: Iterable[HasId | str], *, force: bool = False
    ) -> "list[ActionResult]":
        """Cancel many; how each ended, in the order given. None is raised for: a refusal is the
        `error` of its outcome.

        Example:
            outcomes = await app.tasks.cancel(["no-such-task"])
            print(outcomes[0].error)
        """
        engine = await self._app.engine()
        return await engine.cancel(_ids(tasks), force=force)

    async def retry(self, tasks: "Iterable[HasId | str]") -> "list[ActionResult]":
        """Run again what has ended, run now what waits; outcomes as of `cancel`.

        Example:
            failed = await app.tasks.list(state="failed")
            await app.tasks.retry(failed)
        """
        engine = await self._app.engine()
        return await engine.retry(_ids(tasks))

    async def rerun(self, tasks: "Iterable[HasId | str]") -> "list[ActionResult]":
        """Run again tasks that have ended, with a new budget of tries; outcomes as of `cancel`.

        Example:
            done = await app.tasks.list(state="completed", name="charge")
            await app.tasks.rerun(done)
        """
        engine = await self._app.engine()
        return await engine.act(_ids(tasks), Rerun())

    async def archive(self, tasks: "Iterable[HasId | str]") -> "list[ActionResult]":
        """Give up waiting tasks, which become dead letters; outcomes as of `cancel`.

        Example:
            await remind.submit_in(3600, "ann@example.org")
            waiting = await app.tasks.list(state="scheduled", queue="mail")
            for acted in await app.tasks.archive(waiting):
                print(acted.id, acted.error or acted.state)
        """
        engine = await self._app.engine()
        return await engine.act(_ids(tasks), Archive())

    async def edit(self, task: HasId | str, /, *args: Any, **kwargs: Any) -> "TaskHandle[Any]":
        """Give a task that has not begun other arguments; the handle on its successor. See
        `TaskHandle.edit`, which also raises as this does.

        Example:
            handle = await remind.submit_in(3600, "an@example.org")
            corrected = await app.tasks.edit(handle, "ann@example.org")
            assert (await corrected.get()).predecessor == handle.id
        """
        task_id = task if isinstance(task, str) else task.id
        return await TaskHandle[Any](self._app, task_id, ANY_CALL).edit(*args, **kwargs)

    async def delete(self, tasks: "Iterable[HasId | str]") -> "list[ActionResult]":
        """Remove the records of tasks that have ended; outcomes as of `cancel`.

        Example:
            cancelled = await app.tasks.list(state="cancelled", limit=1_000)
            await app.tasks.delete(cancelled)
        """
        engine = await self._app.engine()
        return await engine.act(_ids(tasks), Delete())


def _ids(tasks: Iterable[HasId | str]) -> list[str]:
    return [task if isinstance(task, str) else task.id for task in tasks]
