"""The connection to a NATS server: nats-py's client, on a socket of our own.

nats-py shakes hands, parses, keeps the connection alive and closes it. Three things are done past
it, since they cost most of a worker's CPU or could end its closing halfway: messages are written
to the socket many at once, messages that come in go straight to their handler, without a queue, a
task and a dictionary of headers for each, and closing neither waits nor fails.

The socket is a transport, which nats-py lets everybody write (`nats.aio.transport`). Two private
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

log = logging.getLogger("andon.nats")

PRIVATE_NAMES = {
    "_transport": "the client is given its socket before it connects",
    "_process_msg": "messages are taken from the parser",
}
"""What is used of nats-py's `Client` that it does not promise, and what for."""

_LET_GO_S = 1.0
_FLUSH_S = 2.0
_FLUSH_LIMIT_S = 3600

_FIRST_SID = 1 << 30
"""Our subscriptions are numbered from here; nats-py numbers those it makes from 1."""

Outgoing = tuple[str, str, bytes, dict[str, str] | None]
"""Subject, where the answer is to go, payload, headers."""

_STATUS_LINE = b"NATS/1.0 "


_PLACE = re.compile(rb"\r\nNats-Subject: ([^\r]+)\r\nNats-Sequence: (\d+)\r\n")


class Reply:
    """A message that came in. Headers are looked for when they are asked for."""

    __slots__ = ("_place", "_raw", "data")

    def __init__(self, data: bytes, raw: bytes | None) -> None:
        self.data = data
        self._raw = raw or b""
        self._place: tuple[str, int] | None = None

    @property
    def place(self) -> tuple[str, int]:
        """The subject under which a message is stored, and its sequence in the stream; the server
        writes one after the other."""
        if self._place is None:
            found = _PLACE.search(self._raw)
            if found is None:
                self._place = self.header(b"Nats-Subject"), int(self.header(b"Nats-Sequence"))
            else:
                self._place = found[1].decode(), int(found[2])
        return self._place

    @property
    def status(self) -> str:
        """The three digits by which the server says something itself; "" of a message."""
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
    """The bytes to and from the server. No call here waits for a server that takes nothing, and
    none but the reads fails when the connection is lost: closing is to come to its end."""

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
        """Whoever sends waits for the answer, for so long as suits him, not for this."""

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
        """Whether somebody read once and nobody does now."""
        return self._reads > 0 and not self._is_reading

    def close(self) -> None:
        """Aborted: what closes in order waits for a server that may take nothing any more."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def wait_closed(self) -> None:
        if self._writer is not None:
            # In a task of its own: all who wait for the end of a connection wait for one future,
            # which is cancelled with any of them.
            waiting = asyncio.ensure_future(_closed(self._writer))
            await asyncio.wait({waiting}, timeout=_LET_GO_S)

    def __bool__(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Always: else the client would make a transport of its own."""
        return True


async def _closed(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(Exception):
        await writer.wait_closed()


class NatsClient(Client):
    """nats-py's client, with ways past it for what there is much of."""

    def __init__(self) -> None:
        super().__init__()
        self._socket = self._transport = _Socket()
        self._handlers: dict[int, Handler] = {}
        self._sids = itertools.count(_FIRST_SID)
        self._flushes: set[asyncio.Task[None]] = set()

    def send(self, messages: Iterable[Outgoing]) -> None:
        """Publish, in order, as one piece. Subjects and headers are the caller's own: nothing in
        them is looked at."""
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
        """Hand what comes on a subject to the handler; a number by which to end that."""
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
            # Alone: an error here would end the reading of the connection for good.
            log.exception("A message on %s cannot be taken in; it is left out.", subject.decode())

    async def settle(self) -> None:
        """Wait until the server has taken what was sent; for two seconds at most."""
        # Not cancelled when the time is over: an answer that comes after all, from a server that
        # was frozen, would then end the client's reading for good.
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
        """Whether nobody reads what comes on a connection that counts as open."""
        return self._socket.is_deaf

    async def let_go(self) -> None:
        """Close the connection whatever state it is in, in a second or two."""
        closing = asyncio.ensure_future(self.close())
        # Not by a timeout: in a task that is cancelled, Python 3.11.2 ends one as a cancel.
        await asyncio.wait({closing}, timeout=_LET_GO_S)
        self._socket.close()
        left: set[asyncio.Task[Any]] = {closing, *self._flushes}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._socket.wait_closed()
