"""One follower of the event log for every stream of this process.

An event is decoded once and encoded once, however many streams want it. A stream that reads too
slowly is ended rather than buffered without bound: its client comes back with `Last-Event-ID`.

The id of an event is the cursor before its page and its place after that. Where the store has one
partition a stream resumes exactly there; with several it resumes at the page, and the client may
see an event twice (it has the task's id and revision to tell), never miss one.
"""

import asyncio
import logging
import random
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from andon.lifecycle.profiles import Profile
from andon.lifecycle.rendering import event_document, history_as
from andon.model.errors import StoreUnavailable
from andon.model.task import Task, TaskEvent
from andon.model.words import State
from andon.stores.base import EVENTS_TOPIC, SLOW_POLL_S, EventPage

if TYPE_CHECKING:
    from andon.engine.base import Engine

log = logging.getLogger("andon.service")

PAGE = 500
_AWAY_S = 0.5
_MOST_REMEMBERED = 20_000
_PING = b": \n\n"
_encode = msgspec.json.Encoder().encode


class Wants(msgspec.Struct, frozen=True):
    """What a stream is about."""

    task: str | None = None
    queue: str | None = None
    states: frozenset[State] = frozenset()  #: moves into these; empty: all
    profile: Profile | None = None  #: None: Andon's own words

    @property
    def needs_task(self) -> bool:
        """Whether the event alone does not say enough."""
        return self.queue is not None or self.profile is not None

    def admits(self, event: TaskEvent, queue: str | None) -> bool:
        """Whether the event belongs into the stream; `queue` is None where nobody knows it."""
        return (
            (self.task is None or event.task == self.task)
            and (not self.states or event.target in self.states)
            and (self.queue is None or queue == self.queue)
        )


