"""Finds the ends of tasks whose records were deleted with them, in the event log (docs/rulings.md,
R9, R37).

A record that is discarded at its end leaves its result in the delete event alone. Within the submit
window its tombstone names the position of that event, for callers that begin to wait after the end.
For callers that waited before, this process keeps a position in the log from before the end, one
for all of them, and needs no tombstone. The log is read from there only when a record is found
gone, and each page is read once for all waiters.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from andon.contract.limits import MAX_BATCH
from andon.contract.store import Store
from andon.contract.topics import EVENTS_TOPIC, Listener
from andon.engine.batching import Batcher
from andon.lifecycle.constants import SLOW_POLL_S, SUBMIT_WINDOW_MS
from andon.lifecycle.discarded import Discarded, record_of
from andon.model.errors import AndonError, TaskNotFound
from andon.model.task import Task, TaskEvent
from andon.model.words import TERMINAL, Event

_PAGE = 500

_GONE = (
    "It was never submitted, or its record was deleted. What is discarded at its end tells how it "
    f"ended for {SUBMIT_WINDOW_MS // 60_000} minutes; wait for it within these, or let it be kept "
    "with retention."
)


class Waiter(msgspec.Struct, eq=False):
    """A caller that waits for a task: the hints that wake it, and what the poll read for it."""

    hints: Listener
    read: tuple[Task | None] | None = None  #: by the poll, not looked at yet
    end: TaskEvent | None = None
    deleted: TaskEvent | None = None
    keeps_place: bool = False

    def tell(self, read: tuple[Task | None]) -> None:
        """Wake the caller with the record as it was just read."""
        self.read = read
        self.hints.notify()


class Ends:
    """The position in the log that is older than the end of any awaited task, and the ends read
    from there."""

    def __init__(self, store: Store, waiters: Mapping[str, Mapping[Waiter, None]]) -> None:
        """`waiters`: the waiting callers, by task id."""
        self._store = store
        self._waiters = waiters
        self._cursor: str | None = None
        self._taken_at = 0.0
        self._keepers = 0  # waiters for whom the place is kept
        self._reading = asyncio.Lock()
        self._lookups: Batcher[str, Discarded | None] = Batcher(
            store.discarded, size=MAX_BATCH, in_flight=store.in_flight, key=str, finishes=True
        )

    async def begin(self, waiter: Waiter) -> bool:
        """Keep a position for one more waiter. Returns whether it was taken just now. An older one
        serves as well, but more has to be read from it."""
        if not waiter.keeps_place:
            waiter.keeps_place = True
            self._keepers += 1
        if self._cursor is not None and (
            self._keepers > 1 or _time() - self._taken_at < SLOW_POLL_S
        ):
            return False
        place = await self._store.events_end()
        if self._cursor is None or self._keepers == 1:
            self._cursor, self._taken_at = place, _time()
        return True

    def leave(self) -> None:
        """A waiter for which the position was kept has left."""
        self._keepers -= 1

    async def place(self) -> str | None:
        """The end of the log as it is now, if a waiter needs a position."""
        return await self._store.events_end() if self._keepers else None

    def all_live_at(self, place: str | None) -> None:
        """The records of all waiters existed after `place` was taken: what is before it need not be
        read."""
        if place is not None:
            self._cursor, self._taken_at = place, _time()

    async def of(self, last: Task, waiter: Waiter) -> Task:
        """The record of a deleted task, made from its last events. Its delete event may arrive a
        moment later. Raises `TaskNotFound` if it does not."""
        if self._cursor is not None:
            with self._store.listen([EVENTS_TOPIC]) as hints:
                patience = _time() + SLOW_POLL_S
                while True:
                    await self._read_on(waiter)
                    if waiter.deleted is not None:
                        return record_of(last.id, last, waiter.end, waiter.deleted)
                    left = patience - _time()
                    if left <= 0 or not await hints.wait(left):
                        break
        return await self.of_late(last.id, last)

    async def of_late(self, task_id: str, last: Task | None) -> Task:
        """The same for a task for which no position was kept before its end, by the position in its
        tombstone. `last` is its record if it was ever read. Raises `TaskNotFound`."""
        moves = await self._lookups.put(task_id)
        if moves is None:
            raise await self._not_found(task_id)
        return record_of(task_id, last, *moves)

    async def _not_found(self, task_id: str) -> AndonError:
        """Why there is no record, as far as it is known."""
        [left] = await self._store.tombstones([task_id])
        if left is None:
            return TaskNotFound(task_id, _GONE)
        return TaskNotFound(task_id, f"It ended {left.state}; its record was deleted since.")

    async def _read_on(self, waiter: Waiter) -> None:
        """Read the log to its end, for all waiters."""
        async with self._reading:
            while waiter.deleted is None and self._cursor is not None:
                page = await self._store.events(self._cursor, _PAGE)
                for event in page.events:
                    for one in self._waiters.get(event.task, ()):
                        _note(one, event)
                self._cursor, self._taken_at = page.cursor, _time()
                if not page.events:
                    return


def _time() -> float:
    return asyncio.get_running_loop().time()


def _note(waiter: Waiter, event: TaskEvent) -> None:
    if event.target in TERMINAL:
        waiter.end = event
    elif event.event is Event.DELETE:
        waiter.deleted = event
