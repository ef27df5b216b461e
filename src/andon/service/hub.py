"""Follows the event log once for all event streams of this process.

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
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from andon.contract.queries import EventPage
from andon.contract.topics import EVENTS_TOPIC
from andon.coroutines.shared_future import shared
from andon.lifecycle.backoff import ExponentialBackoff
from andon.lifecycle.constants import SLOW_POLL_S
from andon.lifecycle.profiles import Profile
from andon.lifecycle.rendering import event_document, history_as
from andon.model.errors import AndonError, StoreUnavailable
from andon.model.task import Task, TaskEvent
from andon.model.words import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from andon.engine.base import Engine

log = logging.getLogger("andon.service")

PAGE = 500
BACKOFF = ExponentialBackoff(0.5, SLOW_POLL_S)
_MOST_REMEMBERED = 20_000
_PING = b": \n\n"
_NOTHING = b"0\r\n\r\n"
"""An empty chunk would be the end of the stream: it is never sent."""

_AT_ONCE = 100
"""Streams that are written to before requests get their turn."""
_encode = msgspec.json.Encoder().encode


class Wants(msgspec.Struct, frozen=True):
    """What a stream is about."""

    task: str | None = None
    queue: str | None = None
    states: frozenset[State] = frozenset()  #: moves into these; empty: all
    profile: Profile | None = None  #: None: Andon's own words

    @property
    def shown_as(self) -> str:
        """The name of the profile; empty for Andon's own words."""
        return "" if self.profile is None else self.profile.name

    @property
    def key(self) -> object:
        """Equal where two streams get the same bytes."""
        return (self.task, self.queue, self.states, self.shown_as)

    @property
    def needs_task(self) -> bool:
        """Whether the event alone does not say enough."""
        return self.queue is not None or self.profile is not None

    def admits(self, event: TaskEvent, queue: str | None) -> bool:
        """Whether the event belongs in the stream; `queue` is None if it is not known."""
        return (
            (self.task is None or event.task == self.task)
            and (not self.states or event.target in self.states)
            and (self.queue is None or queue == self.queue)
        )


class Subscriber:
    """One stream's place in the hub: what it has yet to send, bounded."""

    __slots__ = ("_buffer", "_limit", "_waiting", "direct", "ended", "quiet", "wants")

    def __init__(self, wants: Wants, limit: int) -> None:
        self.wants = wants
        self.ended = ""  #: why there is no more
        self.quiet = True  #: nothing was sent since the last ping
        self.direct: Callable[[bytes], bool] | None = None  #: writes a chunk to the connection now
        self._buffer: deque[tuple[bytes, TaskEvent | None]] = deque()
        self._limit = limit
        self._waiting: asyncio.Future[None] | None = None

    def give(self, chunk: bytes, messages: list[tuple[bytes, TaskEvent]]) -> None:
        """Send the chunk, which is these messages, now; add them where that is not possible."""
        if not self._send_now(chunk):
            for message, event in messages:
                if message:
                    self.push(message, event)

    def ping(self, chunk: bytes) -> None:
        """Send a ping, unless something was sent since the last one."""
        if self.quiet and not self._send_now(chunk):
            self.push(_PING)
        self.quiet = True

    def _send_now(self, chunk: bytes) -> bool:
        """Past the stream's task: while that waits for more, all before this is sent."""
        if self.direct is None or self._waiting is None or self._waiting.done() or self.ended:
            return False
        if len(chunk) > len(_NOTHING) and not self.direct(chunk):
            return False
        self.quiet = False
        return True

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
        """End the stream. The buffer is dropped if the reader was too slow."""
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


class _Group:
    """Streams that want the same."""

    def __init__(self, wants: Wants) -> None:
        self.wants = wants
        self.members: set[Subscriber] = set()


