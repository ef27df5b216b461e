"""The way to the servers: which one holds a partition, connections to it, and trying again.

Every script is idempotent (by task id, write id or claim token), so one whose reply was lost is
simply sent again, for `PATIENCE_S` at most. A server that has become a replica, a slot that has
moved and a primary that sentinels have replaced are looked up anew.
"""

import asyncio
import binascii
import random
import time
from typing import Any

import hiredis

from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.stores.redis.connection import CONNECT_WITHIN_S, Connection, Lost
from andon.stores.redis.errors import PASSING, refusal, unavailable, word_of
from andon.stores.redis.location import Address, Location
from andon.stores.redis.scripts import Script
from andon.stores.redis.tls import context_for

PATIENCE_S = 10.0
"""How long an operation is tried again before `StoreUnavailable`."""

SLOTS = 16_384


class Network:
    """Connections to all servers of one store, made when they are needed."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._connections: dict[Address, Connection] = {}
        self._connecting: dict[Address, asyncio.Lock] = {}
        self._primary: Address | None = None
        self._slots: list[tuple[int, int, Address]] = []
        self._closed = False
        self._rng = random.Random()

    def close(self) -> None:
        """End all connections."""
        self._closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def prefix(self, partition: int) -> str:
        """What the keys of a partition begin with."""
        return f"{{{self.location.namespace}:{partition}}}:"

    async def run(self, script: Script, partition: int, packed: bytes, now: bytes) -> list[Any]:
        """Run a script in a partition; its reply, the server's time first."""
        words = (b"1", self.prefix(partition).encode(), packed, now)
        reply = await self.call(partition, (b"EVALSHA", script.sha, *words), script)
        return reply

    async def call(
        self,
        partition: int,
        words: tuple[Any, ...],
        script: Script | None = None,
        *,
        tolerant: bool = False,
    ) -> Any:
        """Send a command to the server that holds a partition, until it is answered. `tolerant`:
        a refusal is a value too."""
        started = time.monotonic()
        delay = 0.02
        asked: Address | None = None
        request = hiredis.pack_command(words)
        while True:
            address: Address | None = None
            try:
                address = asked or await self._address(partition)
                reply = await self._exchange(address, request, asking=asked is not None)
            except (Lost, OSError, TimeoutError) as error:
                if self._closed:
                    raise StoreUnavailable(self._not_open) from None
                reason = _said(error)
                self._forget(address)
            else:
                if not isinstance(reply, hiredis.ReplyError):
                    return reply
                reason = str(reply)
                word = word_of(reason)
                if word == "NOSCRIPT" and script is not None:
                    request = hiredis.pack_command((b"EVAL", script.text, *words[2:]))
                    continue
                if word == "MOVED":
                    self._slots.clear()
                elif word == "ASK":
                    asked = _target(reason, address)
                    continue
                elif word not in PASSING:
                    if tolerant:
                        return reply
                    raise refusal(self.location.shown, reason)
                elif word == "READONLY":
                    self._forget(address)
            asked = None
            if time.monotonic() - started > PATIENCE_S:
                raise unavailable(self.location.shown, reason)
            await asyncio.sleep(delay * (0.5 + self._rng.random()))
            delay = min(delay * 2, 1.0)

    @property
    def _not_open(self) -> str:
        return f"The Redis store at {self.location.shown} is not open."

    async def _exchange(self, address: Address, request: bytes, *, asking: bool) -> Any:
        connection = self._connections.get(address)
        if connection is None or not connection.alive:
            connection = await self.connection_to(address)
        if asking:
            connection.request(b"ASKING")
        reply = connection.send(request)
        wait = self.location.wait
        if not wait:
            return await reply
        confirmed = connection.request(b"WAIT", wait, self.location.wait_ms)
        answer = await reply
        replicas = await confirmed
        if isinstance(answer, hiredis.ReplyError) or isinstance(replicas, hiredis.ReplyError):
            return answer
        if replicas < wait:
            return hiredis.ReplyError(
                f"NOREPLICAS only {replicas} of {wait} replicas confirmed the write "
                f"within {self.location.wait_ms} ms"
            )
        return answer

    async def connection_to(self, address: Address) -> Connection:
        """The shared connection to a server, made if there is none."""
        lock = self._connecting.setdefault(address, asyncio.Lock())
        async with lock:
            connection = self._connections.get(address)
            if connection is None or not connection.alive:
                connection = await connect(self.location, address)
                if self._closed:
                    connection.close()
                    raise Lost(self._not_open)
                self._connections[address] = connection
        return connection

    def _forget(self, address: Address | None) -> None:
        """Look the primary up anew, and connect anew."""
        self._primary = None
        self._slots.clear()
        connection = self._connections.pop(address, None) if address is not None else None
        if connection is not None:
            connection.close()

    # --- who holds what ---

    async def _address(self, partition: int) -> Address:
        kind = self.location.kind
        if kind == "single":
            return self.location.addresses[0]
        if kind == "sentinel":
            if self._primary is None:
                self._primary = await self._ask_sentinels()
            return self._primary
        if not self._slots:
            await self._read_slots()
        slot = slot_of(f"{self.location.namespace}:{partition}")
        for first, last, address in self._slots:
            if first <= slot <= last:
                return address
        self._slots.clear()
        raise Lost(f"no node of the cluster serves slot {slot}")

    async def any_address(self) -> Address:
        """A server that hears the hints of all."""
        return await self._address(0)

    async def primaries(self, partitions: int) -> dict[Address, int]:
        """Every server that holds a partition, with one that it holds."""
        return {await self._address(p): p for p in range(partitions)}

    async def _ask_sentinels(self) -> Address:
        reason = ""
        for address in self.location.addresses:
            try:
                sentinel = await connect(self.location, address, plain=True)
            except (Lost, OSError, TimeoutError) as error:
                reason = _said(error)
                continue
            try:
                reply = await sentinel.request(
                    b"SENTINEL", b"get-master-addr-by-name", self.location.service
                )
            except Lost as error:
                reason = _said(error)
                continue
            finally:
                sentinel.close()
            if isinstance(reply, list):
                return reply[0].decode(), int(reply[1])
            reason = f"the sentinels know no primary named {self.location.service!r}"
        raise Lost(reason)

    async def _read_slots(self) -> None:
        known = [*self._connections, *self.location.addresses]
        reason = ""
        for address in known:
            try:
                connection = await self.connection_to(address)
                reply = await connection.request(b"CLUSTER", b"SLOTS")
            except (Lost, OSError, TimeoutError) as error:
                reason = _said(error)
                continue
            if isinstance(reply, hiredis.ReplyError):
                if "cluster support disabled" in str(reply):
                    raise ConfigurationError(
                        f"The server at {address[0]}:{address[1]} is no cluster; use redis://."
                    )
                reason = str(reply)
                continue
            self._slots = [
                (row[0], row[1], (row[2][0].decode() or address[0], row[2][1])) for row in reply
            ]
            return
        raise Lost(reason or "no node of the cluster answers")


