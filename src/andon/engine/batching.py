"""Batches that form by themselves: no round trip per task, and no wait when idle.

The first item handed over is flushed as soon as the loop comes round; what arrives while a flush
is under way goes with the next one. Under load that makes large batches, at rest it adds nothing.
What was handed over is written even if its caller has gone: only the outcome is dropped.

A store that is away fails everything that waits, not one batch after the other: each flush takes
as long as the store is patient, and nobody should wait for that once per batch before his own.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

from andon.model.errors import StoreUnavailable

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Batcher(Generic[Item, Outcome]):
    """Collects items and hands them to `flush` in order, one batch at a time.

    `key`, if given, names what an item is about: two items with one key never share a batch.
    More than `most_waiting` items waiting push back on `put`.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Outcome]]],
        *,
        size: int,
        key: Callable[[Item], Hashable] | None = None,
        most_waiting: int = 20_000,
    ) -> None:
        self._flush = flush
        self._size = size
        self._key = key
        self._most = most_waiting
        self._waiting: deque[tuple[Item, asyncio.Future[Outcome]]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self._running: asyncio.Task[None] | None = None

    async def put(self, item: Item) -> Outcome:
        """Hand over one item and wait for its outcome."""
        while len(self._waiting) >= self._most:
            self._room.clear()
            await self._room.wait()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
        return await future

    @property
    def waiting(self) -> int:
        """Items not yet handed to a flush."""
        return len(self._waiting)

    async def drain(self) -> None:
        """Wait until everything handed over so far is written."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._one_batch(self._next_batch())
                if len(self._waiting) < self._most:
                    self._room.set()
        finally:
            self._running = None

    def _next_batch(self) -> list[tuple[Item, asyncio.Future[Outcome]]]:
        waiting, key = self._waiting, self._key
        if key is None:
            return [waiting.popleft() for _ in range(min(self._size, len(waiting)))]
        batch: list[tuple[Item, asyncio.Future[Outcome]]] = []
        seen: set[Hashable] = set()
        while waiting and len(batch) < self._size:
            name = key(waiting[0][0])
            if name in seen:
                break
            seen.add(name)
            batch.append(waiting.popleft())
        return batch

    async def _one_batch(self, batch: list[tuple[Item, asyncio.Future[Outcome]]]) -> None:
        try:
            outcomes = await self._flush([item for item, _ in batch])
        except BaseException as error:
            if isinstance(error, StoreUnavailable):
                batch = [*batch, *self._waiting]
                self._waiting.clear()
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)
