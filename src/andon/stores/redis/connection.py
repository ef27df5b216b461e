"""One connection to one server, shared by all callers of an event loop.

Requests are written as they come and answered in their order, so many callers have their scripts in
flight at once without a pool that could run out. A request is sent at once if no other is on its
way, so that a single caller does not wait for the loop; else the requests of one turn are sent in
one write. A request that is not answered within `REPLY_WITHIN_S` ends the connection: later
requests on it could not be answered either.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis

from andon.stores.kit.receiving import receive_less
from andon.stores.kit.spinning import Spinner, spinner_on
from andon.stores.redis.wire import NOTHING, pack, reader

REPLY_WITHIN_S = 10.0
CONNECT_WITHIN_S = 5.0

SPIN_S = 0.00015
"""How long a wait for an answer spins at most, in seconds: three times what a create takes."""


_PING = pack((b"PING",))


class Lost(ConnectionError):
    """The connection ended before the answer came; the request may or may not have been carried
    out."""


class Connection(asyncio.Protocol):
    """RESP over one socket. Error replies come back as values, `hiredis.ReplyError`."""

    def __init__(self, on_push: Callable[[list[Any]], None] | None = None) -> None:
        self._reader = reader()
        self._on_push = on_push
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._spinner: Spinner | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.lost: asyncio.Future[None] = self._loop.create_future()

    @property
    def alive(self) -> bool:
        """Whether requests can be sent."""
        transport = self._transport
        return transport is not None and not (self.lost.done() or transport.is_closing())

    def request(self, *words: bytes | str | int) -> asyncio.Future[Any]:
        """Send a command. Returns its reply."""
        return self.send(pack(words))

    def send(self, packed: bytes, *, last: bool = False) -> asyncio.Future[Any]:
        """Send a packed command. Returns its reply. `last`: clients that get a message because of
        this command must get it before the reply. A server writes to its clients in the reverse of
        the order in which it first had something for them, so it first gets a command whose reply
        goes to this connection."""
        if self.alive:
            return self.send_alive(packed, last=last)
        reply: asyncio.Future[Any] = self._loop.create_future()
        reply.set_exception(Lost("the connection is closed"))
        return reply

    def send_alive(
        self, packed: bytes, *, last: bool = False, spin: bool = False
    ) -> asyncio.Future[Any]:
        """The same for a caller that has just seen that the connection is alive. `spin`: if no
        other request is on its way, the wait for the answer may spin (`kit.spinning`)."""
        if self._waiting or self._out:
            self.post(packed)
            spin = False
        else:  # the rest comes after the send, while the request is on its way
            assert self._transport is not None
            self._transport.write(_PING + packed if last else packed)
            if last:
                nobody: asyncio.Future[Any] = self._loop.create_future()
                nobody.cancel()
                self._waiting.append((nobody, self._loop.time() + REPLY_WITHIN_S))
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append((reply, self._loop.time() + REPLY_WITHIN_S))
        if self._alarm is None:
            self._alarm = self._loop.call_later(REPLY_WITHIN_S, self._look_at_time)
        if spin and self._spinner is not None:
            self._spinner.wait()
        return reply

    def post(self, packed: bytes) -> None:
        """Send a command that is answered by pushes only, as subscriptions are."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(packed)

    def close(self) -> None:
        """End the connection now."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
        self._lose(Lost("the connection was closed"))

    def abort(self) -> None:
        """End the connection without sending what is not sent yet: a server that does not answer
        may not read either, and the socket would stay open until it does."""
        self._lose(Lost("the connection was given up"))
        if self._transport is not None:
            self._transport.abort()

    async def closed(self) -> None:
        """Wait until the socket is closed; what is not sent within a second is not sent."""
        if self._transport is not None:
            await asyncio.wait([self._ended], timeout=1)
            self._transport.abort()
            await asyncio.wait([self._ended], timeout=1)  # a turn of the loop later

    # --- asyncio's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self._spinner = spinner_on(transport, SPIN_S)
        receive_less(transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while True:
            try:
                reply = self._reader.gets()
            except hiredis.ProtocolError as error:
                self._lose(Lost(f"what answers is no Redis server ({error})"))
                self.abort()
                return
            if reply is NOTHING:
                return
            if self._on_push is not None and _is_push(reply):
                self._on_push(reply)
            elif self._waiting:
                waiter, _ = self._waiting.popleft()
                if not waiter.done():  # else its caller was cancelled
                    waiter.set_result(reply)
                if self._spinner is not None and self._spinner.watches and not self._waiting:
                    self._spinner.answered()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(Lost(str(exc) if exc else "the server closed the connection"))
        if not self._ended.done():
            self._ended.set_result(None)

    def _flush(self) -> None:
        # A transport that is closing sends nothing more; uvloop's raises if it is asked to.
        if self._transport is not None and self._out and not self._transport.is_closing():
            self._transport.write(b"".join(self._out))
        self._out.clear()

    def _lose(self, error: Lost) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not self.lost.done():
            self.lost.set_result(None)
        while self._waiting:
            waiter, _ = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(error)

    def _look_at_time(self) -> None:
        self._alarm = None
        if not self._waiting:
            return
        left = self._waiting[0][1] - self._loop.time()
        if left > 0:
            self._alarm = self._loop.call_later(left, self._look_at_time)
            return
        self._lose(Lost(f"no answer within {REPLY_WITHIN_S:g} s"))
        self.abort()


def _is_push(reply: Any) -> bool:
    return isinstance(reply, list) and bool(cast("list[Any]", reply)) and reply[0] in _PUSHES


_PUSHES = frozenset(
    (b"message", b"smessage", b"subscribe", b"unsubscribe", b"ssubscribe", b"sunsubscribe")
)
