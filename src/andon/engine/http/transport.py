"""Sends requests to a service over kept connections, and repeats them if that is safe.

It is safe for reads, and for writes whose repeat the service recognises (a submit by its ids, a
claim by its token, a report by its run). Others are repeated only when the connection could not be
made at all, so that an act is never done twice. Repeats back off with jitter for `PATIENCE_S`; then
the caller gets `StoreUnavailable`, as from a store that is away.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
from yarl import URL

from andon.engine.actor import ACTOR
from andon.engine.http.place import Place
from andon.engine.http.replies import away, check
from andon.engine.http.wire import ACTOR_HEADER, KEEPALIVE_S, ROOT, TIME_HEADER
from andon.lifecycle.backoff import ExponentialBackoff
from andon.model.errors import StoreUnavailable

T = TypeVar("T")

PATIENCE_S = 10.0
REQUEST_S = 30.0
"""How long one request may take; a claim or a submit of many may wait for the store."""

_BACKOFF = ExponentialBackoff(0.05, 2.0)
_MOST_CONNECTIONS = 32


class ServiceClock:
    """The service's clock: the last time it sent, and the time since; it never goes back."""

    def __init__(self) -> None:
        self._ahead: int | None = None
        self._last = 0

    def told(self, text: str | None) -> None:
        """Take the time of a reply. A reply that was slow carries an earlier time, so the latest
        time wins; the true clock is never overtaken."""
        if text is not None and text.isascii() and text.isdigit():
            ahead = int(text) - time.monotonic_ns() // 1_000_000
            if self._ahead is None or ahead > self._ahead:
                self._ahead = ahead

    def now(self) -> int:
        """Milliseconds since 1970 UTC."""
        assert self._ahead is not None, "the engine is open"
        self._last = max(self._last, time.monotonic_ns() // 1_000_000 + self._ahead)
        return self._last


class Transport:
    """One session with a service, on one event loop."""

    def __init__(self, place: Place, rng: random.Random, *, patience: float = PATIENCE_S) -> None:
        self.place = place
        self.clock = ServiceClock()
        self._rng = rng
        self._patience = patience
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Begin; connections are made when they are needed."""
        ssl = self.place.tls if self.place.secure else True
        self._session = aiohttp.ClientSession(
            headers=self.place.headers,
            connector=aiohttp.TCPConnector(limit=_MOST_CONNECTIONS, ssl=ssl, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=REQUEST_S, sock_connect=5),
            auto_decompress=True,
        )

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(self, method: str, body: bytes = b"{}", *, safe: bool = True) -> bytes:
        """One request and its reply. Raises what a local engine would raise."""
        return await self.repeat(lambda: self._once(method, body), safe=safe)

    async def repeat(self, send: Callable[[], Awaitable[T]], *, safe: bool = True) -> T:
        """What `send` gives, repeated while that is safe and the service is away."""
        give_up = time.monotonic() + self._patience
        failures = 0
        while True:
            try:
                return await send()
            except aiohttp.ClientConnectorError as error:
                problem = away(self.place, error)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                problem = away(self.place, error)
                if not safe and isinstance(problem, StoreUnavailable):
                    raise StoreUnavailable(
                        f"The connection to {self.place.shown} broke before its reply, so it is "
                        "not known whether this was done. Look at the task before you repeat it."
                    ) from error
            except StoreUnavailable as error:
                problem = error
                if not safe:
                    raise
            failures += 1
            bound = _BACKOFF.bound(failures)
            if time.monotonic() + bound > give_up or not isinstance(problem, StoreUnavailable):
                raise problem
            await asyncio.sleep(_BACKOFF.pause(failures, self._rng))

    async def _once(self, method: str, body: bytes) -> bytes:
        session = self._session
        if session is None:
            raise StoreUnavailable(f"The connection to {self.place.shown} is closed.")
        url = f"{self.place.url}{ROOT}{method}"
        async with session.post(url, data=body, headers=_who_acts(None)) as reply:
            answer = await reply.read()
            self.clock.told(reply.headers.get(TIME_HEADER))
            return check(self.place, reply.status, answer)

    @asynccontextmanager
    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        data: Any = None,
        silence: float = REQUEST_S,
        decodes: bool = True,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """One request to any path of the service, escaped already, and its good reply, yet to be
        read. `silence`: seconds that the reply may pause; without `decodes` its body is taken as it
        comes, whatever it is encoded with. Raises the error in any other reply."""
        session = self._session
        if session is None:
            raise StoreUnavailable(f"The connection to {self.place.shown} is closed.")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=silence)
        url = URL(self.place.url + path, encoded=True)
        async with session.request(
            method,
            url,
            headers=_who_acts(headers),
            data=data,
            timeout=timeout,
            auto_decompress=decodes,
        ) as reply:
            if reply.status >= HTTPStatus.BAD_REQUEST:
                check(self.place, reply.status, await reply.read())
            yield reply

    @asynccontextmanager
    async def stream(self, method: str, body: bytes) -> AsyncGenerator[AsyncIterator[bytes]]:
        """A reply that goes on, line by line. Silence for three keepalives is an error."""
        session = self._session
        if session is None:
            raise StoreUnavailable(f"The connection to {self.place.shown} is closed.")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=3 * KEEPALIVE_S)
        url = f"{self.place.url}{ROOT}{method}"
        try:
            async with session.post(url, data=body, timeout=timeout) as reply:
                self.clock.told(reply.headers.get(TIME_HEADER))
                if reply.status != 200:
                    check(self.place, reply.status, await reply.read())
                yield _lines(reply.content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise away(self.place, error) from error


def _who_acts(headers: dict[str, str] | None) -> dict[str, str] | None:
    """The headers, with the name of the actor in this context. A service that asks for tokens names
    the caller by the token instead."""
    actor = ACTOR.get()
    return {**(headers or {}), ACTOR_HEADER: quote(actor)} if actor else headers


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length; the reader's own `readline` has a limit that a record may pass."""
    parts: list[bytes] = []
    async for chunk in content.iter_any():
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            parts.append(line)
            yield b"".join(parts)
            parts.clear()
        parts.append(rest)
