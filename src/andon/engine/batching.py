"""Collects items of concurrent callers into batches: no round trip per task, and no wait when idle.

The first item handed over is flushed as soon as the loop comes round; what arrives while a flush is
under way goes with the next one. Under load that makes large batches, at rest it adds nothing. If
there are many by then and only one flush may be under way, it leaves a turn later, for more come of
them. A store in another process may get several batches at once, each a share of the waiting items:
it writes one while this process makes the next.

What was handed over is written even if its caller has gone: only the outcome is dropped.

Awaiting an outcome costs a future, a turn of the loop and resuming the asyncio task; a callback
(`hand`) costs one call.

A store that is away fails everything that waits, not one batch after the other: each flush lasts
until the store gives up, and no caller should wait for that once per batch before its own.

The store isolates an item that cannot be written (`contract.isolation`). If a flush fails all the
same with an error that may be the fault of one item, it is repeated in halves: only that item's
taker gets the error.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, MutableSequence, Sequence
from typing import Generic, Protocol, TypeVar, cast

from andon.engine.faults import may_be_of_one
from andon.model.errors import StoreUnavailable

logger = logging.getLogger("andon.engine")

_WORTH_A_FLUSH = 16
"""How many items are worth another flush under way."""

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Heard_contra = TypeVar("Heard_contra", contravariant=True)


class Taker(Protocol[Heard_contra]):
    """What takes the outcome of an item: a future, or a callback."""

    def done(self) -> bool:
        """Whether it was cancelled, and takes no outcome any more."""
        ...

    def set_result(self, result: Heard_contra, /) -> None:
        """The outcome."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """The error, if there is no outcome."""
        ...


class Batcher(Generic[Item, Outcome]):
    """Collects items and hands them to `flush` in order, at most `in_flight` batches at a time.

    `key`, if given, names what an item is about: two items with one key never share a batch. More
    than `most_waiting` items waiting push back on `put`. `finishes`: the flush writes what it was
    given even if the coroutine that awaits it is cancelled, as a store does.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Outcome]]],
        *,
        size: int,
        in_flight: int = 1,
        key: Callable[[Item], Hashable] | None = None,
        most_waiting: int = 20_000,
        finishes: bool = False,
    ) -> None:
        self._flush = flush
        self._size = size
        self._in_flight = in_flight
        self._key = key
        self._most = most_waiting
        self._waiting: deque[tuple[Item, Taker[Outcome]]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self._under_way = 0
        self._finishes = finishes
        self._is_alone = False  #: the last batch had one item
        self._is_carrying = False  #: a caller flushes its own item
        self._carried: asyncio.Future[None] | None = None  #: while another caller waits for it
        self._running: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None  #: of the flushes under way

    async def put(self, item: Item) -> Outcome:
        """Hand over one item and wait for its outcome."""
        if self._is_alone and not (self._running or self._waiting or self._is_carrying):
            # In its caller's own task, which takes two turns of the loop less.
            self._is_carrying = True
            self._under_way += 1
            try:
                [outcome] = await self._flush([item])
            except StoreUnavailable as error:
                self._fail(error, self._waiting)
                self._room.set()
                raise
            finally:
                self._is_carrying = False
                self._under_way -= 1
                if self._waiting and not self._running:
                    self._set_off()
                if self._carried is not None:
                    self._carried.set_result(None)
                    self._carried = None
            return outcome
        while len(self._waiting) >= self._most:
            self._room.clear()
            await self._room.wait()
        if self._loop is None or not (self._running or self._is_carrying):
            self._loop = asyncio.get_running_loop()  # asks the system, before Python 3.12
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self.hand(item, future)
        return await future

    def hand(self, item: Item, taker: Taker[Outcome]) -> None:
        """Hand over one item, however many wait; `taker` gets its outcome after this has
        returned."""
        self._waiting.append((item, taker))
        running = len(self._running) + self._is_carrying
        if not running or (
            running < self._in_flight and len(self._waiting) >= _WORTH_A_FLUSH * running
        ):
            self._set_off()

    def _set_off(self) -> None:
        self._running.add(asyncio.ensure_future(self._run()))

    @property
    def waiting(self) -> int:
        """Items not yet handed to a flush."""
        return len(self._waiting)

    async def drain(self) -> None:
        """Wait until everything handed over so far is written."""
        while self._running or self._is_carrying:
            under_way: set[asyncio.Future[None]] = {*self._running}
            if self._is_carrying:
                self._carried = self._carried or asyncio.get_running_loop().create_future()
                under_way.add(self._carried)
            await asyncio.wait(under_way)

    async def _run(self) -> None:
        size = 0
        try:
            if self._in_flight == 1 and len(self._waiting) >= _WORTH_A_FLUSH:
                # Runs that ended have made room for others, of which many end in the next turn.
                await asyncio.sleep(0)
            while self._waiting:
                batch = self._next_batch(size)
                size = len(batch)
                self._is_alone = self._finishes and size == 1
                self._under_way += size
                try:
                    await self._one_batch(batch)
                finally:
                    self._under_way -= size
                if len(self._waiting) < self._most:
                    self._room.set()
        finally:
            self._running.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _most_now(self, before: int) -> int:
        """How many items the next batch takes, after one of `before`: so many that all flushes get
        an equal share. Otherwise the largest would keep the others small for as long as outcomes
        lead to new items.

        Where flushes follow one another, the callers of the batch before get their outcomes now and
        make new items while this batch is written: equal shares keep both sides busy.
        """
        if self._in_flight == 1 and not before:
            return self._size
        total = len(self._waiting) + (before if self._in_flight == 1 else self._under_way)
        if total < 2 * _WORTH_A_FLUSH:
            return self._size
        return min(self._size, -(-total // max(self._in_flight, 2)))

    def _next_batch(self, before: int) -> list[tuple[Item, Taker[Outcome]]]:
        waiting, key = self._waiting, self._key
        if len(waiting) == 1:
            return [waiting.popleft()]
        most = self._most_now(before)
        if key is None:
            return [waiting.popleft() for _ in range(min(most, len(waiting)))]
        batch: list[tuple[Item, Taker[Outcome]]] = []
        seen: set[Hashable] = set()
        for _ in range(min(most, len(waiting))):
            name = key(waiting[0][0])
            if name in seen:
                break
            seen.add(name)
            batch.append(waiting.popleft())
        return batch

    def _fail(
        self, error: BaseException, batch: MutableSequence[tuple[Item, Taker[Outcome]]]
    ) -> None:
        for _, taker in batch:
            if not taker.done():
                try:
                    taker.set_exception(error)
                except Exception:
                    _log()
        batch.clear()

    async def _one_batch(self, batch: list[tuple[Item, Taker[Outcome]]]) -> None:
        try:
            outcomes = await self._flush([item for item, _ in batch])
        except BaseException as error:
            if len(batch) > 1 and may_be_of_one(error):
                await self._in_halves(batch)
                return
            if isinstance(error, StoreUnavailable):
                batch.extend(self._waiting)
                self._waiting.clear()
            self._fail(error, batch)
            if not isinstance(error, Exception):
                raise
            return
        # Takers get their outcomes after the next batch has left, since each begins more work then.
        asyncio.get_running_loop().call_soon(_tell, batch, outcomes)

    async def _in_halves(self, batch: list[tuple[Item, Taker[Outcome]]]) -> None:
        middle = len(batch) // 2
        first, second = batch[:middle], batch[middle:]
        try:
            await self._one_batch(first)
        except BaseException as error:
            self._fail(error, second)
            raise
        await self._one_batch(second)


def _tell(batch: Sequence[tuple[Item, Taker[Outcome]]], outcomes: Sequence[Outcome]) -> None:
    for (_, taker), outcome in zip(batch, outcomes, strict=True):
        if not taker.done():
            try:
                taker.set_result(outcome)
            except Exception:  # the others get theirs all the same
                _log()


def _log() -> None:
    logger.exception("Who was told of a write has failed; the write stands.")
