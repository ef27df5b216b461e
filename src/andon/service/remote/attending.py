"""Attention streams: one line for each hint and for each change of a watched task.

The stream says `ready` once everything is subscribed to and every task was read once; what happens
after that is not missed. It is never silent for longer than a keepalive, so that each end notices
when the other is gone. It ends with the service, or with the client's connection.
"""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from andon.contract.topics import EVENTS_TOPIC
from andon.engine.http.errors import problem_of
from andon.engine.http.wire import KEEPALIVE_S, TIME_HEADER, Attention, Frame, encode
from andon.lifecycle.admission import check_text
from andon.model.errors import AndonError, InvalidSubmission, StoreUnavailable
from andon.service.binding import Stream
from andon.service.calls import ADMIN_STORAGE
from andon.service.problems import without_place
from andon.service.trust.access import Caller
from andon.service.waiting import read_scope

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

    from andon.engine.local import LocalEngine

MOST_SUBJECTS = 20_000
"""Topics and tasks of one stream."""

_MOST_BUFFERED = 20_000
"""Frames that a client may lag behind; then its stream ends, and it begins another."""

log = logging.getLogger("andon.service")

_AGAIN_S = 1.0
_OPEN_TOPICS = frozenset({"config", "timer", "events"})
_HEADERS = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store")]


def check(caller: Caller, wanted: Attention) -> None:
    """Refuse topics that do not exist, or that the caller may not listen to."""
    if len(wanted.topics) + len(wanted.tasks) > MOST_SUBJECTS:
        raise InvalidSubmission(f"One stream has at most {MOST_SUBJECTS} topics and tasks.")
    for topic in wanted.topics:
        kind, _, name = topic.partition(":")
        check_text(topic, field="topics")
        if kind == "ready" and name:
            caller.require(f"queues:claim:{name}")
        elif kind == "control" and name:
            caller.require_some("queues:claim:")
        elif kind in ("task", "run") and name:
            caller.require_some("tasks:read:")
        elif topic == EVENTS_TOPIC:
            caller.require("tasks:read:*")
        elif topic not in _OPEN_TOPICS:
            raise InvalidSubmission(f"There is no topic {topic[:80]!r}.", field="topics")


class Attending(Stream):
    """One stream."""

    endless = True

    def __init__(
        self, engine: "LocalEngine", caller: Caller, wanted: Attention, stopping: asyncio.Event
    ) -> None:
        self._engine = engine
        self._caller = caller
        self._wanted = wanted
        self._stopping = stopping
        self._frames: asyncio.Queue[Frame] = asyncio.Queue(_MOST_BUFFERED)
        self._hinted: set[str] = set()
        self._some = asyncio.Event()
        self._unread = len(wanted.tasks)
        self._all_read = asyncio.Event()
        self._overrun = False

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        clock = [(TIME_HEADER.encode(), b"%d" % self._engine.now())]
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS + clock})
        work = [
            asyncio.ensure_future(self._hints(topic))
            for topic in dict.fromkeys(self._wanted.topics)
        ]
        work += [asyncio.ensure_future(self._watch(one)) for one in self._wanted.tasks]
        ends: list[asyncio.Task[Any]] = [
            asyncio.ensure_future(self._stopping.wait()),
            asyncio.ensure_future(_gone(receive)),
            asyncio.ensure_future(self._send_all(send)),
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*ends, *work):
                task.cancel()
            await asyncio.gather(*ends, *work, return_exceptions=True)
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: "Send") -> None:
        if not self._unread:
            self._all_read.set()
        await self._all_read.wait()
        await self._send(send, [*self._taken(), Frame(ready=True)])
        while not self._overrun:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KEEPALIVE_S):
                    await self._some.wait()
            self._some.clear()
            await self._send(send, self._taken() or [Frame()])

    def _taken(self) -> list[Frame]:
        frames: list[Frame] = []
        while not self._frames.empty():
            frames.append(self._frames.get_nowait())
        if self._hinted:
            frames.append(Frame(topics=sorted(self._hinted)))
            self._hinted.clear()
        return frames

    async def _send(self, send: "Send", frames: list[Frame]) -> None:
        body = b"".join(_line(frame) for frame in frames)
        await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _hints(self, topic: str) -> None:
        while True:
            try:
                with self._engine.listen([topic]) as listener:
                    while True:
                        if await listener.wait(None):
                            self._hinted.add(topic)
                            self._some.set()
            except Exception:  # other topics are not affected; this one is retried
                log.exception("topic %s is not listened to for a moment", topic)
                await asyncio.sleep(_AGAIN_S)
                self._hinted.add(topic)  # what was missed meanwhile
                self._some.set()

    def _told(self, error: AndonError) -> AndonError:
        return error if self._caller.may(ADMIN_STORAGE) else without_place(error)

    async def _watch(self, task_id: str) -> None:
        first = True
        try:
            async for task in self._engine.watch(task_id):
                self._caller.require(read_scope(task))
                self._put(Frame(task=task_id, record=task))
                if first:
                    first = False
                    self._read_one()
            self._put(Frame(task=task_id, done=True))
        except AndonError as error:
            self._put(Frame(task=task_id, error=problem_of(self._told(error))))
        except Exception:
            # A watcher that gets the error asks again; without it, it would wait for ever.
            log.exception("task %s is not watched any more", task_id)
            away = StoreUnavailable("The service cannot watch this task now; its log says why.")
            self._put(Frame(task=task_id, error=problem_of(away)))
        finally:
            if first:
                self._read_one()

    def _read_one(self) -> None:
        self._unread -= 1
        if not self._unread:
            self._all_read.set()

    def _put(self, frame: Frame) -> None:
        if self._frames.full():
            self._overrun = True
        else:
            self._frames.put_nowait(frame)
        self._some.set()


def _line(frame: Frame) -> bytes:
    """The encoded frame; for one that cannot be encoded, a frame that makes its watcher ask
    again."""
    try:
        return encode(frame) + b"\n"
    except (ValueError, TypeError, OverflowError, RecursionError):
        log.exception("task %s cannot be told of", frame.task)
        away = StoreUnavailable("The record of this task cannot be sent; the log says why.")
        return encode(Frame(task=frame.task, error=problem_of(away))) + b"\n"


async def _gone(receive: "Receive") -> None:
    """Until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
