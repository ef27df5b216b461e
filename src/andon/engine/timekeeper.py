"""The timekeeper: the loop that fires timers. Any number may run at once, on any worker.

A due entry is a hint. Its taker reads the record, asks the pure core what the timer means, and
writes that move only if the record and the lease are still what was read; a renewal that arrived
in between wins. Whoever takes an entry pushes it on by `hold`, so that another does it if the
taker dies. Sleeps until the next timer or a hint, at most SLOW_POLL_S: nothing polls when idle.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, Protocol

from andon.engine.control import change_of
from andon.engine.dependencies import Dependencies
from andon.engine.writes import new_write_id
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Delete
from andon.lifecycle.timers import on_timer, rearm, wants_verify
from andon.model.errors import AndonError, InvalidTransition
from andon.model.task import Task
from andon.model.words import Reason, State
from andon.stores.base import (
    MAX_BATCH,
    SLOW_POLL_S,
    TIMER_TOPIC,
    Change,
    Changed,
    ChangeKind,
    CountsDeadLetters,
    Query,
    Store,
)

log = logging.getLogger("andon.timekeeper")

HOLD_MS = 10_000
"""How long a taken timer is kept from other takers."""

HOUSEKEEPING_S = 5.0
"""Seconds between looks at what no timer covers: fan-outs cut short, event trimming, bounds."""

_TRIM_S = 30.0
"""Seconds between looks for what can be trimmed, unless there was something the last time."""

_BOUND_ROUNDS = 20
"""Batches of dead letters deleted at one look: some cannot be deleted yet, and would come again."""

RETRY_LATER_MS = 60_000
"""When a record could not be deleted because dependents need it, look again after this."""


class Ended(Protocol):
    """Told of every end written."""

    def __call__(self, task: Task, state: State | None, changed: Changed, /) -> None: ...


class Timekeeper:
    """Fires the timers of every partition of one store."""

    def __init__(
        self,
        store: Store,
        dependencies: Dependencies,
        ended: Ended,
        *,
        random: Random,
        dead_letter_limit: int | None,
        also: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """`also` is a loop that runs beside the timers, once per process."""
        self._also = also
        self._store = store
        self._dependencies = dependencies
        self._ended = ended
        self._random = random
        self._dead_letter_limit = dead_letter_limit
        self._tasks: list[asyncio.Task[None]] = []
        self._trim_at = 0.0  # by the loop's clock

    def start(self) -> None:
        """Begin to fire timers. Idempotent."""
        if not self._tasks:
            loops = [self._keep(partition) for partition in range(self._store.partitions)]
            loops += [self._housekeep(), self._also()]
            self._tasks = [asyncio.ensure_future(loop) for loop in loops]

    async def stop(self) -> None:
        """Stop. What was taken and not done is done by another after its hold."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run_once(self, partition: int = 0) -> int | None:
        """Fire everything due in a partition; ms UTC of its next timer, None if it has none."""
        while True:
            due = await self._store.take_due(partition, MAX_BATCH, HOLD_MS)
            if due.tasks:
                await self._fire(due.tasks, due.now)
            if len(due.tasks) < MAX_BATCH:
                return due.next_at

    async def _keep(self, partition: int) -> None:
        with self._store.listen([TIMER_TOPIC]) as hints:
            while True:
                try:
                    next_at = await self.run_once(partition)
                    wait = self._until(next_at)
                except Exception as error:
                    _say("timers wait for the store", error)
                    await asyncio.sleep(1 + self._random.random())
                    continue
                if wait > 0:
                    await hints.wait(wait)

    def _until(self, next_at: int | None) -> float:
        longest = SLOW_POLL_S * (0.75 + self._random.random() / 4)
        if next_at is None:
            return longest
        return min(max(next_at - self._store.now(), 0) / 1000, longest)

    async def _fire(self, tasks: Sequence[Task], now: int) -> None:
        fired: list[tuple[Task, Change]] = []
        early: list[tuple[str, int | None]] = []
        for task in tasks:
            command = on_timer(task, now)
            if command is None:
                if wants_verify(task, now):
                    await self._dependencies.verify(task)
                early.append((task.id, rearm(task, now)))
                continue
            try:
                moved = apply(
                    task,
                    command,
                    now=now,
                    random=self._random.random,
                    write_id=new_write_id(),
                )
            except InvalidTransition:  # pragma: no cover - the table covers every timer
                log.exception("timer of task %s", task.id)
                continue
            seen = task.cell.lease_until if task.cell is not None else None
            fired.append((task, change_of(task, moved, seen_lease=seen)))
        if early:
            await self._store.rearm(early)
        if fired:
            await self._write(fired, now)

    async def _write(self, fired: Sequence[tuple[Task, Change]], now: int) -> None:
        outcomes = await self._store.commit([change for _, change in fired])
        for (task, change), outcome in zip(fired, outcomes, strict=True):
            if outcome.kind is ChangeKind.APPLIED:
                state = change.after.state if change.after is not None else None
                self._ended(task, state, outcome)
            elif change.after is None and outcome.current is not None:
                await self._release(task, now)

    async def _release(self, task: Task, now: int) -> None:
        """A record that could not be deleted: forget edges of children that have ended."""
        edges = await self._store.dependents(task.id)
        children = await self._store.get([edge.child for edge in edges])
        over = [
            (task.id, edge.child)
            for edge, child in zip(edges, children, strict=True)
            if child is None or child.status.finished_at is not None
        ]
        if over:
            await self._store.unlink(over)
        await self._store.rearm([(task.id, now + (0 if over else RETRY_LATER_MS))])

    # --- what no timer covers ---

    async def _housekeep(self) -> None:
        while True:
            try:
                await self.housekeep()
            except Exception as error:
                _say("housekeeping waits for the store", error)
            await asyncio.sleep(HOUSEKEEPING_S * (0.75 + self._random.random() / 2))

    async def housekeep(self) -> None:
        """Finish fan-outs cut short, trim events and stubs, keep the dead-letter bound."""
        self._dependencies.resume(await self._store.take_unsettled(MAX_BATCH))
        loop = asyncio.get_running_loop()
        if loop.time() >= self._trim_at:
            found = await self._store.trim(10_000)
            self._trim_at = loop.time() + (0 if found else _TRIM_S)
        if self._dead_letter_limit is not None:
            await self._bound_dead_letters(self._dead_letter_limit)

    async def _bound_dead_letters(self, limit: int) -> None:
        for _ in range(_BOUND_ROUNDS):
            oldest = await self._beyond(limit)
            if not oldest:
                return
            now = self._store.now()
            fired = [
                (
                    task,
                    change_of(
                        task,
                        apply(
                            task,
                            Delete(reason=Reason.DEAD_LETTER_BOUND),
                            now=now,
                            random=self._random.random,
                            write_id=new_write_id(),
                        ),
                    ),
                )
                for task in oldest
            ]
            await self._write(fired, now)
            if len(oldest) < MAX_BATCH:
                return

    async def _beyond(self, limit: int) -> Sequence[Task]:
        """The oldest dead letters beyond the bound, a batch of them at the most."""
        if isinstance(self._store, CountsDeadLetters):
            return await self._store.oldest_dead_letters(beyond=limit, most=MAX_BATCH)
        excess = sum(queue.dead_letters for queue in await self._store.stats()) - limit
        if excess <= 0:
            return ()
        query = Query(dead_letters=True, limit=min(excess, MAX_BATCH))
        return (await self._store.find(query)).tasks


def _say(what: str, error: Exception) -> None:
    """Whatever one round met, the next one comes: a loop that ended here would leave every timer to
    other processes, and nobody would know. (A password that was changed is no error of the store's,
    and passes all the same.)"""
    if isinstance(error, AndonError):
        log.warning("%s: %s", what, error)
    else:
        log.error("%s, after an error that was not foreseen.", what, exc_info=error)
