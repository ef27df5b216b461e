"""Connections that block, for the thread that renews leases: they need no event loop."""

import contextlib
import random
import socket
import threading
import time
from typing import Any

from andon.model.errors import StoreUnavailable
from andon.stores.redis.clock import RedisClock
from andon.stores.redis.errors import PASSING, refusal, unavailable, word_of
from andon.stores.redis.location import Address, Location
from andon.stores.redis.network import BACKOFF, PATIENCE_S, handshake
from andon.stores.redis.routes import (
    ASK_FOR_SLOTS,
    SlotMap,
    ask_for_primary,
    prefix,
    primary_in,
    slot_of,
)
from andon.stores.redis.scripts import Script
from andon.stores.redis.tls import context_for
from andon.stores.redis.wire import NOTHING, Words, pack, reader, refused

SOCKET_WITHIN_S = 3.0

_ELSEWHERE = frozenset({"MOVED", "ASK", "READONLY"})


class _Line:
    """One socket."""

    def __init__(self, location: Location, address: Address, *, plain: bool = False) -> None:
        self._reader = reader()
        context = context_for(location)
        raw = socket.create_connection(address, timeout=SOCKET_WITHIN_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = (
            raw if context is None else context.wrap_socket(raw, server_hostname=address[0])
        )
        try:
            for words in handshake(location, plain=plain):
                reason = refused(self.ask(words))
                if word_of(reason) in PASSING:
                    raise ConnectionError(reason)
                if reason:
                    raise refusal(location.shown, reason)
        except BaseException:
            self._socket.close()
            raise

    def ask(self, words: Words) -> Any:
        self._socket.sendall(pack(words))
        while (reply := self._reader.gets()) is NOTHING:
            data = self._socket.recv(65_536)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(data)
        return reply

    def close(self) -> None:
        self._socket.close()


class BlockingLine:
    """Scripts run from any one thread at a time. Trying again is bounded as everywhere."""

    def __init__(self, location: Location, clock: RedisClock) -> None:
        self._location = location
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: dict[Address, _Line] = {}
        self._slots = SlotMap()
        self._primary: Address | None = None
        self._closed = False
        self._rng = random.Random()

    def close(self) -> None:
        """End all connections; a call in flight fails."""
        self._closed = True
        for line in list(self._lines.values()):
            line.close()

    def run(self, script: Script, partition: int, packed: bytes) -> list[Any]:
        """Run a script in a partition; its reply, the server's time first."""
        keys = prefix(self._location.namespace, partition)
        with self._lock:
            reply = self._until_answered(partition, script, (b"1", keys, packed, self._clock.given))
        self._clock.tell(reply[0])
        return reply

    def _until_answered(self, partition: int, script: Script, words: Words) -> list[Any]:
        until = time.monotonic() + PATIENCE_S
        failures = 0
        command: Words = (b"EVALSHA", script.sha, *words)
        while True:
            if self._closed:
                raise StoreUnavailable(f"The Redis store at {self._location.shown} is not open.")
            try:
                reply = self._line_to(self._address(partition)).ask(command)
            except OSError as error:
                reason = str(error) or type(error).__name__
                self._clock.silence()
                self._forget()
            else:
                reason = refused(reply)
                if not reason:
                    return reply
                word = word_of(reason)
                if word == "NOSCRIPT":
                    command = (b"EVAL", script.text, *words)
                    continue
                if word in _ELSEWHERE:
                    self._forget()
                elif word not in PASSING:
                    raise refusal(self._location.shown, reason)
            if time.monotonic() > until:
                raise unavailable(self._location.shown, reason)
            failures += 1
            time.sleep(BACKOFF.pause(failures, self._rng))

    def _line_to(self, address: Address) -> _Line:
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = _Line(self._location, address)
            if self._closed:  # meanwhile, and whoever closed may not have seen this one
                line.close()
        return line

    def _forget(self) -> None:
        for line in self._lines.values():
            line.close()
        self._lines.clear()
        self._slots.clear()
        self._primary = None

    def _address(self, partition: int) -> Address:
        kind = self._location.kind
        if kind == "single":
            return self._location.addresses[0]
        if kind == "sentinel":
            if self._primary is None:
                self._primary = self._ask_sentinels()
            return self._primary
        if not self._slots:
            self._read_slots()
        slot = slot_of(self._location.namespace, partition)
        owner = self._slots.owner(slot)
        if owner is None:
            raise ConnectionError(f"no node of the cluster serves slot {slot}")
        return owner

    def _ask_sentinels(self) -> Address:
        reason = ""
        for address in self._location.addresses:
            try:
                with contextlib.closing(_Line(self._location, address, plain=True)) as line:
                    primary = primary_in(line.ask(ask_for_primary(self._location.service)))
            except OSError as error:
                reason = str(error)
                continue
            if primary is not None:
                return primary
            reason = f"the sentinels know no primary named {self._location.service!r}"
        raise ConnectionError(reason)

    def _read_slots(self) -> None:
        reason = "no node of the cluster answers"
        for address in self._location.addresses:
            try:
                reply = self._line_to(address).ask(ASK_FOR_SLOTS)
            except OSError as error:
                reason = str(error)
                dead = self._lines.pop(address, None)
                if dead is not None:
                    dead.close()
                continue
            reason = refused(reply)
            if not reason:
                self._slots.read(reply, address)
                return
        raise ConnectionError(reason)
