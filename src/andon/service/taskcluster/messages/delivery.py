"""Delivers messages to one sink: in order for each task, at least once, from its cursor.

Each sink has a loop of its own, and a cursor of its own in the store, so one that is away holds up
nobody else. Of a page of messages those of different tasks are delivered beside one another. What a
sink cannot take now is tried again with growing pauses, for as long as it takes; what it refuses
for good is passed over after a few tries, logged with the message's id.
"""

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from andon.lifecycle.backoff import ExponentialBackoff
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.errors import AndonError
from andon.service.taskcluster.messages.cursors import Cursor, CursorLost
from andon.service.taskcluster.messages.exchanges import Message
from andon.service.taskcluster.messages.patterns import Binding, wants

if TYPE_CHECKING:
    from andon.service.metrics import Metrics
    from andon.service.taskcluster.messages.feed import Feed, Page

log = logging.getLogger("andon.service")

PAUSES = ExponentialBackoff(1.0, 300.0)
"""Between tries of a sink that is away."""

MOST_REFUSALS = 5
"""So often a message that a sink refuses is tried."""

PATIENCE_S = 24 * 3600.0
"""For so long a message is tried of which a sink that is there says that it cannot take it now."""

_TURN_S = 0.05
_STORE_PAUSES = ExponentialBackoff(0.5, SLOW_POLL_S)
_SAVE_EVERY_S = 30.0
"""How often a position is kept while no message is for the sink: they would be looked at again."""


class NotNow(Exception):
    """The sink cannot take a message now."""

    def __init__(self, why: str, *, wait: float | None = None, is_answer: bool = False) -> None:
        super().__init__(why)
        self.wait = wait  #: seconds, where the sink said so
        self.is_answer = is_answer  #: it was there, and said so of this message


class Refused(Exception):
    """The sink will not take this message."""


