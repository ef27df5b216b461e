"""The bound of dead letters: the oldest beyond it are deleted, by an ordinary delete move
(docs/rulings.md, R21).

A dead letter cannot be deleted while dependents need it, or if its record is damaged. It is skipped
and tried again after all others have been looked at. Until then the next oldest dead letter is
deleted in its place, so that the bound is kept.
"""

from collections.abc import Awaitable, Callable, Sequence
from random import Random

from andon.contract.limits import MAX_BATCH
from andon.contract.optional import CountsDeadLetters, offered
from andon.contract.queries import Query
from andon.contract.requests import Change
from andon.contract.store import Store
from andon.engine.control import change_of
from andon.engine.faults import Culprits
from andon.engine.writes import new_write_id
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Delete
from andon.model.task import Task
from andon.model.words import Reason

_ROUNDS = 20
"""Batches that one call of `keep_bound` deletes at the most."""

_MOST_PASSED = 2_000
"""Dead letters that could not be deleted and are remembered, at the most."""

Write = Callable[[Sequence[tuple[Task, Change]], int], Awaitable[set[str]]]
"""Writes moves. Returns the ids of the tasks whose move was written."""


class DeadLetters:
    """Keeps the dead letters of one store within `limit`. With None there is no bound."""

    def __init__(self, store: Store, random: Random, limit: int | None, write: Write) -> None:
        self._store = store
        self._random = random
        self._limit = limit
        self._write = write
        self._cursor = ""  #: the page after the dead letters that were skipped
        self._passed: dict[str, None] = {}
        self._culprits = Culprits("The bound of dead letters: task")

    async def keep_bound(self) -> None:
        """Delete the oldest dead letters beyond the bound. One call deletes a bounded number."""
        if self._limit is None:
            return
        counting = offered(self._store, CountsDeadLetters)
        for _ in range(_ROUNDS):
            if counting is not None:
                goes_on = await self._by_marks(counting, self._limit)
            else:
                goes_on = await self._by_pages(self._limit)
            if not goes_on:
                return

    async def _by_pages(self, limit: int) -> bool:
        """Delete one page. Returns whether there is another page to look at."""
        excess = sum(queue.dead_letters for queue in await self._store.stats()) - limit
        if excess <= 0:
            self._cursor = ""
            return False
        query = Query(dead_letters=True, limit=min(excess, MAX_BATCH), cursor=self._cursor)
        page = await self._store.find(query)
        await self._delete(page.tasks)
        self._cursor = page.cursor
        return bool(page.cursor)

    async def _by_marks(self, store: CountsDeadLetters, limit: int) -> bool:
        """The same for a store that names the oldest dead letters itself. It names the skipped ones
        too, so that many more are asked for, and the skipped ones are left out."""
        beyond = max(limit - len(self._passed), 0)
        left_out = limit - beyond
        oldest = await store.oldest_dead_letters(beyond=beyond, most=MAX_BATCH + left_out)
        # Some of the skipped may be gone by now: never delete more than are beyond the limit.
        excess = len(oldest) - left_out
        others = [task for task in oldest if task.id not in self._passed][: max(excess, 0)]
        there = {task.id for task in oldest}
        self._passed = {task_id: None for task_id in self._passed if task_id in there}
        deleted = await self._delete(others)
        self._passed.update((task.id, None) for task in others if task.id not in deleted)
        if len(self._passed) > _MOST_PASSED:
            self._passed.clear()
        return bool(others)

    async def _delete(self, letters: Sequence[Task]) -> set[str]:
        """Delete dead letters. Returns the ids of those that are gone now."""
        now = self._store.now()
        fired: list[tuple[Task, Change]] = []
        for task in letters:
            try:
                fired.append((task, self._change(task, now)))
            except Exception as error:
                self._culprits.failed(task.id, error)
        return await self._write(fired, now) if fired else set()

    def _change(self, task: Task, now: int) -> Change:
        delete = Delete(reason=Reason.DEAD_LETTER_BOUND)
        moved = apply(task, delete, now=now, random=self._random.random, write_id=new_write_id())
        return change_of(task, moved)
