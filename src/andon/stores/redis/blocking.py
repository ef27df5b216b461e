"""A connection that blocks, for the thread that renews leases: it needs no event loop."""

import socket
import threading
import time
from typing import Any

import hiredis

from andon.model.errors import StoreUnavailable
from andon.stores.redis.clock import RemoteClock
from andon.stores.redis.errors import PASSING, refusal, unavailable, word_of
from andon.stores.redis.location import Address, Location
from andon.stores.redis.network import PATIENCE_S, handshake, slot_of
from andon.stores.redis.scripts import Script
from andon.stores.redis.tls import context_for

SOCKET_WITHIN_S = 3.0
_NOTHING = object()


class _Line:
    """One socket."""

    def __init__(self, location: Location, address: Address, *, plain: bool = False) -> None:
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        raw = socket.create_connection(address, timeout=SOCKET_WITHIN_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = context_for(location)
        self._socket = (
            raw if context is None else context.wrap_socket(raw, server_hostname=address[0])
        )
        try:
            for words in handshake(location, plain=plain):
                reply = self.ask(words)
                if isinstance(reply, hiredis.ReplyError):
                    if word_of(str(reply)) in PASSING:
                        raise ConnectionError(str(reply))
                    raise refusal(location.shown, str(reply))
        except BaseException:
            self._socket.close()
            raise

    def ask(self, words: tuple[Any, ...]) -> Any:
        self._socket.sendall(hiredis.pack_command(words))
        while (reply := self._reader.gets()) is _NOTHING:
            data = self._socket.recv(65_536)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(data)
        return reply

    def close(self) -> None:
        self._socket.close()


class BlockingLine:
    """Scripts run from any one thread at a time. Trying again is bounded as everywhere."""

    def __init__(self, location: Location, clock: RemoteClock) -> None:
        self._location = location
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: dict[Address, _Line] = {}
        self._slots: list[tuple[int, int, Address]] = []
        self._primary: Address | None = None
        self._closed = False

    def close(self) -> None:
        """End all connections; a call in flight fails."""
        self._closed = True
        for line in list(self._lines.values()):
            line.close()

    def run(self, script: Script, partition: int, packed: bytes, now: bytes) -> list[Any]:
        """Run a script in a partition; its reply, the server's time first."""
        key = f"{{{self._location.namespace}:{partition}}}:".encode()
        with self._lock:
            reply = self._until_answered(partition, script, (b"1", key, packed, now))
        self._clock.tell(reply[0])
        return reply

    def _until_answered(self, partition: int, script: Script, words: tuple[Any, ...]) -> list[Any]:
        until = time.monotonic() + PATIENCE_S
        delay = 0.02
        command: tuple[Any, ...] = (b"EVALSHA", script.sha, *words)
        while True:
            try:
                reply = self._line_to(self._address(partition)).ask(command)
            except OSError as error:
                reason = str(error) or type(error).__name__
                self._forget()
            else:
                if not isinstance(reply, hiredis.ReplyError):
                    return reply
                reason = str(reply)
                word = word_of(reason)
                if word == "NOSCRIPT":
                    command = (b"EVAL", script.text, *words)
                    continue
                if word not in PASSING and word not in ("MOVED", "ASK"):
                    raise refusal(self._location.shown, reason)
                self._slots.clear()
                if word == "READONLY":
                    self._forget()
            if self._closed:
                raise StoreUnavailable(f"The Redis store at {self._location.shown} is not open.")
            if time.monotonic() > until:
                raise unavailable(self._location.shown, reason)
            time.sleep(delay)
            delay = min(delay * 2, 1.0)

    def _line_to(self, address: Address) -> _Line:
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = _Line(self._location, address)
        return line

    def _forget(self) -> None:
        for line in self._lines.values():
            line.close()
        self._lines.clear()
        self._slots.clear()
        self._primary = None

    def _address(self, partition: int) -> Address:
        if self._location.kind == "single":
            return self._location.addresses[0]
        if self._location.kind == "sentinel":
            if self._primary is None:
                self._primary = self._ask_sentinels()
            return self._primary
        if not self._slots:
            self._read_slots()
        slot = slot_of(f"{self._location.namespace}:{partition}")
        for first, last, address in self._slots:
            if first <= slot <= last:
                return address
        self._slots.clear()
        raise ConnectionError(f"no node of the cluster serves slot {slot}")

    def _ask_sentinels(self) -> Address:
        reason = ""
        for address in self._location.addresses:
            try:
                line = _Line(self._location, address, plain=True)
                try:
                    reply = line.ask(
                        (b"SENTINEL", b"get-master-addr-by-name", self._location.service)
                    )
                finally:
                    line.close()
            except OSError as error:
                reason = str(error)
                continue
            if isinstance(reply, list):
                return reply[0].decode(), int(reply[1])
            reason = f"the sentinels know no primary named {self._location.service!r}"
        raise ConnectionError(reason)

    def _read_slots(self) -> None:
        reason = ""
        for address in [*self._lines, *self._location.addresses]:
            try:
                reply = self._line_to(address).ask((b"CLUSTER", b"SLOTS"))
            except OSError as error:
                reason = str(error)
                dead = self._lines.pop(address, None)
                if dead is not None:
                    dead.close()
                continue
            if isinstance(reply, list):
                self._slots = [
                    (row[0], row[1], (row[2][0].decode() or address[0], row[2][1]))
                    for row in reply
                ]
                return
            reason = str(reply)
        raise ConnectionError(reason)
