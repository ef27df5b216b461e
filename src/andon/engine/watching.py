"""Waiting and watching: woken by the event log, answered from the record.

One reader follows the log for all waiters of this process, only while there are any. Somebody who
waits for a task that is discarded with its end gets the result from the event (R9). Once watching
has begun, a store that is away is waited for too; waiting for an end begins when the store is back.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from copy import copy
from functools import partial

from andon.engine.ending import Closed, pause_away, until_ended
from andon.model.errors import StoreUnavailable, TaskNotFound
from andon.model.task import Task, TaskEvent
from andon.model.words import TERMINAL, Event, State
from andon.stores.base import EVENTS_TOPIC, SLOW_POLL_S, Listener, Store, task_topic
from andon.stores.shared import shared

log = logging.getLogger("andon.watching")

_PAGE = 500


class Watching:
    """Follows the event log of one store for everybody who waits in this process."""

    def __init__(self, store: Store, jitter: random.Random) -> None:
        self._store = store
        self._jitter = jitter
        self._waiters: dict[str, set[asyncio.Queue[TaskEvent | None]]] = {}
        self._tail: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._is_closed = False

    async def wait_end(self, task_id: str, timeout: float | None) -> Task:
        """Wait for a terminal state; the record as it ended."""
        watch = partial(self.watch, progress=False)
        return await until_ended(watch, task_id, timeout, self._jitter)

    async def watch(self, task_id: str, *, progress: bool = True) -> AsyncIterator[Task]:
        """The task now and after each move (and progress), until it has ended or is gone."""
        queue: asyncio.Queue[TaskEvent | None] = asyncio.Queue()
        last: Task | None = None
        end: TaskEvent | None = None
        self._waiters.setdefault(task_id, set()).add(queue)
        try:
            if self._is_closed:
                raise Closed(f"task {task_id}")
            with self._store.listen([task_topic(task_id)]) as hints:
                await self._ensure_tail()
                (last,) = await self._store.get([task_id])
                if last is None:
                    raise TaskNotFound(task_id)
                yield last
                while last.state not in TERMINAL and last.state is not State.UNKNOWN:
                    event, waited = await self._next(queue, hints if progress else None)
                    if self._is_closed:
                        raise Closed(f"task {task_id}")
                    if event is not None and event.target in TERMINAL:
                        end = event
                    task = await self._now(last, event, end, waited=waited)
                    if task is not None and _differs(task, last):
                        last = task
                        yield task
        finally:
            self._leave(task_id, queue)

    async def _next(
        self, queue: asyncio.Queue[TaskEvent | None], hints: Listener | None
    ) -> tuple[TaskEvent | None, bool]:
        """The next event about the task, None after a hint or the slow poll; and whether it was
        the slow poll, by which time every event that was written has come."""
        timeout = SLOW_POLL_S * (0.5 + self._jitter.random())
        getting = asyncio.ensure_future(queue.get())
        hinted = asyncio.ensure_future(_hint(hints, timeout))
        try:
            await asyncio.wait({getting, hinted}, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                return getting.result(), False
            return None, not hinted.result()
        finally:
            getting.cancel()
            hinted.cancel()

    async def _now(
        self, last: Task, event: TaskEvent | None, end: TaskEvent | None, *, waited: bool
    ) -> Task | None:
        """The record as it is; None while it is gone and its delete event has yet to come."""
        if event is not None and event.event is Event.DELETE:
            return _discarded(last, end, event)
        while True:
            try:
                (task,) = await self._store.get([last.id])
            except StoreUnavailable as error:
                if self._is_closed:
                    raise Closed(f"task {last.id}") from error
                log.warning("Waiting for task %s and for the store: %s", last.id, error)
                await pause_away(self._jitter)
                continue
            if task is None and waited:
                raise TaskNotFound(last.id)
            return task

    def _leave(self, task_id: str, queue: asyncio.Queue[TaskEvent | None]) -> None:
        queues = self._waiters.get(task_id)
        if queues is not None:
            queues.discard(queue)
            if not queues:
                del self._waiters[task_id]
        if not self._waiters and self._tail is not None:
            self._tail.cancel()
            self._tail = None

    async def _ensure_tail(self) -> None:
        if self._tail is None or self._tail.done() or self._started is None:
            self._started = asyncio.get_running_loop().create_future()
            self._tail = asyncio.ensure_future(self._follow(self._started))
        await shared(self._started)

    async def _follow(self, started: asyncio.Future[None]) -> None:
        try:
            cursor = await self._store.events_end()
        except Exception as error:
            # Whoever asked for the tail is told; the next one who asks begins it anew.
            started.set_exception(error)
            return
        finally:
            if not started.done():
                started.set_result(None)
        async for event in self.follow(cursor):
            for queue in self._waiters.get(event.task, ()):
                queue.put_nowait(event)

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
                cursor = page.cursor
                for event in page.events:
                    yield event
                if not page.events:
                    await hints.wait(SLOW_POLL_S * (0.5 + self._jitter.random()))

    def open(self) -> None:
        """Take waiters (again)."""
        self._is_closed = False

    async def close(self) -> None:
        """Stop following; who waits is told."""
        self._is_closed = True
        for queues in self._waiters.values():
            for queue in queues:
                queue.put_nowait(None)
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.cancel()
            await asyncio.gather(tail, return_exceptions=True)


async def _hint(hints: Listener | None, timeout: float) -> bool:
    if hints is not None:
        return await hints.wait(timeout)
    await asyncio.sleep(timeout)
    return False


def _differs(task: Task, last: Task) -> bool:
    return task.status.revision != last.status.revision or task.cell != last.cell


def _discarded(last: Task, end: TaskEvent | None, event: TaskEvent) -> Task:
    """The record of a task that went with its end, as far as its last two events tell."""
    status = copy(last.status)
    if event.source is not None:
        status.state = event.source
    status.finished_at = event.at
    status.revision = event.revision
    if end is not None:
        status.reason = end.reason
        status.last_error = end.error or status.last_error
    if status.state is State.COMPLETED:
        status.progress = 100
    return Task(definition=last.definition, status=status, result=event.result)
