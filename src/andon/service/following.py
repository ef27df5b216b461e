"""A task's log over HTTP as it is written: `text/event-stream`, resumable with `Last-Event-ID`.

The runs come one after the other: the next one's lines only once the one before can have none any
more. So the id of a line (its run, the cursor before its page, its place on it) is an exact place.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from andon.artifacts.base import Artifacts, LogPage
from andon.contract.topics import run_topic, task_topic
from andon.lifecycle.faces.fields import iso
from andon.model.errors import AndonError
from andon.service.binding import Stream
from andon.service.problems import invalid
from andon.service.protocol import cycle_of
from andon.service.streaming import HEADERS, RETRY
from andon.service.waiting import unless, until_gone

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

    from andon.model.task import Task
    from andon.service.service import Service

log = logging.getLogger("andon.service")

LOOK_S = 1.0
"""How often a log is read while a client waits for it; lines are kept once a second."""

LAST_WORDS_MS = 3_000
"""How long after a run's end its last lines may take to be kept."""

_encode = msgspec.json.Encoder().encode


def is_over(task: "Task", number: int, now: int) -> bool:
    """Whether the run has ended and its last lines are kept."""
    runs = task.status.runs
    run = next((run for run in runs if run.number == number), None)
    if run is None:
        ended = task.status.finished_at
        return ended is not None or bool(runs and runs[-1].number > number)
    return run.resolved_at is not None and run.resolved_at + LAST_WORDS_MS < now


class Place(msgspec.Struct):
    """Where a reader is: so many lines after the cursor in a run's log."""

    run: int
    cursor: str = ""
    count: int = 0

    def __str__(self) -> str:
        return f"{self.run}/{self.cursor}~{self.count}"


def place_of(event_id: str) -> Place:
    """The place that the id of an event names. Raises `Problem` (422)."""
    run, _, rest = event_id.partition("/")
    cursor, _, count = rest.rpartition("~")
    if not all(one.isascii() and one.isdecimal() and len(one) < 8 for one in (run, count)):
        raise invalid("Last-Event-ID is none of a log stream's.", field="Last-Event-ID")
    return Place(int(run), cursor, int(count))


class LogStream(Stream):
    """The lines that a task's runs log, or one run's, until there will be no more."""

    endless = True

    def __init__(self, service: "Service", task: str, run: int | None, after: Place | None) -> None:
        self._service = service
        self._task = task
        self._only = run
        self._place = after or Place(-1 if run is None else run)
        self._quiet_since = 0.0

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        service, cycle = self._service, cycle_of(scope)
        service.log_streams += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self._send(send, RETRY + b"\n")
            reason = await unless(self._follow(send), service.stopping.wait(), until_gone(receive))
            last = b'event: end\ndata: {"reason":"%s"}\n\n' % (reason or "stopping").encode()
            await self._send(send, last, more=False)
        except TimeoutError:
            if cycle is not None:
                # The client has not read for so long that nothing more can be sent.
                cycle.transport.abort()
        finally:
            service.log_streams -= 1

    async def _follow(self, send: "Send") -> str:
        """Send the lines there are and those that come. Returns why there are no more."""
        engine = self._service.engine
        try:
            kept = await engine.artifacts()
            with engine.listen([task_topic(self._task), run_topic(self._task)]) as moved:
                while True:
                    [task] = await engine.get([self._task])
                    if task is None:
                        return "gone"
                    # Checked before the log is read, so that no line can be missing from the page.
                    ends = self._is_last(task)
                    if await self._send_new(kept, task, send):
                        continue
                    if ends:
                        return "over"
                    await self._ping(send)
                    await moved.wait(LOOK_S)
        except AndonError as error:
            log.warning("a log stream of task %s ends: %s", self._task, error)
            return "failed"
        except (TimeoutError, OSError):
            raise  # of the client's connection
        except Exception:
            log.exception("a log stream of task %s ends", self._task)
            return "failed"

    def _is_last(self, task: "Task") -> bool:
        """Whether nothing will come after what is in the log now."""
        now = self._service.engine.now()
        if self._only is not None:
            return is_over(task, self._only, now)
        ended, runs = task.status.finished_at, task.status.runs
        if ended is None or ended + LAST_WORDS_MS >= now:
            return False
        if not runs:
            return True
        last = runs[-1].number
        return self._place.run >= last and is_over(task, last, now)

    async def _send_new(self, kept: Artifacts, task: "Task", send: "Send") -> bool:
        """Send a page of lines, or go on to the next run; False if neither can be done."""
        place = self._place
        page = await kept.read_log(self._task, place.run, place.cursor) if place.run >= 0 else None
        if page is not None and len(page.lines) > place.count:
            await self._send(send, self._messages(page))
            self._place = Place(place.run, page.cursor)
            return True
        if self._only is not None:
            return False
        if page is not None and not is_over(task, place.run, self._service.engine.now()):
            return False
        after = next((run.number for run in task.status.runs if run.number > place.run), None)
        if after is None:
            return False
        self._place = Place(after)
        return True

    def _messages(self, page: LogPage) -> bytes:
        place, parts = self._place, list[bytes]()
        for number, line in enumerate(page.lines, 1):
            if number <= place.count:
                continue
            here = str(Place(place.run, place.cursor, number)).encode()
            told: dict[str, Any] = {
                "run": place.run,
                "at": iso(line.at),
                "level": line.level,
                "text": line.text,
            }
            parts.append(b"id: %s\nevent: line\ndata: %s\n\n" % (here, _encode(told)))
        return b"".join(parts)

    async def _ping(self, send: "Send") -> None:
        now = asyncio.get_running_loop().time()
        if now - self._quiet_since >= self._service.settings.stream_ping:
            await self._send(send, b": \n\n")

    async def _send(self, send: "Send", message: bytes, *, more: bool = True) -> None:
        self._quiet_since = asyncio.get_running_loop().time()
        async with asyncio.timeout(self._service.settings.body_timeout):
            await send({"type": "http.response.body", "body": message, "more_body": more})
