"""Waiting workers: one line for each task queue, in the order of arrival.

A line asks the store when it begins, and then only when the store hints that its queue has
something: two thousand workers that wait cost no query, and a task that comes costs two or three
claims, for those at the head of the line, not one for each of them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from andon.contract.topics import ready_topic
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.task import Task

if TYPE_CHECKING:
    from andon.engine.local import LocalEngine

log = logging.getLogger("andon.service")

_AT_ONCE = 4
"""Claims of one line that are under way at once: the store works on them together."""

_PAUSE_S = 1.0
"""After the store has failed, before it is asked again."""

Claim = Callable[[], Awaitable[list[Task] | None]]
"""Claims for one worker, without waiting. Called again, it claims under the same token, so that
tasks of a lost answer are not lost (docs/rulings.md, R31). None: this worker gets nothing, whatever
the queue has."""

Wait = Callable[[], Coroutine[Any, Any, Any]]
"""Begins to wait for something that ends a worker's wait."""

GiveBack = Callable[[list[Task]], Awaitable[None]]
"""Takes what was claimed for a worker that has gone meanwhile. It does not raise."""


class Got(NamedTuple):
    """What a worker gets."""

    tasks: list[Task]
    has_waited: bool  #: in a line; else the caller's rights were checked just now


class _Waiting:
    """One waiting worker, and the outcome of its wait."""

    def __init__(self, claim: Claim, give_back: GiveBack) -> None:
        self.told: asyncio.Future[list[Task]] = asyncio.get_running_loop().create_future()
        self.is_busy = False  #: a claim for it is under way
        self.error: Exception | None = None  #: why the last one failed
        self._claim = claim
        self._give_back = give_back
        self._is_last = False  #: it waits only for the claim under way

    async def attempt(self) -> bool:
        """Claim for it, once. Returns whether there may be more for the workers behind it: it got
        something, or gets nothing whatever there is, and waits no longer."""
        self.is_busy = True
        try:
            tasks = await self._claim()
        except Exception as error:
            self.error, tasks = error, []
        else:
            self.error = None
        finally:
            self.is_busy = False
        if tasks is None:
            self.leave()
            return True
        if self.told.done():
            if tasks:
                await self._give_back(tasks)
        elif tasks or self._is_last:
            self.told.set_result(tasks)
        return bool(tasks)

    def leave(self) -> None:
        """Stop waiting, except for the claim under way, whose tasks are wanted."""
        if self.is_busy:
            self._is_last = True
        elif not self.told.done():
            self.told.set_result([])

    def go(self) -> None:
        """The worker has gone; what a claim under way brings is given back."""
        if not self.told.done():
            self.told.set_result([])


