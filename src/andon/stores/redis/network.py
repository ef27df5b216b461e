"""Reaches the servers: finds the one that holds a partition, connects to it, and tries again.

Every script is idempotent (by task id, write id or claim token), so one whose reply was lost is
simply sent again, for `PATIENCE_S` at most. A server that has become a replica, a slot that has
moved and a primary that sentinels have replaced are looked up anew.
"""

import asyncio
import contextlib
import random
import time
from typing import Any

import hiredis

from andon.lifecycle.backoff import ExponentialBackoff
from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.stores.redis.clock import RedisClock
from andon.stores.redis.connection import CONNECT_WITHIN_S, Connection, Lost
from andon.stores.redis.errors import PASSING, refusal, unavailable, word_of
from andon.stores.redis.location import Address, Location
from andon.stores.redis.routes import (
    ASK_FOR_SLOTS,
    SlotMap,
    ask_for_primary,
    primary_in,
    redirected_to,
    slot_of,
)
from andon.stores.redis.scripts import Script
from andon.stores.redis.tls import context_for, untrusted
from andon.stores.redis.wire import Words, pack, refused

PATIENCE_S = 3.0
"""How long an operation is tried again before `StoreUnavailable`. Engine and worker also retry, and
a worker that is told to stop waits for several operations."""

BACKOFF = ExponentialBackoff(0.02, 1.0)
"""The waits between tries."""

_NOT_HERE = frozenset({"ASK", "MOVED", "READONLY"})
"""Refusals that mean that another server must be asked."""


class Network:
    """Connections to all servers of one store, made when they are needed."""

    def __init__(self, location: Location, clock: RedisClock) -> None:
        self.location = location
        self._clock = clock
        self._connections: dict[Address, Connection] = {}
        self._connecting: dict[Address, asyncio.Lock] = {}
        self._straight: Connection | None = None  #: for all requests that need no lookup
        self._primary: Address | None = None
        self._slots = SlotMap()
        self._closed = False
        self.leaving = False  #: the store is being closed: what fails now is not tried again
        self._rng = random.Random()

    async def close(self) -> None:
        """End all connections; callers that still wait get `StoreUnavailable`."""
        self._closed = True
        connections = list(self._connections.values())
        self._connections.clear()
        self._straight = None
        for connection in connections:
            connection.close()
        await asyncio.gather(*(connection.closed() for connection in connections))

    async def call(self, partition: int, words: Words, script: Script | None = None) -> Any:
        """Send a command to the server that holds a partition, until it is answered.

        Raises the error that `errors.refusal` makes of an answer that trying again cannot change.
        """
        reply = await self.ask(partition, words, script)
        reason = refused(reply)
        if reason:
            raise refusal(self.location.shown, reason)
        return reply

    async def ask(
        self,
        partition: int,
        words: Words,
        script: Script | None = None,
        *,
        last: bool = False,
        spin: bool = False,
    ) -> Any:
        """The same, with a refusal as a value; `last` and `spin` as in `Connection`."""
        until = time.monotonic() + PATIENCE_S
        failures = 0
        request = pack(words)
        while True:
            straight = self._straight
            try:
                if straight is not None and straight.alive:
                    reply = await straight.send_alive(request, last=last, spin=spin)
                else:
                    straight = None
                    reply = await self._send(partition, request)
            except (Lost, OSError, TimeoutError) as error:
                if self._closed:
                    raise StoreUnavailable(self._not_open) from None
                reason = _said(error)
                self._clock.silence()
            else:
                if not isinstance(reply, hiredis.ReplyError):
                    return reply
                reason = refused(reply)
                word = word_of(reason)
                if straight is not None and word in _NOT_HERE:
                    self._straight = None  # so take the long way, which handles it
                    continue
                if word == "NOSCRIPT" and script is not None:
                    request = pack((b"EVAL", script.text, *words[2:]))
                    continue
                if word not in PASSING:
                    return reply
            if self.leaving or time.monotonic() > until:
                raise unavailable(self.location.shown, reason)
            failures += 1
            await asyncio.sleep(BACKOFF.pause(failures, self._rng))

    @property
    def _not_open(self) -> str:
        return f"The Redis store at {self.location.shown} is not open."

    async def _send(self, partition: int, request: bytes) -> Any:
        """The reply of the server that holds the partition now, whichever that is."""
        address = await self._address(partition)
        try:
            reply = await self._exchange(address, request)
        except (Lost, OSError, TimeoutError):
            self._forget(address)
            raise
        reason = refused(reply)
        word = word_of(reason)
        if word == "ASK":
            return await self._exchange(redirected_to(reason, address), request, asking=True)
        if word == "MOVED":
            self._slots.clear()
            return await self._exchange(redirected_to(reason, address), request)
        if word == "READONLY":
            self._forget(address)
        return reply

    async def _exchange(self, address: Address, request: bytes, *, asking: bool = False) -> Any:
        connection = self._connections.get(address)
        if connection is None or not connection.alive:
            connection = await self.connection_to(address)
        if asking:
            _unawaited(connection.request(b"ASKING"))
        reply = connection.send(request)
        wait = self.location.wait
        if not wait:
            return await reply
        confirmed = connection.request(b"WAIT", wait, self.location.wait_ms)
        try:
            answer = await reply
        except BaseException:
            _unawaited(confirmed)
            raise
        replicas = await confirmed
        if refused(answer) or refused(replicas) or replicas >= wait:
            return answer
        return hiredis.ReplyError(
            f"NOREPLICAS {replicas} of {wait} replicas confirmed the write "
            f"within {self.location.wait_ms} ms"
        )

    async def connection_to(self, address: Address) -> Connection:
        """The shared connection to a server, made if there is none."""
        lock = self._connecting.setdefault(address, asyncio.Lock())
        async with lock:
            connection = self._connections.get(address)
            if connection is None or not connection.alive:
                connection = await connect(self.location, address)
                if self._closed:
                    connection.abort()
                    raise Lost(self._not_open)
                self._connections[address] = connection
                self._take_for_straight(address, connection)
        return connection

    def _take_for_straight(self, address: Address, connection: Connection) -> None:
        """Send requests there from now on without a lookup of the server: that is four coroutines
        less for each request. Not if the server may change, or if replicas must confirm writes."""
        location = self.location
        if location.kind == "single" and not location.wait and address == location.addresses[0]:
            self._straight = connection

    def _forget(self, address: Address) -> None:
        """Look the primary up anew, and connect anew."""
        self._primary = None
        self._straight = None
        self._slots.clear()
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.abort()

    # --- who holds what ---

    async def any_address(self) -> Address:
        """A server that gets the hints of all."""
        return await self._address(0)

    async def primaries(self, partitions: int) -> dict[Address, int]:
        """Every server that holds a partition, with one that it holds."""
        return {await self._address(p): p for p in range(partitions)}

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
        slot = slot_of(self.location.namespace, partition)
        owner = self._slots.owner(slot)
        if owner is None:
            self._slots.clear()
            raise Lost(f"no node of the cluster serves slot {slot}")
        return owner

    async def _ask_sentinels(self) -> Address:
        reason = ""
        for address in self.location.addresses:
            try:
                sentinel = await connect(self.location, address, plain=True)
                with contextlib.closing(sentinel):
                    reply = await sentinel.request(*ask_for_primary(self.location.service))
            except (Lost, OSError, TimeoutError) as error:
                reason = _said(error)
                continue
            primary = primary_in(reply)
            if primary is not None:
                return primary
            reason = f"the sentinels know no primary named {self.location.service!r}"
        raise Lost(reason)

    async def _read_slots(self) -> None:
        reason = "no node of the cluster answers"
        for address in [*self._connections, *self.location.addresses]:
            try:
                connection = await self.connection_to(address)
                reply = await connection.request(*ASK_FOR_SLOTS)
            except (Lost, OSError, TimeoutError) as error:
                reason = _said(error)
                continue
            reason = refused(reply)
            if not reason:
                self._slots.read(reply, address)
                return
            if "cluster support disabled" in reason:
                raise ConfigurationError(
                    f"The server at {address[0]}:{address[1]} is no cluster; use redis://."
                )
        raise Lost(reason)


