"""The connection to a NATS server: nats-py's client, on our own socket.

nats-py shakes hands, parses, keeps the connection alive and closes it. Three things bypass it,
since they cost most of a worker's CPU or could stop its closing halfway: messages are written to
the socket many at once, incoming messages go straight to their handler, without a queue, a task and
a dictionary of headers for each, and closing neither waits nor fails.

The socket is a transport, a public extension point of nats-py (`nats.aio.transport`). Two private
names remain, `PRIVATE_NAMES`. nats-py promises nothing about these, so `pyproject.toml` lets in
only the releases that `tests/stores/nats/test_nats_client.py` has passed with.
"""

import asyncio
import contextlib
import itertools
import logging
import re
import ssl
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import ParseResult

import nats.errors
from nats.aio.client import Client
from nats.aio.transport import Transport

from andon.stores.kit.receiving import receive_less

log = logging.getLogger("andon.nats")

PRIVATE_NAMES = {
    "_transport": "the client is given its socket before it connects",
    "_process_msg": "messages are taken from the parser",
}
"""The private names of nats-py's `Client` that are used, and what for."""

_LET_GO_S = 1.0
_FLUSH_S = 2.0
_FLUSH_LIMIT_S = 3600

_FIRST_SID = 1 << 30
"""Our subscriptions are numbered from here; nats-py numbers those it makes from 1."""

Outgoing = tuple[str, str, bytes, dict[str, str] | None]
"""Subject, subject for the answer, payload, headers."""

_STATUS_LINE = b"NATS/1.0 "


_PLACE = re.compile(rb"\r\nNats-Subject: ([^\r]+)\r\nNats-Sequence: (\d+)\r\n")


class Reply:
    """An incoming message. Headers are parsed when they are asked for."""

    __slots__ = ("_place", "_raw", "data")

    def __init__(self, data: bytes, raw: bytes | None) -> None:
        self.data = data
        self._raw = raw or b""
        self._place: tuple[str, int] | None = None

    @property
    def place(self) -> tuple[str, int]:
        """The subject under which a message is stored, and its sequence in the stream; the server
        writes one header after the other."""
        if self._place is None:
            found = _PLACE.search(self._raw)
            if found is None:
                self._place = self.header(b"Nats-Subject"), int(self.header(b"Nats-Sequence"))
            else:
                self._place = found[1].decode(), int(found[2])
        return self._place

    @property
    def status(self) -> str:
        """The three digits of the server's own status; "" for a message."""
        return self._raw[9:12].decode() if self._raw.startswith(_STATUS_LINE) else ""

    def header(self, name: bytes) -> str:
        """The value of a header, or ""."""
        raw = self._raw
        start = raw.find(b"\r\n" + name + b": ")
        if start < 0:
            return ""
        start += len(name) + 4
        return raw[start : raw.index(b"\r\n", start)].decode()


Handler = Callable[[bytes, Reply], None]
"""Called with the subject of a message and the message; must not block."""