class ClaimLines:
    """The lines of one service."""

    def __init__(self, engine: "LocalEngine", give_back: GiveBack) -> None:
        self._engine = engine
        self._give_back = give_back
        self._lines: dict[str, _Line] = {}
        self._under_way: set[asyncio.Task[bool]] = set()

    def __len__(self) -> int:
        """How many workers wait."""
        return sum(len(line.waiting) for line in self._lines.values())

    async def claim(
        self,
        queue: str,
        claim: Claim,
        *,
        gone: Wait,
        stopping: Wait,
        wait: float,
    ) -> Got:
        """The tasks of `claim`, as soon as there are some; nothing after `wait` seconds, when the
        worker has `gone`, or the service is `stopping`.

        Raises the error of the last claim, if it failed. Whether the worker has gone is watched
        only while it waits; the code that answers it checks otherwise."""
        one = _Waiting(claim, self._give_back)
        if queue not in self._lines:
            await self._attempt(one)
            if one.told.done() or one.error is not None or not wait:
                return Got(_outcome(one), has_waited=False)
        left = asyncio.ensure_future(gone())
        ends = [asyncio.ensure_future(stopping()), asyncio.ensure_future(asyncio.sleep(wait))]
        try:
            line = self._lines.get(queue)
            if line is None:
                line = self._lines[queue] = _Line(self._engine, queue, self._ended)
            line.join(one)
            try:
                await asyncio.wait((one.told, left, *ends), return_when=asyncio.FIRST_COMPLETED)
                if not left.done():
                    one.leave()
                    await asyncio.wait((one.told, left), return_when=asyncio.FIRST_COMPLETED)
            finally:
                one.go()
                line.left()
            return Got(_outcome(one), has_waited=True)
        finally:
            for end in (left, *ends):
                end.cancel()

    async def claim_nothing(
        self,
        *,
        gone: Wait,
        stopping: Wait,
        wait: float,
    ) -> None:
        """Wait as long as `claim` does at the most, in no line: for a worker in quarantine, which
        would else ask again at once."""
        ends = [*map(asyncio.ensure_future, (gone(), stopping(), asyncio.sleep(wait)))]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    async def _attempt(self, one: _Waiting) -> None:
        """Claim, to the end also if the caller is cancelled meanwhile: then the tasks are given
        back."""
        attempt = asyncio.ensure_future(one.attempt())
        self._under_way.add(attempt)
        attempt.add_done_callback(self._under_way.discard)
        try:
            await asyncio.shield(attempt)
        finally:
            if not attempt.done():
                one.go()

    def _ended(self, line: "_Line") -> None:
        if self._lines.get(line.queue) is line:
            del self._lines[line.queue]


def _outcome(one: _Waiting) -> list[Task]:
    tasks = one.told.result() if one.told.done() else []
    if not tasks and one.error is not None:
        raise one.error
    return tasks


class _Line:
    """The workers that wait for the tasks of one queue."""

    def __init__(self, engine: "LocalEngine", queue: str, ended: Callable[["_Line"], None]) -> None:
        self.queue = queue
        self.waiting: deque[_Waiting] = deque()
        self._ended = ended
        self._is_empty = False  #: nothing was there when the store was last asked
        self._hints = engine.listen([ready_topic(queue)])
        self._serving = asyncio.ensure_future(self._serve())

    def join(self, one: _Waiting) -> None:
        """Wait at the end of the line."""
        self.waiting.append(one)
        if not self._is_empty:
            self._hints.notify()

    def left(self) -> None:
        """A worker has its answer, or has gone: the line may be empty."""
        if all(one.told.done() for one in self.waiting):
            self._hints.notify()

    async def _serve(self) -> None:
        # Subscribed already; so check, then sleep (docs/rulings.md, R30).
        try:
            with self._hints:
                while self._has_some():
                    try:
                        failed = await self._hand_out()
                        if failed is None:
                            await self._hints.wait(SLOW_POLL_S)
                    except Exception as error:
                        failed = error
                    if failed is not None:
                        log.warning("Work for %s cannot be looked for: %s", self.queue, failed)
                        await asyncio.sleep(_PAUSE_S)
        finally:
            self._ended(self)
            for one in self.waiting:
                one.go()

    async def _hand_out(self) -> Exception | None:
        """Claim for one after the other until there is nothing more. Returns the error, if it
        failed."""
        at_once = 1
        while some := self._next(at_once):
            self._is_empty = False
            got = await asyncio.gather(*(one.attempt() for one in some))
            self.waiting.extendleft(reversed([one for one in some if not one.told.done()]))
            if not all(got):
                self._is_empty = True
                return next((one.error for one in some if one.error is not None), None)
            at_once = min(2 * at_once, _AT_ONCE)
        return None

    def _has_some(self) -> bool:
        while self.waiting and self.waiting[0].told.done():
            self.waiting.popleft()
        return bool(self.waiting)

    def _next(self, most: int) -> list[_Waiting]:
        """Remove and return up to so many from the head of the line, without those that have
        gone."""
        some: list[_Waiting] = []
        while len(some) < most and self._has_some():
            some.append(self.waiting.popleft())
        return some