async def connect(
    location: Location, address: Address, *, plain: bool = False, **options: Any
) -> Connection:
    """A new connection, past its handshake. `plain`: to a sentinel, which has no databases."""
    loop = asyncio.get_running_loop()
    host, port = address
    context = context_for(location)
    try:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            _, connection = await loop.create_connection(
                lambda: Connection(**options), host, port, ssl=context
            )
            try:
                await _shake_hands(connection, location, plain=plain)
            except BaseException:
                connection.abort()
                raise
    except OSError as error:
        raise untrusted(location, error) or error from None
    return connection


async def _shake_hands(connection: Connection, location: Location, *, plain: bool) -> None:
    for words in handshake(location, plain=plain):
        reason = refused(await connection.request(*words))
        if word_of(reason) in PASSING:
            raise Lost(reason)
        if reason:
            raise refusal(location.shown, reason)


def handshake(location: Location, *, plain: bool) -> list[Words]:
    """The commands that begin a connection."""
    words: list[Words] = []
    if location.password and not plain:
        user = (location.username,) if location.username else ()
        words.append((b"AUTH", *user, location.password))
    if location.database and not plain:
        words.append((b"SELECT", location.database))
    words.append((b"PING",))
    return words


def _unawaited(reply: asyncio.Future[Any]) -> None:
    """A reply for which no caller waits; the requests that follow notice a lost connection."""
    reply.add_done_callback(lambda done: done.cancelled() or done.exception())


def _said(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_WITHIN_S:g} s"
    return str(error) or type(error).__name__