class Sink(Protocol):
    """Where messages go."""

    name: str
    bindings: tuple[Binding, ...]
    at_once: int  #: messages of different tasks under way at once

    async def send(self, message: Message) -> None:
        """Deliver it, and return once that is sure. Raises `NotNow` or `Refused`."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class Delivery:
    """Delivers to one sink until it is closed."""

    def __init__(
        self,
        sink: Sink,
        feed: "Feed",
        cursor: Cursor,
        metrics: "Metrics",
        *,
        pauses: ExponentialBackoff = PAUSES,
    ) -> None:
        self.sink = sink
        self._feed = feed
        self._cursor = cursor
        self._metrics = metrics
        self._pauses = pauses
        self._rng = random.Random()
        self._exchanges = frozenset(binding.exchange for binding in sink.bindings)
        self._position = ""
        self._stored: str = ""  #: the position as the store was last seen to have it
        self._saved_at = 0.0
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Know where the sink is, then deliver: what happens from now on will be. If that cannot be
        known now it is asked for again, and no other sink waits for it."""
        try:
            await self._begin()
        except (AndonError, OSError) as error:
            log.warning("Messages for %s wait for the store: %s", self.sink.name, error)
        self._running = asyncio.ensure_future(self._run())

    async def _begin(self) -> None:
        if not self._stored:
            self._position = self._stored = await self._cursor.begin(await self._feed.end())

    async def close(self) -> None:
        """Stop; what was not delivered is delivered by the next start."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            try:
                await self._cursor.release()
            except (AndonError, OSError) as error:
                log.warning("Messages for %s stop, and are held: %s", self.sink.name, error)
        await self.sink.close()

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._begin()
                with self._feed.changes.watched():
                    while True:
                        seen = self._feed.changes.seen
                        if not await self._step():
                            await self._feed.changes.after(seen)
                        failures = 0
            except (AndonError, OSError) as error:
                log.warning("Messages for %s wait for the store: %s", self.sink.name, error)
            except CursorLost:
                continue
            except Exception:
                log.exception("Messages for %s wait.", self.sink.name)
            failures += 1
            await asyncio.sleep(_STORE_PAUSES.pause(failures, self._rng))

    async def _step(self) -> bool:
        """Deliver a page; False if there is none."""
        page = await self._feed.read(self._position, self._exchanges)
        if page.gap:
            log.error("Messages for %s are missing: their moves are not kept.", self.sink.name)
        wanted = self._wanted(page)
        if not wanted:
            self._position = page.position
            if page.entries and time.monotonic() - self._saved_at > _SAVE_EVERY_S:
                await self._save(page.position)
            return bool(page.entries)
        if not await self._hold():
            return True
        lag = self._metrics.message_lag.labels(self.sink.name)
        lag.set(max(0, self._feed.now() - wanted[0].at) / 1000)
        await self._deliver(wanted)
        await self._cursor.move(page.position)
        self._position = self._stored = page.position
        self._saved_at = time.monotonic()
        lag.set(0)
        return True

    async def _hold(self) -> bool:
        """Whether this process may deliver from where it is. If another one delivers it waits till
        that need not go on; if another one did it goes on from there."""
        taken = await self._cursor.take()
        if taken.free_at:
            await asyncio.sleep(max(_TURN_S, (taken.free_at - self._feed.now()) / 1000))
        is_here = not taken.free_at and taken.position == self._stored
        if not is_here:
            self._position = self._stored = taken.position
        return is_here

    async def _save(self, position: str) -> None:
        if await self._hold():
            await self._cursor.move(position)
            self._stored = position
            self._saved_at = time.monotonic()

    def _wanted(self, page: "Page") -> list[Message]:
        return [
            message
            for entry in page.entries
            for message in entry.messages
            if wants(self.sink.bindings, message)
        ]

    async def _deliver(self, messages: Sequence[Message]) -> None:
        """Deliver them all; those that are refused for good are passed over."""
        lanes: dict[str, list[Message]] = {}
        for message in messages:
            lanes.setdefault(message.lane, []).append(message)
        left = [lane[::-1] for lane in lanes.values()]  # the next one last
        trials: dict[str, _Trial] = {}
        failures = 0
        while True:
            before = sum(map(len, left))
            problems = await self._round(left, trials)
            if not problems:
                break
            # Those that failed are tried last, so that they keep nobody from being tried.
            left = sorted((lane for lane in left if lane), key=lambda lane: lane[-1].id in trials)
            failures = 1 if sum(map(len, left)) < before else failures + 1
            waits = [p.wait for p in problems if isinstance(p, NotNow) and p.wait is not None]
            pause = max([self._pauses.pause(failures, self._rng), *waits])
            self._metrics.messages.labels(self.sink.name, "failed").inc()
            log.warning(
                "Messages for %s cannot be delivered, and are tried again in %.1f s: %s",
                self.sink.name,
                pause,
                problems[0],
            )
            await asyncio.sleep(pause)
            await self._cursor.keep()
        if failures:
            log.warning("Messages for %s are delivered again.", self.sink.name)

    async def _round(
        self, lanes: Sequence[list[Message]], trials: dict[str, "_Trial"]
    ) -> list[Exception]:
        """Deliver what can be delivered now, which is taken off; what went wrong. Once a sink
        cannot take one, no further lane is begun."""
        problems: list[Exception] = []
        slots = asyncio.Semaphore(self.sink.at_once)

        async def go_through(lane: list[Message]) -> None:
            while lane:
                async with slots:
                    if any(isinstance(problem, NotNow) for problem in problems):
                        return
                    await self._cursor.keep()
                    problem = await self._send(lane[-1], trials)
                if problem is not None:
                    problems.append(problem)
                    return
                lane.pop()

        outcomes = await asyncio.gather(*map(go_through, lanes), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return problems

    async def _send(self, message: Message, trials: dict[str, "_Trial"]) -> Exception | None:
        """Deliver one, or pass it over; None if either was done."""
        try:
            await self.sink.send(message)
        except NotNow as error:
            problem: Exception = error
            trial = trials.setdefault(message.id, _Trial())
            is_over = error.is_answer and time.monotonic() - trial.began > PATIENCE_S
        except Exception as error:
            # A defect of ours is no reason either to hold up everything after it.
            problem = error
            trial = trials.setdefault(message.id, _Trial())
            trial.refusals += 1
            is_over = trial.refusals >= MOST_REFUSALS
        else:
            self._metrics.messages.labels(self.sink.name, "delivered").inc()
            return None
        if not is_over:
            return problem
        self._metrics.messages.labels(self.sink.name, "refused").inc()
        log.error(
            "A message for %s is passed over (%s %s, id %s): %s",
            self.sink.name,
            message.exchange,
            message.routing_key,
            message.id,
            problem,
            exc_info=None if isinstance(problem, NotNow | Refused) else problem,
        )
        return None


class _Trial:
    """How often a message was refused, and since when it has been tried."""

    __slots__ = ("began", "refusals")

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.refusals = 0