async def connect(
    location: Location, address: Address, *, plain: bool = False, **options: Any
) -> Connection:
    """A new connection, past its handshake. `plain`: to a sentinel, which has no databases."""
    loop = asyncio.get_running_loop()
    host, port = address
    async with asyncio.timeout(CONNECT_WITHIN_S):
        _, connection = await loop.create_connection(
            lambda: Connection(**options), host, port, ssl=context_for(location)
        )
        try:
            for words in handshake(location, plain=plain):
                reply = await connection.request(*words)
                if isinstance(reply, hiredis.ReplyError):
                    if word_of(str(reply)) in PASSING:
                        raise Lost(str(reply))
                    raise refusal(location.shown, str(reply))
        except BaseException:
            connection.close()
            raise
    return connection


def handshake(location: Location, *, plain: bool) -> list[tuple[Any, ...]]:
    """The commands that begin a connection."""
    words: list[tuple[Any, ...]] = []
    if location.password and not plain:
        user = (location.username,) if location.username else ()
        words.append((b"AUTH", *user, location.password))
    if location.database and not plain:
        words.append((b"SELECT", location.database))
    words.append((b"PING",))
    return words


def slot_of(tag: str) -> int:
    """The cluster slot of keys with this hash tag."""
    return binascii.crc_hqx(tag.encode(), 0) % SLOTS


def _target(reason: str, asked: Address | None) -> Address:
    """Where a redirection points to; without a host, to the server that was asked."""
    host, _, port = reason.split()[2].rpartition(":")
    return host or (asked[0] if asked else "localhost"), int(port)


def _said(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_WITHIN_S:g} s"
    return str(error) or type(error).__name__
