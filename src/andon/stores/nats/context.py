"""Holds what the operations of the store share: connection, partitions, and background work."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from andon.contract.topics import TIMER_TOPIC
from andon.lifecycle.constants import NEAR_TIMER_MS
from andon.lifecycle.effects import Effects
from andon.model.errors import StoreUnavailable
from andon.stores.kit.partitions import partition_of
from andon.stores.kit.server_clock import ServerClock
from andon.stores.nats.edges import Edges
from andon.stores.nats.fleet import Fleet
from andon.stores.nats.hints import Hints
from andon.stores.nats.jetstream import JetStream
from andon.stores.nats.location import Location
from andon.stores.nats.notes import Notes
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.subjects import Subjects
from andon.stores.nats.timers import Timers
from andon.stores.nats.unique_keys import UniqueKeys

FINISH_S = 5.0
"""How long closing waits for background work; by then each piece has had one complete attempt."""


class StoreContext:
    """One open store: connection, partitions, and what is known of them."""

    def __init__(
        self, location: Location, js: JetStream, clock: ServerClock, partitions: int, hints: Hints
    ) -> None:
        self.location = location
        self.js = js
        self.clock = clock
        self.hints = hints
        self.records = [
            RecordCache(js, Subjects(location.namespace, p), clock) for p in range(partitions)
        ]
        for records in self.records:
            js.on_written[records.subjects.stream] = records.notes.note_answers
        self.timers = [Timers(records) for records in self.records]
        self.keys = [UniqueKeys(records) for records in self.records]
        self.edges = Edges(self.records, self.timers)
        self.fleet = Fleet(self.records[0], clock.now)
        self.notes = Notes(self.records[0])
        self._background: set[asyncio.Task[Any]] = set()

    def for_new_streams(self) -> "StoreContext":
        """The same for streams of which nothing is known yet."""
        self.js.acked.clear()
        context = StoreContext(self.location, self.js, self.clock, len(self.records), self.hints)
        context._background = self._background
        return context

    def partition(self, task_id: str) -> int:
        """The partition of a task or key."""
        return partition_of(task_id, len(self.records))

    async def reserve_for(self, effects: Effects, task_id: str, revision: int, now: int) -> str:
        """Reserve the unique key that a write takes, for the record of that revision. Returns the
        holder's id if another task has it."""
        key = effects.key_to_reserve(now)
        if key is None:
            return ""
        keys, heir_of = self.keys[self.partition(key)], effects.heir_of
        return await keys.reserve(key, task_id, revision, now, self.records, heir_of=heir_of)

    def drop_key(self, key: str, task_id: str, revision: int) -> None:
        """Drop the reservation that a task, up to this revision, made of a key. Without that it is
        stale too, and is recognised as stale; dropping it only keeps stale ones from piling up."""
        keys = self.keys[self.partition(key)]
        self.in_background(keys.drop(key, task_id, revision))

    def hint(self, topics: Iterable[str]) -> None:
        """Send hints, in this process and to others."""
        hints = self.hints.notify(topics)
        if hints:
            self.js.hint(hints)

    def timer_topic(self, ats: Iterable[int]) -> list[str]:
        """The topic to hint if one of the timers is near."""
        soon = self.clock.now() + NEAR_TIMER_MS
        return [TIMER_TOPIC] if any(at <= soon for at in ats) else []

    def in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run work for which no caller waits; what it leaves undone must be harmless."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()

    async def finish_background(self) -> None:
        """Wait for the background work, for `FINISH_S` at most; then cancel the rest."""
        if self._background:
            await asyncio.wait(list(self._background), timeout=FINISH_S)
        left = list(self._background)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def run_to_end(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run work to its end, even if the caller is cancelled meanwhile."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)
        caller = asyncio.current_task()
        cancels = 0 if caller is None else caller.cancelling()
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # Both may be cancelled at once, by the end of the loop: then our caller must end too.
            if not task.cancelled() or (caller is not None and caller.cancelling() > cancels):
                raise
            shown = self.location.shown
            raise StoreUnavailable(f"The store at {shown} was closed meanwhile.") from None
