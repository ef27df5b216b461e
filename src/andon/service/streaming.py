"""An event stream over HTTP: `text/event-stream`, resumable with `Last-Event-ID`."""

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from andon.service.binding import Stream
from andon.service.hub import Hub, Subscriber, Wants, gap_message, message_or_nothing
from andon.service.problems import Problem
from andon.service.protocol import cycle_of, write_chunk
from andon.service.waiting import until_gone

if TYPE_CHECKING:
    from litestar.types import HTTPResponseBodyEvent, Receive, Scope, Send

    from andon.service.service import Service

HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
RETRY = b"retry: 1000\n"


def check_streams(service: "Service") -> None:
    """Raise `Problem` (503) when as many streams are open as may be."""
    if service.streams >= service.settings.max_streams:
        raise Problem(
            503,
            "too-many-streams",
            "Too many streams",
            f"{service.settings.max_streams:,} streams are open. Try again later.",
            headers={"Retry-After": "10"},
        )


class EventStream(Stream):
    """The moves of tasks as they happen, for as long as the client listens."""

    endless = True

    def __init__(self, service: "Service", wants: Wants, after: str | None) -> None:
        self._service = service
        self._hub: Hub = service.hub
        self._wants = wants
        self._after = after
        self._flow: Any = None  #: of the connection, where the server shows it
        self._direct: Any = None  #: writes a chunk to it at once, where the server shows that

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        cycle = cycle_of(scope)
        if cycle is not None:
            self._flow = cycle.flow
            self._direct = partial(write_chunk, cycle)
        subscriber = await self._hub.join(self._wants)
        gone = asyncio.ensure_future(until_gone(receive))
        gone.add_done_callback(lambda _: subscriber.end("gone"))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            seen = await self._replay(subscriber, send)
            await self._live(subscriber, send, seen)
            if subscriber.ended != "gone":
                last = b'event: end\ndata: {"reason":"%s"}\n\n' % subscriber.ended.encode()
                await self._send(send, last, more=False)
        except TimeoutError:
            if cycle is not None:
                # The client has not read for so long that nothing more can be sent.
                cycle.transport.abort()
                await gone
        finally:
            gone.cancel()
            self._hub.leave(subscriber)
            with contextlib.suppress(asyncio.CancelledError):
                await gone

    async def _replay(self, subscriber: Subscriber, send: "Send") -> set[tuple[str, int, int]]:
        """Send what is in the log after the last event that the client has seen.

        Returns which moves were sent and may come again from the hub, which has been handing them
        out since before the log was read.
        """
        if self._after is None:
            await self._send(send, b"%sid: %s\n\n" % (RETRY, f"{self._hub.cursor}~0".encode()))
            return set()
        await self._send(send, RETRY + b"\n")
        seen: set[tuple[str, int, int]] = set()
        horizon = self._service.engine.now() - 60_000
        event_id = self._after
        while not subscriber.ended:
            page, cursor, skip = await self._hub.read(event_id)
            parts = [gap_message()] if page.gap else []
            tasks = await self._hub.tasks_of(page.events) if self._wants.needs_task else {}
            for number, event in enumerate(page.events, 1):
                if number <= skip:
                    continue
                if event.at >= horizon:
                    seen.add((event.task, event.revision, event.at))
                if self._wants.admits(event, self._hub.queue_of(event.task)):
                    place = self._hub.place(cursor, number)
                    task = tasks.get(event.task)
                    parts.append(message_or_nothing(event, place, self._wants.profile, task))
            if parts:
                await self._send(send, b"".join(parts))
            if not page.events:
                break
            event_id = self._hub.place(page.cursor, 0)
        return seen

    async def _live(
        self, subscriber: Subscriber, send: "Send", seen: set[tuple[str, int, int]]
    ) -> None:
        rounds = self._hub.rounds
        while True:
            taken = subscriber.take()
            if seen and taken:
                taken = [
                    (message, event)
                    for message, event in taken
                    if event is None or (event.task, event.revision, event.at) not in seen
                ]
                if self._hub.rounds > rounds + 1:
                    seen = set()  # the hub is past everything that was replayed
            message = taken[0][0] if len(taken) == 1 else b"".join([part for part, _ in taken])
            if message:
                subscriber.quiet = False
                await self._send(send, message)
            elif subscriber.ended:
                return
            elif not seen:
                subscriber.direct = self._direct
                await subscriber.wait()
            else:
                await subscriber.wait()

    async def _send(self, send: "Send", message: bytes, *, more: bool = True) -> None:
        part: HTTPResponseBodyEvent = {
            "type": "http.response.body",
            "body": message,
            "more_body": more,
        }
        if self._flow is not None and not self._flow.write_paused:
            await send(part)  # it does not wait, so it needs no timeout
            return
        async with asyncio.timeout(self._service.settings.body_timeout):
            await send(part)
