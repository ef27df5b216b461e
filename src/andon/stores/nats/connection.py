"""One connection to the servers, made again when it is lost, with its subscriptions.

Each try waits about twice as long as the one before, up to `LONGEST_WAIT_S`, with jitter, so that a
fleet does not come back as one. While the connection is lost, sending fails at once: the sender
decides how long to go on trying, and nothing old is sent when it is back.
"""

import asyncio
import contextlib
import logging
import random
import time
from typing import TYPE_CHECKING

import nats.errors

from andon.lifecycle.backoff import ExponentialBackoff
from andon.model.errors import StoreIncompatible, StoreUnavailable
from andon.stores.nats.location import Location
from andon.stores.nats.nats_client import Handler, NatsClient

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("andon.nats")

OPEN_PATIENCE_S = 5.0
"""How long opening goes on trying if no server answers."""

HANDSHAKE_S = 5.0
BACKOFF = ExponentialBackoff(0.02, 2.0)
"""The waits between two tries to reconnect."""


class Subscription:
    """A subscription that outlives the connection: it is made again on each new one."""

    def __init__(self, connection: "Connection", subject: str, handler: Handler) -> None:
        self._connection = connection
        self._subject = subject
        self._handler = handler
        self._live: tuple[NatsClient, int] | None = None

    def begin(self, client: NatsClient) -> None:
        """Follow on this connection from now on."""
        self._live = client, client.receive(self._subject, self._handler)

    def unsubscribe(self) -> None:
        """Follow no longer."""
        self._connection.subscriptions.discard(self)
        live, self._live = self._live, None
        if live is not None:
            client, number = live
            with contextlib.suppress(nats.errors.Error):
                client.end_receiving(number)


class Connection:
    """One connection. `lost` and `back` are called when it goes and when it is there again."""

    def __init__(self, location: Location, *, name: str) -> None:
        self._location = location
        self._name = name
        self._nc: NatsClient | None = None
        self._servers = list(location.servers)
        self._reviving: asyncio.Task[None] | None = None
        self._closed = False
        self._rng = random.Random()
        self._error: BaseException | None = None
        self.subscriptions: set[Subscription] = set()
        self.lost: Callable[[], None] = lambda: None
        self.back: Callable[[float], None] = lambda _away_s: None

    @property
    def client(self) -> NatsClient:
        """The connection, perhaps lost; raises `StoreUnavailable` when the store is closed."""
        if self._nc is None:
            raise StoreUnavailable(f"The store at {self._location.shown} is closed.")
        return self._nc

    async def open(self) -> None:
        """Connect; try for as long as the patience. Wrong credentials raise at once."""
        deadline = time.monotonic() + OPEN_PATIENCE_S
        failures = 0
        shown = self._location.shown
        while True:
            left = max(deadline - time.monotonic(), 0.1)
            nc = await self._attempt(min(left, HANDSHAKE_S))
            if nc is not None:
                self._nc = nc
                return
            if self._is_refused():
                raise StoreIncompatible(
                    f"{shown} refuses the credentials; put the right user and password "
                    "(or token) into the URL: nats://user:password@host."
                )
            if time.monotonic() > deadline:
                raise StoreUnavailable(
                    f"No NATS server answers at {shown}; is it running, and is the address "
                    f"right? ({self._error or 'no answer in time'})"
                )
            failures += 1
            await asyncio.sleep(BACKOFF.pause(failures, self._rng))

    def subscribe(self, subject: str, handler: Handler) -> Subscription:
        """Hand over the messages of a subject, on this connection and those that follow it."""
        subscription = Subscription(self, subject, handler)
        subscription.begin(self.client)
        self.subscriptions.add(subscription)
        return subscription

    async def flush(self) -> None:
        """Wait until the server has taken what was sent; for two seconds at most."""
        await self.client.settle()

    def revive(self) -> None:
        """Reconnect, if the connection is lost and no other call does it already."""
        if self._closed or self._nc is None or not (self._nc.is_closed or self._nc.is_deaf):
            return
        if self._reviving is None or self._reviving.done():
            self._reviving = asyncio.get_running_loop().create_task(self._revive())

    async def close(self) -> None:
        """Send what is waiting to be sent, then close; bounded. Idempotent."""
        self._closed = True
        reviving, self._reviving = self._reviving, None
        if reviving is not None:
            reviving.cancel()
            await asyncio.gather(reviving, return_exceptions=True)
        nc, self._nc = self._nc, None
        if nc is not None:
            if nc.is_connected:
                with contextlib.suppress(Exception):
                    await nc.settle()
            await nc.disconnect()

    async def _attempt(self, within_s: float) -> NatsClient | None:
        """A connection to the next of the servers; None if it refuses the connection."""
        location = self._location
        server = self._servers.pop(0)
        self._servers.append(server)
        nc = NatsClient()

        async def ended() -> None:
            if nc is self._nc:
                self.revive()

        try:
            async with asyncio.timeout(within_s):
                await nc.connect(
                    [server],
                    name=self._name,
                    no_echo=True,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,  # pyright: ignore[reportArgumentType]
                    connect_timeout=HANDSHAKE_S,  # pyright: ignore[reportArgumentType]
                    ping_interval=20,
                    skip_subject_validation=True,  # the subject is made of names that were checked
                    error_cb=self._note,
                    closed_cb=ended,
                    user=location.user,
                    password=location.password,
                    token=location.token,
                )
            return nc
        except (nats.errors.Error, OSError, TimeoutError, EOFError) as error:
            if not isinstance(error, nats.errors.NoServersError):
                self._error = error  # otherwise `_note` got each try's error
            await nc.disconnect()
            return None
        except BaseException:
            await nc.disconnect()
            raise

    async def _revive(self) -> None:
        since = time.monotonic()
        self.lost()
        old, failures = self._nc, 0
        if old is not None:
            self._learn(old)
            await old.disconnect()
        while True:
            failures += 1
            await asyncio.sleep(BACKOFF.pause(failures, self._rng))
            nc = await self._attempt(HANDSHAKE_S)
            if nc is None:
                continue
            try:
                for subscription in self.subscriptions:
                    subscription.begin(nc)
            except nats.errors.Error:
                await nc.disconnect()
                continue
            self._nc = nc
            if not nc.is_closed:
                self.back(time.monotonic() - since)
                return

    def _learn(self, nc: NatsClient) -> None:
        """The servers of a cluster announce each other."""
        scheme = self._location.servers[0].partition("://")[0]
        for uri in nc.discovered_servers:
            server = f"{scheme}://{uri.netloc}"
            if server not in self._servers:
                self._servers.append(server)

    def _is_refused(self) -> bool:
        text = str(self._error or "").lower()
        return "authorization" in text or "authentication" in text

    async def _note(self, error: Exception) -> None:
        self._error = error
        log.debug("nats: %s", error)
