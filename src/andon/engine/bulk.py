"""Acting on every task that a query finds: in pages, once each, and with an end.

The pages follow the order of creation, so that a task which stays in the filter after the act (or
comes back into it) is not met again. Tasks submitted after the start are left alone; otherwise the
call would not end while a client keeps submitting.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from andon.contract.limits import MAX_BATCH, in_batches
from andon.contract.queries import Page, Query
from andon.engine.base import ActionResult
from andon.lifecycle.apply import is_dead_letter
from andon.model.errors import InvalidTransition, TaskNotFound
from andon.model.task import Task

Act = Callable[[Sequence[str]], Awaitable[list[ActionResult]]]
"""What is done to tasks, by their ids; `engine.retry`, for example."""


Progress = Callable[[Sequence[Task | None], Sequence[ActionResult]], Awaitable[None]]
"""Called after each page: with the tasks as they were found, and the outcome of each."""


class Gets(Protocol):
    """The part of an `Engine` that gets tasks."""

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Records, None where there is none."""
        ...


class Finds(Protocol):
    """The part of an `Engine` that finds tasks."""

    def now(self) -> int:
        """The store's clock, ms UTC."""
        ...

    async def find(self, query: Query) -> Page:
        """A page of tasks."""
        ...


class Tally(msgspec.Struct):
    """How many tasks were found, and how acting on them ended.

    Example:
        with app.flow("billing") as flow:
            flow.map(remind.options(delay=3600), ["ann", "bob"])
        tally = await (await flow.submit()).cancel()
        assert (tally.found, tally.changed, tally.refused) == (2, 2, 0)
    """

    found: int = 0  #: tasks that were to be acted on
    changed: int = 0  #: to which it was done
    unchanged: int = 0  #: nothing was to be done
    refused: int = 0  #: that do not allow it as they stand

    def count(self, acted: Sequence[ActionResult]) -> None:
        """Add outcomes."""
        for one in acted:
            self.found += 1
            self.refused += one.error is not None
            self.changed += one.error is None and one.changed
            self.unchanged += one.error is None and not one.changed


async def found(
    engine: Finds,
    query: Query,
    *,
    keep: Callable[[Task], bool] | None = None,
    most: int | None = None,
) -> AsyncIterator[list[Task]]:
    """Pages of the tasks that match now, oldest first unless the query says otherwise.

    `keep` narrows what the query finds; `most` ends after so many tasks. A task that another caller
    moves meanwhile may be found or not.
    """
    began = engine.now()
    left = most
    query = msgspec.structs.replace(query, limit=MAX_BATCH)
    while True:
        page = await engine.find(query)
        old = [task for task in page.tasks if task.status.created_at <= began]
        tasks = [task for task in old if keep is None or keep(task)][:left]
        if tasks:
            yield tasks
        if left is not None:
            left -= len(tasks)
        by_creation = not (query.newest_first or query.due_first)
        past_the_start = bool(page.tasks) and not old and by_creation
        if not page.cursor or past_the_start or left == 0:
            return
        query = msgspec.structs.replace(query, cursor=page.cursor)


async def act_on_found(
    engine: Finds,
    query: Query,
    act: Act,
    *,
    keep: Callable[[Task], bool] | None = None,
    most: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Tally:
    """Do `act` to every task that the query finds. With `dry_run` it is only counted.

    A task that cannot be acted on counts as refused and holds up no other.
    """
    tally = Tally()
    async for tasks in found(engine, query, keep=keep, most=most):
        if dry_run:
            acted = [ActionResult(task.id, task.state, changed=False) for task in tasks]
        else:
            acted = await act([task.id for task in tasks])
        tally.count(acted)
        if progress is not None:
            await progress(tasks, acted)
    return tally


async def act_on_ids(
    engine: Gets,
    ids: Sequence[str],
    act: Act,
    *,
    dead_letters: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Tally:
    """Do `act` to tasks by id; with `dead_letters` only to those that are.

    As with `act_on_found`, an id without a task counts as refused.
    """
    tally = Tally()
    for batch in in_batches(ids, MAX_BATCH):
        tasks = await engine.get(batch)
        acted = [
            _before(task_id, task, dead_letters=dead_letters)
            for task_id, task in zip(batch, tasks, strict=True)
        ]
        good = [one.id for one in acted if one.error is None]
        if good and not dry_run:
            done = {one.id: one for one in await act(good)}
            acted = [done.get(one.id, one) for one in acted]
        tally.count(acted)
        if progress is not None:
            await progress(tasks, acted)
    return tally


def _before(task_id: str, task: Task | None, *, dead_letters: bool) -> ActionResult:
    if task is None:
        return ActionResult(task_id, None, changed=False, error=TaskNotFound(task_id))
    if dead_letters and not is_dead_letter(task, task.status):
        error = InvalidTransition(
            task_id, "acting on dead letters", task.state, "It is no dead letter."
        )
        return ActionResult(task_id, task.state, changed=False, error=error)
    return ActionResult(task_id, task.state, changed=False)
