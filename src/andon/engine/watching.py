"""Waits for the end of tasks and watches them: woken by the task's own topic, answered from its
record.

A waiter subscribes, reads the record, and reads it again at each hint (docs/rulings.md, R30). The
slow poll that backs the hints is shared by all waiters of this process, and reads in batches. The
event log is not followed; it is read only for a task whose record has gone with its end
(`engine.ends`).

Once watching has begun, it also survives a time in which the store is away; waiting for an end
begins when the store is back.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Sequence

from andon.contract.isolation import each_alone
from andon.contract.limits import MAX_BATCH, in_batches
from andon.contract.store import Store
from andon.contract.topics import EVENTS_TOPIC, run_topic, task_topic
from andon.engine.batching import Batcher
from andon.engine.ending import Closed, pause_away
from andon.engine.ends import Ends, Waiter
from andon.engine.faults import ANYTHING, Culprits
from andon.lifecycle.admission import is_id
from andon.lifecycle.apply import may_be_discarded
from andon.lifecycle.births import is_over
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.errors import AndonError, StoreUnavailable, TaskNotFound
from andon.model.task import Task, TaskEvent

log = logging.getLogger("andon.watching")

_PAGE = 500

Read = tuple[Task | None]
"""A record that was read; None: there is none."""


class Watching:
    """All waiters of this process on one store."""

    def __init__(self, store: Store, jitter: random.Random, *, poll_s: float = SLOW_POLL_S) -> None:
        """`poll_s`: how often the records of all waiters are read without a hint."""
        self._store = store
        self._poll_s = poll_s
        self._jitter = jitter
        self._waiters: dict[str, dict[Waiter, None]] = {}
        self._reads: Batcher[str, Task | None] = Batcher(
            self._get,
            size=MAX_BATCH,
            in_flight=store.in_flight,
            key=str,
            finishes=True,
        )
        self._ends = Ends(store, self._waiters)
        self._polling: asyncio.Task[None] | None = None
        self._culprits = Culprits("Reading for those who wait: task")
        self._is_closed = False

    async def watch(self, task_id: str) -> AsyncIterator[Task]:
        """The task now and after each move and progress, until it has ended and its births are
        stored, or it is gone."""
        waiter = self._enter(task_id, (task_topic(task_id), run_topic(task_id)))
        try:
            last = await self._begin(task_id, waiter)
            yield last
            while not is_over(last.status):
                task = await self._next(task_id, last, waiter)
                if _is_news(task, last):
                    last = task
                    yield task
        finally:
            self._leave(task_id, waiter)

    async def end_of(self, task_id: str) -> Task:
        """The last of these records. Those before it are not handed out, so there is no generator,
        which the event loop would have to close, and no read when a run begins."""
        waiter = self._enter(task_id, (task_topic(task_id),))
        try:
            last = await self._begin(task_id, waiter)
            while not is_over(last.status):
                task = await self._next(task_id, last, waiter)
                if _is_news(task, last):
                    last = task
            return last
        finally:
            self._leave(task_id, waiter)

    def _enter(self, task_id: str, topics: Sequence[str]) -> Waiter:
        """A new waiter, which is to `_leave`."""
        if not is_id(task_id):
            raise TaskNotFound(task_id)
        if self._is_closed:
            raise Closed(f"task {task_id}")
        waiter = Waiter(self._store.listen(topics))
        self._waiters.setdefault(task_id, {})[waiter] = None
        return waiter

    async def _begin(self, task_id: str, waiter: Waiter) -> Task:
        task = await self._reads.put(task_id)
        if task is not None and is_over(task.status):
            return task
        first = task
        if task is not None and may_be_discarded(task) and await self._ends.begin(waiter):
            task = await self._reads.put(task_id)  # its end may lie before the place just taken
        if task is None:
            return await self._ends.of_late(task_id, first)
        if self._polling is None:
            self._polling = asyncio.ensure_future(self._poll())
        return task

    async def _next(self, task_id: str, last: Task, waiter: Waiter) -> Task:
        """The record after the next hint or poll."""
        while True:
            await waiter.hints.wait(None)
            if self._is_closed:
                raise Closed(f"task {task_id}")
            read, waiter.read = waiter.read, None
            try:
                [task] = read or [await self._reads.put(task_id)]
                return task or await self._ends.of(last, waiter)
            except StoreUnavailable as error:
                if self._is_closed:
                    raise Closed(f"task {task_id}") from error
                log.warning("Waiting for task %s and for the store: %s", task_id, error)
                await pause_away(self._jitter)
                waiter.hints.notify()

    def _leave(self, task_id: str, waiter: Waiter) -> None:
        waiter.hints.close()
        if waiter.keeps_place:
            self._ends.leave()
        waiters = self._waiters[task_id]
        del waiters[waiter]
        if not waiters:
            del self._waiters[task_id]

    def _get(self, ids: Sequence[str]) -> Awaitable[list[Task | None]]:
        return self._store.get(ids)

    # --- the slow poll ---

    async def _poll(self) -> None:
        """Read the records of all waiters, now and then: hints may be lost. It ends when it finds
        no waiter, not as soon as the last one leaves: mostly the next one comes at once."""
        try:
            while True:
                await asyncio.sleep(self._poll_s * (0.5 + self._jitter.random()))
                if not self._waiters:
                    return
                try:
                    await self._poll_once()
                except AndonError as error:
                    log.warning("Those who wait for tasks wait for the store: %s", error)
                except Exception as error:
                    log.error("Those who wait for tasks could not be told.", exc_info=error)
        finally:
            self._polling = None

    async def _poll_once(self) -> None:
        place = await self._ends.place()
        any_gone = False
        for batch in in_batches(list(self._waiters)):
            for task_id, read in zip(batch, await self._read_each(batch), strict=True):
                any_gone = any_gone or read is None or read[0] is None
                if read is not None:
                    for waiter in self._waiters.get(task_id, ()):
                        waiter.tell(read)
        if not any_gone:
            self._ends.all_live_at(place)

    async def _read_each(self, ids: Sequence[str]) -> list[Read | None]:
        """Records; None for one at which reading fails."""

        async def read(some: Sequence[str]) -> list[Read | None]:
            return [(task,) for task in await self._store.get(some)]

        def failed(task_id: str, why: str) -> Read | None:
            self._culprits.failed(task_id, why)
            return None

        sound = [task_id for task_id in ids if not self._culprits.is_left_alone(task_id)]
        found = dict(zip(sound, await each_alone(read, sound, failed, ANYTHING), strict=True))
        return [found.get(task_id) for task_id in ids]

    # --- the whole log ---

    async def follow(self, cursor: str | None) -> AsyncIterator[TaskEvent]:
        """Events after the cursor (None: from now), for ever."""
        with self._store.listen([EVENTS_TOPIC]) as hints:
            if cursor is None:
                cursor = await self._store.events_end()
            while True:
                if self._is_closed:
                    raise Closed("the next event")
                try:
                    page = await self._store.events(cursor, _PAGE)
                except StoreUnavailable:
                    await pause_away(self._jitter)
                    continue
                except AndonError:
                    raise
                except Exception as error:
                    log.error("Events after %s could not be read.", cursor, exc_info=error)
                    await pause_away(self._jitter)
                    continue
                cursor = page.cursor
                for event in page.events:
                    yield event
                if not page.events:
                    await hints.wait(self._poll_s * (0.5 + self._jitter.random()))

    def open(self) -> None:
        """Accept waiters (again)."""
        self._is_closed = False

    async def close(self) -> None:
        """Stop, and wake all waiters; they raise `Closed`."""
        self._is_closed = True
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.hints.notify()
        polling, self._polling = self._polling, None
        if polling is not None:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)


def _is_news(task: Task, last: Task) -> bool:
    """Whether the record has moved on or progressed since; one that the poll read may be older."""
    status, before = task.status, last.status
    if status.created_at != before.created_at:
        return status.created_at > before.created_at
    if status.revision != before.revision:
        return status.revision > before.revision
    return task.cell != last.cell
