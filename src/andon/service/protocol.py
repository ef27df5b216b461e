"""HTTP/1.1 on one connection, with bounds that the server's own protocol does not have: on the size
of headers, the time for them, and the number of connections.

Refusals here are problem details, too.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from andon.service.problems import CONTENT_TYPE, Problem, malformed

if TYPE_CHECKING:
    from litestar.types import Scope

    from andon.service.settings import Settings


def protocol_with(settings: "Settings") -> type[HttpToolsProtocol]:
    """The protocol class with these settings."""
    return type("BoundedProtocol", (_Bounded,), {"bounds": settings})


class _Bounded(HttpToolsProtocol):
    bounds: "Settings"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_headers = False
        self._header_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._idle_since: float | None = None
        self._idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.bounds.max_connections:
            self._refuse(
                Problem(
                    503,
                    "too-many-connections",
                    "Too many connections",
                    f"{self.bounds.max_connections:,} connections are open. Try again later.",
                    headers={"Retry-After": "10"},
                )
            )
            return
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_came()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if not self._in_headers:
            self._header_bytes = 0
            return
        self._header_bytes += len(data)
        if self._header_bytes > self.bounds.most_headers:
            self._refuse(
                Problem(
                    431,
                    "headers-too-large",
                    "Headers too large",
                    f"The headers are larger than the {self.bounds.most_headers:,} bytes "
                    "that this service takes.",
                )
            )
        elif self._deadline is None:
            self._expect_headers()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = True

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._headers_came()
        super().on_headers_complete()
        self.scope["state"]["cycle"] = self.cycle  # type: ignore[typeddict-item]

    def on_response_complete(self) -> None:
        """As the server's own, but for its timer: one per connection that looks now and then, not
        one made and cancelled for each request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._look_idle)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def _look_idle(self) -> None:
        self._idle_timer = None
        if self._idle_since is None:
            return  # a request is under way; its end sets the timer again
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._idle_timer = self.loop.call_later(left, self._look_idle)
        else:
            self.timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        self._refuse(malformed(msg))

    def _expect_headers(self) -> None:
        self._deadline = self.loop.call_later(self.bounds.header_timeout, self._too_late)

    def _headers_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        if self._in_headers:
            self._refuse(
                Problem(
                    408,
                    "request-timeout",
                    "Request timeout",
                    "The headers did not come in time.",
                )
            )
        else:
            self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        if self.transport.is_closing():
            return
        body = msgspec.json.encode(problem.document)
        lines = [
            STATUS_LINE[problem.status],
            b"content-type: %s\r\ncontent-length: %d\r\n" % (CONTENT_TYPE, len(body)),
            *(f"{name}: {value}\r\n".encode() for name, value in problem.headers.items()),
            b"connection: close\r\n\r\n",
            body,
        ]
        self.transport.write(b"".join(lines))
        self.transport.close()


def cycle_of(scope: "Scope") -> RequestResponseCycle | None:
    """The request and its answer on their connection; None behind a server of another kind."""
    return scope["state"].get("cycle")


def whole_body(cycle: RequestResponseCycle) -> bytes | None:
    """The body, if all of it has come and none of it was read; else None."""
    if cycle.more_body or cycle.waiting_for_100_continue or cycle.disconnected:
        return None
    body = bytes(cycle.body)
    cycle.body = bytearray()
    return body


def answer(
    cycle: RequestResponseCycle,
    status: int,
    media_type: bytes,
    body: bytes,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> bool:
    """Send a whole answer in one write; False where it has to be sent by the server's `send`.

    It writes what two messages to `send` would, without looking at each header again: `headers` are
    ones that no client has chosen, or that were checked.
    """
    if cycle.disconnected or cycle.response_started or cycle.flow.write_paused:
        return False
    lines = [STATUS_LINE[status]]
    lines += [b"%s: %s\r\n" % header for header in cycle.default_headers]
    if headers:
        lines += [b"%s: %s\r\n" % header for header in headers]
    lines.append(b"content-type: %s\r\ncontent-length: %d\r\n" % (media_type, len(body)))
    lines.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
    if cycle.scope["method"] != "HEAD":
        lines.append(body)
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(b"".join(lines))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


def write_chunk(cycle: RequestResponseCycle, chunk: bytes) -> bool:
    """Write a chunk, encoded already, to an answer that has begun; False where it has to wait."""
    if cycle.disconnected or cycle.flow.write_paused or cycle.response_complete:
        return False
    if not (cycle.chunked_encoding and cycle.response_started):
        return False
    cycle.transport.write(chunk)
    return True