class Hub:
    """Follows the log while there are streams, and hands events to those that want them."""

    def __init__(self, engine: "Engine", *, partitions: int, buffer: int, ping: float) -> None:
        self._engine = engine
        self._exact = partitions == 1
        self._buffer = buffer
        self._ping_s = ping
        self._subscribers: set[Subscriber] = set()
        self._groups: dict[object, _Group] = {}
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
        self._groups.setdefault(wants.key, _Group(wants)).members.add(subscriber)
        if not self._following:
            self._started = asyncio.get_running_loop().create_future()
            self._following = [
                asyncio.ensure_future(self._follow(self._started)),
                asyncio.ensure_future(self._ping()),
            ]
        assert self._started is not None
        try:
            await shared(self._started)
        except BaseException:
            self.leave(subscriber)
            raise
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """The stream has ended; the last one stops the follower."""
        self._subscribers.discard(subscriber)
        key = subscriber.wants.key
        group = self._groups.get(key)
        if group is not None:
            group.members.discard(subscriber)
            if not group.members:
                del self._groups[key]
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
        cursor, mark, count = event_id.rpartition("~")
        if not mark:
            # None of a stream's: a page's cursor, or nothing that the store knows.
            cursor, count = event_id, ""
        skip = int(count) if self._exact and count.isdecimal() and len(count) < 6 else 0
        return await self._engine.events(cursor, PAGE), cursor, skip

    async def _follow(self, started: asyncio.Future[None]) -> None:
        """Read the log and hand events out, as long as there are streams. After an error the log is
        read again in a while, from the same place."""
        jitter = random.Random()
        failures = 0
        while True:
            try:
                with self._engine.listen([EVENTS_TOPIC]) as hints:
                    if not started.done():
                        self.cursor = await self._engine.events_end()
                        started.set_result(None)
                    while True:
                        page = await self._engine.events(self.cursor, PAGE)
                        await self._take(page)
                        failures = 0
                        if not page.events:
                            await hints.wait(SLOW_POLL_S * (0.5 + jitter.random()))
            except StoreUnavailable as error:
                log.warning("event streams wait for the store: %s", error)
            except Exception as error:
                if not started.done():  # joining streams get it, and the next begins anew
                    started.set_exception(error)
                    return
                log.exception("event streams wait: the log cannot be read after %s", self.cursor)
                failures += 1
            await asyncio.sleep(BACKOFF.pause(max(failures, 1), jitter))

    async def _take(self, page: EventPage) -> None:
        if page.events:
            await self._hand_out(self.cursor, page)
        else:
            self.rounds += 1
        self.cursor = page.cursor
        if page.gap:
            for subscriber in self._subscribers:
                subscriber.push(gap_message())

    async def _hand_out(self, cursor: str, page: EventPage) -> None:
        """Give a page to the streams: what several want is chosen and encoded once for all."""
        groups = list(self._groups.values())
        tasks: dict[str, Task | None] = {}
        if any(group.wants.needs_task for group in groups):
            tasks = await self.tasks_of(page.events)
        numbered = list(enumerate(page.events, 1))
        of_task: dict[str, list[tuple[int, TaskEvent]]] = {}
        for number, event in numbered:
            of_task.setdefault(event.task, []).append((number, event))
        encoded: dict[tuple[str, int], bytes] = {}
        handed = 0

        def message(number: int, event: TaskEvent, wants: Wants) -> bytes:
            key = (wants.shown_as, number)
            if key not in encoded:
                place = self.place(cursor, number)
                task = tasks.get(event.task)
                encoded[key] = message_or_nothing(event, place, wants.profile, task)
            return encoded[key]

        for group in groups:
            wants = group.wants
            events = numbered if wants.task is None else of_task.get(wants.task, [])
            messages: list[tuple[bytes, TaskEvent]] = []
            for number, event in events:
                if wants.admits(event, self._queues.get(event.task)):
                    messages.append((message(number, event, wants), event))
            chunk = chunk_of(b"".join([text for text, _ in messages]))
            for subscriber in list(group.members) if messages else ():
                _alone(subscriber, partial(subscriber.give, chunk, messages))
                handed += 1
                if handed % _AT_ONCE == 0:
                    await asyncio.sleep(0)  # requests get their turn in between

    async def tasks_of(self, events: tuple[TaskEvent, ...]) -> dict[str, Task | None]:
        """The tasks that events are about, their queues remembered for when they are gone."""
        ids = list(dict.fromkeys(event.task for event in events))
        tasks = dict(zip(ids, await self._records(ids), strict=True))
        if len(self._queues) > _MOST_REMEMBERED:
            self._queues.clear()
        for task in tasks.values():
            if task is not None:
                self._queues[task.id] = task.definition.queue
        return tasks

    async def _records(self, ids: list[str]) -> list[Task | None]:
        """Records; one by one if one of them cannot be read, which is shown without it then."""
        try:
            return await self._engine.get(ids)
        except AndonError:
            raise
        except Exception:
            found: list[Task | None] = []
            for task_id in ids:
                try:
                    found += await self._engine.get([task_id])
                except AndonError:
                    raise
                except Exception:
                    log.exception("task %s cannot be read", task_id)
                    found.append(None)
            return found

    def queue_of(self, task_id: str) -> str | None:
        """The queue of a task, as far as it was seen."""
        return self._queues.get(task_id)

    async def _ping(self) -> None:
        ping = chunk_of(_PING)
        while True:
            await asyncio.sleep(self._ping_s)
            for subscriber in list(self._subscribers):
                _alone(subscriber, partial(subscriber.ping, ping))


def _alone(subscriber: Subscriber, do: "Callable[[], object]") -> None:
    """Do something to one stream; an error ends only that one."""
    try:
        do()
    except Exception:
        log.exception("an event stream ends")
        subscriber.end("failed")


def message_or_nothing(
    event: TaskEvent, event_id: str, profile: Profile | None, task: Task | None
) -> bytes:
    """`message_of`; nothing for a move that cannot be encoded, so that those after it are sent."""
    try:
        return message_of(event, event_id, profile, task)
    except Exception:
        log.exception("move %d of task %s cannot be told", event.revision, event.task)
        return b""


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


def chunk_of(message: bytes) -> bytes:
    """The message as a chunk of a chunked answer."""
    return b"%x\r\n%s\r\n" % (len(message), message)


def gap_message() -> bytes:
    """Some events are not kept any more."""
    return b"event: gap\ndata: {}\n\n"