class _Socket(Transport):
    """The bytes to and from the server. No call here waits for a server that reads nothing, and
    only the reads fail when the connection is lost: closing must complete."""

    def __init__(self) -> None:
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reads = 0
        self._is_reading = False

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: float) -> None:
        async with asyncio.timeout(connect_timeout):
            self._reader, self._writer = await asyncio.open_connection(
                uri.hostname, uri.port, limit=buffer_size
            )
        receive_less(self._writer.transport)

    async def connect_tls(
        self,
        uri: str | ParseResult,
        ssl_context: ssl.SSLContext,
        buffer_size: int,
        connect_timeout: float,
    ) -> None:
        assert self._writer is not None
        name = uri if isinstance(uri, str) else uri.hostname
        async with asyncio.timeout(connect_timeout):
            await self._writer.start_tls(ssl_context, server_hostname=name)

    def write(self, payload: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(payload)

    def writelines(self, payload: list[bytes]) -> None:
        self.write(b"".join(payload))

    async def drain(self) -> None:
        """Does not wait: senders wait for the answer, each with its own timeout."""

    async def read(self, buffer_size: int) -> bytes:
        assert self._reader is not None
        self._reads += 1
        self._is_reading = True
        try:
            return await self._reader.read(buffer_size)
        finally:
            self._is_reading = False

    async def readline(self) -> bytes:
        assert self._reader is not None
        return await self._reader.readline()

    def at_eof(self) -> bool:
        return self._reader is None or self._reader.at_eof()

    @property
    def is_deaf(self) -> bool:
        """Whether reading has begun and has ended."""
        return self._reads > 0 and not self._is_reading

    def close(self) -> None:
        """Abort: an orderly close waits for a server that may read nothing any more."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def wait_closed(self) -> None:
        if self._writer is not None:
            # In an asyncio task of its own: all that wait for the end of a connection wait for one
            # future, which is cancelled with any of them.
            waiting = asyncio.ensure_future(_closed(self._writer))
            await asyncio.wait({waiting}, timeout=_LET_GO_S)

    def __bool__(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Always true: otherwise the client would make its own transport."""
        return True


async def _closed(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(Exception):
        await writer.wait_closed()


class NatsClient(Client):
    """nats-py's client, bypassed for the frequent operations."""

    def __init__(self) -> None:
        super().__init__()
        self._socket = self._transport = _Socket()
        self._handlers: dict[int, Handler] = {}
        self._sids = itertools.count(_FIRST_SID)
        self._flushes: set[asyncio.Task[None]] = set()

    def send(self, messages: Iterable[Outgoing]) -> None:
        """Publish, in order, as one piece. Subjects and headers are the caller's own and are not
        checked."""
        framed: list[bytes] = []
        for subject, reply, payload, headers in messages:
            if len(payload) > self.max_payload:
                raise nats.errors.MaxPayloadError
            if headers is None:
                framed += (f"PUB {subject} {reply} {len(payload)}\r\n".encode(), payload, b"\r\n")
                continue
            fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
            block = f"NATS/1.0\r\n{fields}\r\n".encode()
            sizes = f"{len(block)} {len(block) + len(payload)}"
            framed += (f"HPUB {subject} {reply} {sizes}\r\n".encode(), block, payload, b"\r\n")
        self._send(b"".join(framed))

    def _send(self, data: bytes) -> None:
        if not self.is_connected:
            raise nats.errors.ConnectionClosedError
        self._socket.write(data)

    def receive(self, subject: str, handler: Handler) -> int:
        """Hand the messages of a subject to the handler. Returns a number for `end_receiving`."""
        sid = next(self._sids)
        self._send(f"SUB {subject} {sid}\r\n".encode())
        self._handlers[sid] = handler
        return sid

    def end_receiving(self, sid: int) -> None:
        """End what `receive` began."""
        if self._handlers.pop(sid, None) is not None:
            self._send(f"UNSUB {sid}\r\n".encode())

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        handler = self._handlers.get(sid)
        if handler is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        try:
            handler(subject, Reply(data, headers))
        except Exception:
            # Caught here: an error would end the reading of the connection for good.
            log.exception("A message on %s cannot be taken in; it is left out.", subject.decode())

    async def settle(self) -> None:
        """Wait until the server has taken what was sent; for two seconds at most."""
        # It is not cancelled when the time is over: a late answer, from a server that was frozen,
        # would then end the client's reading for good.
        flush = asyncio.ensure_future(self.flush(timeout=_FLUSH_LIMIT_S))
        self._flushes.add(flush)
        flush.add_done_callback(self._flushed)
        await asyncio.wait({flush}, timeout=_FLUSH_S)

    def _flushed(self, flush: "asyncio.Task[None]") -> None:
        self._flushes.discard(flush)
        if not flush.cancelled():
            flush.exception()

    @property
    def is_deaf(self) -> bool:
        """Whether reading has ended on a connection that counts as open."""
        return self._socket.is_deaf

    async def disconnect(self) -> None:
        """Close the connection, in any state, within a second or two."""
        closing = asyncio.ensure_future(self.close())
        # Without a timeout: in a cancelled asyncio task, Python 3.11.2 ends a timeout as a cancel.
        await asyncio.wait({closing}, timeout=_LET_GO_S)
        self._socket.close()
        left: set[asyncio.Task[Any]] = {closing, *self._flushes}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._socket.wait_closed()