class Subscriber:
    """One stream's place in the hub: what it has yet to send, bounded."""

    __slots__ = ("_buffer", "_limit", "_waiting", "ended", "quiet", "wants")

    def __init__(self, wants: Wants, limit: int) -> None:
        self.wants = wants
        self.ended = ""  #: why there is no more
        self.quiet = True  #: nothing was sent since the last ping
        self._buffer: deque[tuple[bytes, TaskEvent | None]] = deque()
        self._limit = limit
        self._waiting: asyncio.Future[None] | None = None

    def push(self, message: bytes, event: TaskEvent | None = None) -> None:
        """Add a message; one too many ends the stream."""
        if self.ended:
            return
        if len(self._buffer) >= self._limit:
            self.end("slow")
            return
        self._buffer.append((message, event))
        self._wake()

    def end(self, why: str) -> None:
        """There is no more. What is buffered is dropped where the reader was too slow."""
        if not self.ended:
            self.ended = why
            if why == "slow":
                self._buffer.clear()
            self._wake()

    def take(self) -> list[tuple[bytes, TaskEvent | None]]:
        """Everything buffered."""
        taken = list(self._buffer)
        self._buffer.clear()
        return taken

    async def wait(self) -> None:
        """Until there is something to take, or the stream has ended."""
        if not (self._buffer or self.ended):
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Hub:
    """Follows the log while there are streams, and hands events to those that want them."""

    def __init__(self, engine: "Engine", *, partitions: int, buffer: int, ping: float) -> None:
        self._engine = engine
        self._exact = partitions == 1
        self._buffer = buffer
        self._ping_s = ping
        self._subscribers: set[Subscriber] = set()
        self._by_task: dict[str, set[Subscriber]] = {}
        self._following: list[asyncio.Task[None]] = []
        self._started: asyncio.Future[None] | None = None
        self._queues: dict[str, str] = {}
        self.cursor = ""  #: the log's, before what was not yet handed out
        self.rounds = 0  #: how often the end of the log was seen

    def __len__(self) -> int:
        return len(self._subscribers)

    async def join(self, wants: Wants) -> Subscriber:
        """A new stream, from now."""
        subscriber = Subscriber(wants, self._buffer)
        self._subscribers.add(subscriber)
        if wants.task is not None:
            self._by_task.setdefault(wants.task, set()).add(subscriber)
        if not self._following:
            self._started = asyncio.get_running_loop().create_future()
            self._following = [
                asyncio.ensure_future(self._keep(self._started)),
                asyncio.ensure_future(self._ping()),
            ]
        assert self._started is not None
        try:
            await asyncio.shield(self._started)
        except BaseException:
            self.leave(subscriber)
            raise
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """The stream has ended; the last one stops the follower."""
        self._subscribers.discard(subscriber)
        task = subscriber.wants.task
        if task is not None and task in self._by_task:
            self._by_task[task].discard(subscriber)
            if not self._by_task[task]:
                del self._by_task[task]
        if not self._subscribers:
            for following in self._following:
                following.cancel()
            self._following = []

    def end_all(self, why: str) -> None:
        """End every stream in good order."""
        for subscriber in self._subscribers:
            subscriber.end(why)

    def place(self, cursor: str, count: int) -> str:
        """The id of the event that is `count` after the cursor."""
        return f"{cursor}~{count}"

    async def read(self, event_id: str) -> tuple[EventPage, str, int]:
        """Events after the one with this id: the page, its cursor, and how many of it to skip."""
        cursor, _, count = event_id.rpartition("~")
        skip = int(count) if self._exact and count.isdecimal() and len(count) < 6 else 0
        return await self._engine.events(cursor, PAGE), cursor, skip

    async def _keep(self, started: asyncio.Future[None]) -> None:
        try:
            await self._follow(started)
        except Exception as error:
            log.exception("event streams end: the log cannot be followed")
            if not started.done():
                started.set_exception(error)
            self.end_all("failed")

    async def _follow(self, started: asyncio.Future[None]) -> None:
        jitter = random.Random()
        with self._engine.listen([EVENTS_TOPIC]) as hints:
            cursor: str | None = None
            while True:
                try:
                    if cursor is None:
                        cursor = self.cursor = await self._engine.events_end()
                        started.set_result(None)
                    page = await self._engine.events(cursor, PAGE)
                    if page.events:
                        await self._hand_out(cursor, page)
                except StoreUnavailable as error:
                    log.warning("event streams wait for the store: %s", error)
                    await asyncio.sleep(_AWAY_S * (0.5 + jitter.random()))
                    continue
                cursor = self.cursor = page.cursor
                if page.gap:
                    for subscriber in self._subscribers:
                        subscriber.push(gap_message())
                if not page.events:
                    self.rounds += 1
                    await hints.wait(SLOW_POLL_S * (0.5 + jitter.random()))

    async def _hand_out(self, cursor: str, page: EventPage) -> None:
        wide = [one for one in self._subscribers if one.wants.task is None]
        tasks: dict[str, Task | None] = {}
        if any(one.wants.needs_task for one in self._subscribers):
            tasks = await self.tasks_of(page.events)
        for number, event in enumerate(page.events, 1):
            wanting = self._by_task.get(event.task)
            candidates = wide if wanting is None else [*wide, *wanting]
            if not candidates:
                continue
            queue = self._queues.get(event.task)
            messages: dict[str, bytes] = {}
            for subscriber in candidates:
                wants = subscriber.wants
                if wants.admits(event, queue):
                    name = "" if wants.profile is None else wants.profile.name
                    message = messages.get(name)
                    if message is None:
                        message = messages[name] = message_of(
                            event, self.place(cursor, number), wants.profile, tasks.get(event.task)
                        )
                    subscriber.push(message, event)

    async def tasks_of(self, events: tuple[TaskEvent, ...]) -> dict[str, Task | None]:
        """The tasks that events are about, their queues remembered for when they are gone."""
        ids = list(dict.fromkeys(event.task for event in events))
        tasks = dict(zip(ids, await self._engine.get(ids), strict=True))
        if len(self._queues) > _MOST_REMEMBERED:
            self._queues.clear()
        for task in tasks.values():
            if task is not None:
                self._queues[task.id] = task.definition.queue
        return tasks

    def queue_of(self, task_id: str) -> str | None:
        """The queue of a task, as far as it was seen."""
        return self._queues.get(task_id)

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(self._ping_s)
            for subscriber in list(self._subscribers):
                if subscriber.quiet:
                    subscriber.push(_PING)
                subscriber.quiet = True


def message_of(
    event: TaskEvent, event_id: str, profile: Profile | None, task: Task | None
) -> bytes:
    """The event as a server-sent event; under a foreign profile one message per name shown."""
    head = b"id: %s\nevent: move\ndata: " % event_id.encode()
    if profile is None:
        return b"%s%s\n\n" % (head, _encode(event_document(event)))
    return b"".join(
        b"%s%s\n\n" % (head, _encode({"task": event.task, **entry}))
        for entry in history_as(profile, [event], task)
    )


def gap_message() -> bytes:
    """Some events are not kept any more."""
    return b"event: gap\ndata: {}\n\n"
