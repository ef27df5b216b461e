"""Delivers messages to one sink: in order for each task, at least once, from its cursor.

Each sink has a loop of its own, and a cursor of its own in the store, so one that is away delays no
other. Messages of different tasks are delivered beside one another, and a message that its sink
cannot take now holds up those of its own task only: what comes after it is read on. The cursor
stays before it, so if the process dies, what came after it is delivered again.

A sink that is away is tried again with growing pauses, for as long as it takes. A single message
that it refuses, or cannot take while it takes others, is skipped in the end, and logged with its
id.
"""

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, Protocol

from andon.lifecycle.backoff import ExponentialBackoff
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.errors import AndonError
from andon.service.taskcluster.messages.cursors import KEEP_EVERY_S, Cursor, CursorLost
from andon.service.taskcluster.messages.exchanges import Message
from andon.service.taskcluster.messages.lanes import Lane, Lanes
from andon.service.taskcluster.messages.patterns import Binding, wants

if TYPE_CHECKING:
    from andon.service.metrics import Metrics
    from andon.service.taskcluster.messages.feed import Feed, Page

log = logging.getLogger("andon.service")

PAUSES = ExponentialBackoff(1.0, 300.0)
"""Between tries of a sink that is away."""

MOST_REFUSALS = 5
"""How often a message that a sink refuses is tried."""

PATIENCE_S = 24 * 3600.0
"""How long a message is tried that a reachable sink answers it cannot take now."""

PATIENCE_ALONE_S = 600.0
"""How long it is tried if the sink takes others meanwhile."""

MOST_WAITING = 100
"""If so many tasks wait for a sink to take a message, nothing more is read for it."""

_TURN_S = 0.05
_STORE_PAUSES = ExponentialBackoff(0.5, SLOW_POLL_S)
_SAVE_EVERY_S = 30.0
"""How often a position is kept while no message is for the sink: they would be looked at again."""


class NotNow(Exception):
    """The sink cannot take a message now."""

    def __init__(self, why: str, *, wait: float | None = None, is_answer: bool = False) -> None:
        super().__init__(why)
        self.wait = wait  #: seconds, where the sink said so
        self.is_answer = is_answer  #: the sink was reachable, and answered this about the message


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
        """Close connections."""
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
        self._taken_at = 0.0  #: when the sink last took a message
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the sink's position, then deliver: everything from now on will be delivered. If it
        cannot be read now it is read again later, and no other sink waits for it."""
        try:
            await self._begin()
        except (AndonError, OSError) as error:
            log.warning("Messages for %s wait for the store: %s", self.sink.name, error)
        self._running = asyncio.ensure_future(self._run())

    async def _begin(self) -> None:
        if not self._stored:
            self._position = self._stored = await self._cursor.begin(await self._feed.end())

    async def close(self) -> None:
        """Stop. What was not delivered is delivered after the next start."""
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
        page = await self._read(self._position)
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
        position = await self._deliver(wanted, page.position)
        await self._cursor.move(position)
        self._position = self._stored = position
        self._saved_at = time.monotonic()
        lag.set(0)
        return True

    async def _hold(self) -> bool:
        """Whether this process may deliver from its position. If another one delivers, it waits
        until that one's hold may have ended; if another one did, it goes on from there."""
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

    async def _read(self, position: str) -> "Page":
        page = await self._feed.read(position, self._exchanges)
        if page.gap:
            log.error("Messages for %s are missing: their moves are not kept.", self.sink.name)
        return page

    def _wanted(self, page: "Page") -> list[Message]:
        return [
            message
            for entry in page.entries
            for message in entry.messages
            if wants(self.sink.bindings, message)
        ]

    async def _deliver(self, messages: list[Message], position: str) -> str:
        """Deliver these messages, which end at this position, and what comes after them for as long
        as one of them waits. Returns the position before which everything is done."""
        lanes = Lanes(messages, self._pauses)
        failures = 0
        while len(lanes):
            taken_at = self._taken_at
            problem = await self._round(lanes)
            if problem is None:
                if failures:
                    log.warning("Messages for %s are delivered again.", self.sink.name)
                failures = 0
                position = await self._go_on(lanes, position)
                continue
            failures = 1 if self._taken_at > taken_at else failures + 1
            pause = max(self._pauses.pause(failures, self._rng), problem.wait or 0.0)
            log.warning(
                "Messages for %s cannot be delivered, and are tried again in %.1f s: %s",
                self.sink.name,
                pause,
                problem,
            )
            await asyncio.sleep(pause)
            await self._cursor.keep()
        return position

    async def _go_on(self, lanes: Lanes, position: str) -> str:
        """Read what comes after this position while some messages wait, or wait for the first of
        them. Returns the position of what was read."""
        waiting = len(lanes)
        if not waiting:
            return position
        seen = self._feed.changes.seen
        is_open = waiting < MOST_WAITING
        page = await self._read(position) if is_open else None
        if page is not None and page.entries:
            lanes.add(self._wanted(page))
            return page.position
        while (left := lanes.next_due() - time.monotonic()) > 0:
            # Another process that took over would deliver again what came after them.
            await self._cursor.keep()
            slice_s = min(left, KEEP_EVERY_S)
            if not is_open:
                await asyncio.sleep(slice_s)
            elif await self._feed.changes.after(seen, slice_s):
                break
        return position

    async def _round(self, lanes: Lanes) -> NotNow | None:
        """Deliver what is due. Returns the error of a sink that seems to be away; then no further
        lane is begun."""
        away: list[NotNow] = []
        slots = asyncio.Semaphore(self.sink.at_once)

        async def go_through(lane: Lane) -> None:
            while lane:
                async with slots:
                    if away:
                        return
                    await self._cursor.keep()
                    if not await self._send(lane, lanes, away):
                        return

        due = lanes.due(time.monotonic())
        outcomes = await asyncio.gather(*map(go_through, due), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return away[0] if away else None

    async def _send(self, lane: Lane, lanes: Lanes, away: list[NotNow]) -> bool:
        """Deliver the next message of a lane or skip it; False if it is to be tried again."""
        message = lane.messages[0]
        try:
            await self.sink.send(message)
        except Exception as error:
            # A defect of Andon must not delay everything after it either.
            problem = error
        else:
            self._taken_at = time.monotonic()
            self._metrics.messages.labels(self.sink.name, "delivered").inc()
            lane.done()
            return True
        if self._is_to_be_tried_again(problem, lane, lanes, away):
            self._metrics.messages.labels(self.sink.name, "failed").inc()
            return False
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
        lane.done()
        return True

    def _is_to_be_tried_again(
        self, problem: Exception, lane: Lane, lanes: Lanes, away: list[NotNow]
    ) -> bool:
        """Whether its next message is to be tried again; when is noted, and if it is the sink that
        seems to be away."""
        now = time.monotonic()
        trial = lane.tried(now)
        if not isinstance(problem, NotNow):
            trial.refusals += 1
            lanes.put_off(trial, now)
            return trial.refusals < MOST_REFUSALS
        alone_for = self._taken_at - trial.began
        if problem.is_answer and (now - trial.began > PATIENCE_S or alone_for > PATIENCE_ALONE_S):
            return False
        lanes.put_off(trial, now, problem.wait or 0.0)
        # The answer to a later try may be about this message; for a first try that cannot be
        # decided.
        if trial.tries == 1 or not problem.is_answer:
            away.append(problem)
        return True
