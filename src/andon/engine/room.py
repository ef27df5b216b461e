"""Room in full queues with `on_full=discard-old`: new tasks take the places of the oldest pending.

Each process has one room-maker per full queue. It serves the submits that wait for a place there,
in their order: one batch evicts as many of the oldest tasks as submits wait, and the next batch
creates the new tasks. If each submit evicted for itself, all would choose the same oldest task, and
all but one would find the queue full again.
"""

import asyncio
from collections.abc import Sequence

from andon.contract.isolation import each_alone
from andon.contract.limits import MAX_BATCH
from andon.contract.outcomes import Created, CreateKind
from andon.contract.queries import Query
from andon.contract.store import Store
from andon.engine.control import Control
from andon.engine.policy_resolver import PolicyResolver
from andon.lifecycle.commands import Evict
from andon.model.task import Task
from andon.model.words import State

_FRUITLESS_ROUNDS = 20
"""Rounds in a row that gained no place, because other processes took each place that was made.
After so many the submits that wait are refused."""

_DISCARD = "discard-old"


class _Waiting:
    """A task that waits for a place."""

    def __init__(self, task: Task, created: Created) -> None:
        self.task = task
        self.refused = created
        self.made: asyncio.Future[Created] = asyncio.get_running_loop().create_future()


class Rooms:
    """Makes room, queue by queue."""

    def __init__(self, store: Store, resolver: PolicyResolver, control: Control) -> None:
        self._store = store
        self._resolver = resolver
        self._control = control
        self._waiting: dict[str, list[_Waiting]] = {}  # by queue, while its room-maker is at work
        self._makers: set[asyncio.Task[None]] = set()

    async def create(self, task: Task, refused: Created) -> Created:
        """Create a task whose queue was full, by making room if the queue is configured to discard
        old tasks. Returns the outcome, or `refused` where the queue rejects new tasks."""
        queue = task.definition.queue
        if self._resolver.queue(queue).on_full != _DISCARD and (
            not refused.oldest or not await self._discards(queue)
        ):
            return refused
        waiting = _Waiting(task, refused)
        line = self._waiting.get(queue)
        if line is None:
            self._waiting[queue] = [waiting]
            maker = asyncio.ensure_future(self._make_room(queue))
            self._makers.add(maker)
            maker.add_done_callback(self._makers.discard)
        else:
            line.append(waiting)
        return await waiting.made

    async def _make_room(self, queue: str) -> None:
        line = self._waiting[queue]
        fruitless = 0
        try:
            while line:
                batch = [one for one in line[:MAX_BATCH] if not one.made.done()]
                if fruitless >= _FRUITLESS_ROUNDS or not await self._is_to_evict(queue, batch):
                    for one in batch:
                        _answer(one)
                    fruitless = 0
                elif batch:
                    more = await self._too_many(queue) if fruitless else 0
                    served = await self._serve(queue, batch, len(batch) + more)
                    fruitless = 0 if served else fruitless + 1
                line[:] = [one for one in line if not one.made.done()]
        except BaseException as error:
            for one in line:
                if not one.made.done():
                    one.made.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            del self._waiting[queue]

    async def _is_to_evict(self, queue: str, batch: Sequence[_Waiting]) -> bool:
        """Whether to evict tasks for this batch. If the store named no task to evict, the queue may
        have been configured to reject since, so the configuration is read again."""
        named = any(one.refused.oldest for one in batch)
        if batch and (not named or self._resolver.queue(queue).on_full != _DISCARD):
            return await self._discards(queue)
        return True

    async def _discards(self, queue: str) -> bool:
        """Whether the queue is configured to discard, as of now."""
        await self._resolver.refresh()
        return self._resolver.queue(queue).on_full == _DISCARD

    async def _serve(self, queue: str, batch: Sequence[_Waiting], places: int) -> int:
        """Evict so many tasks, then create those that wait. Returns how many submits got their
        outcome."""
        victims = await self._oldest(queue, batch, places)
        if victims:
            await self._control.act(victims, Evict())  # a task that was claimed just now stays
        outcomes = await each_alone(
            self._store.create,
            [one.task for one in batch],
            lambda _, why: Created(CreateKind.INVALID, why=why),
        )
        answered = 0
        for one, created in zip(batch, outcomes, strict=True):
            one.refused = created
            if created.kind is not CreateKind.FULL:
                answered += 1
                _answer(one)
        return answered

    async def _oldest(self, queue: str, batch: Sequence[_Waiting], most: int) -> list[str]:
        """The ids of so many of the oldest pending tasks. The store names a few with each refusal;
        where those are too few, because they are the same each time, it is asked for more."""
        named = dict.fromkeys(old.id for one in batch for old in one.refused.oldest)
        if len(named) < most:
            query = Query(states=(State.PENDING,), queue=queue, limit=most)
            named.update(dict.fromkeys(task.id for task in (await self._store.find(query)).tasks))
        return list(named)[:most]

    async def _too_many(self, queue: str) -> int:
        """How many more tasks are pending than `max_size` allows, as after it was lowered: at most
        a batch of them."""
        limit = self._resolver.queue(queue).max_size
        if limit is None:
            return 0
        counts = [stats.counts for stats in await self._store.stats() if stats.queue == queue]
        pending = sum(count.get(State.PENDING.value, 0) for count in counts)
        return min(max(pending - limit, 0), MAX_BATCH)


def _answer(one: _Waiting) -> None:
    if not one.made.done():
        one.made.set_result(one.refused)
