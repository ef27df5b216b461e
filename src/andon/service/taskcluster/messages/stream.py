"""Messages as server-sent events, resumable with `Last-Event-ID`.

A stream reads the feed at its own pace and keeps one page at most. The id of a message is the
position after the move that it is about; where one move has several messages only the last has it,
so a stream that was cut in between has them all again. A client that does not read is cut off once
`body_timeout` has passed, and comes back to where it was.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.model.errors import AndonError, AuthenticationFailed, StoreUnavailable
from andon.service.binding import Stream
from andon.service.hub import gap_message
from andon.service.protocol import cycle_of
from andon.service.streaming import HEADERS, RETRY
from andon.service.taskcluster.cors import SHARED
from andon.service.taskcluster.errors import ApiError
from andon.service.taskcluster.messages.patterns import Binding, wants
from andon.service.waiting import unless, until_gone

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

    from andon.service.taskcluster.asked import Asked
    from andon.service.taskcluster.messages.feed import Page

log = logging.getLogger("andon.service")

_AWAY_S = 1.0


class MessageStream(Stream):
    """The messages that fit some bindings, for as long as the client listens and may."""

    endless = True

    def __init__(
        self, asked: "Asked", bindings: Sequence[Binding], position: str, first: "Page | None"
    ) -> None:
        """`first` is what comes after the position, if that was read already."""
        self._asked = asked
        self._feed = asked.shared.feed
        self._bindings = tuple(bindings)
        self._exchanges = frozenset(binding.exchange for binding in bindings)
        self._position = position
        self._first = first
        self._sent_at = 0.0

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        service, cycle = self._asked.service, cycle_of(scope)
        shared = () if self._asked.shared.trust.is_open else SHARED
        service.message_streams += 1
        try:
            headers = [*HEADERS, *shared]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send(send, RETRY + self._place())
            reason = await unless(
                self._follow(send),
                service.stopping.wait(),
                until_gone(receive),
                self._until_refused(),
            )
            why = reason or ("stopping" if service.stopping.is_set() else "refused")
            await self._send(send, b'event: end\ndata: {"reason":"%s"}\n\n' % why.encode(), False)
        except TimeoutError:
            if cycle is not None:
                # The client has not read for so long that nothing more can be sent.
                cycle.transport.abort()
        finally:
            service.message_streams -= 1

    async def _follow(self, send: "Send") -> str:
        """Send the messages there are and those that come. Returns why there are no more."""
        ping_s = self._asked.service.settings.stream_ping
        with self._feed.changes.watched():
            while True:
                seen = self._feed.changes.seen
                try:
                    page, self._first = self._first or await self._read(), None
                except StoreUnavailable:
                    await asyncio.sleep(_AWAY_S)
                    continue
                except (AndonError, OSError) as error:
                    log.warning("A stream of messages ends: %s", error)
                    return "failed"
                chunk = self._chunk(page)
                self._position = page.position
                if chunk:
                    await self._send(send, chunk)
                if page.entries:
                    await self._ping(send, ping_s)
                    continue
                while not await self._feed.changes.after(seen, self._quiet_for(ping_s)):
                    await self._ping(send, ping_s)

    def _quiet_for(self, ping_s: float) -> float:
        """Seconds until the stream has been quiet for too long."""
        return max(0.01, self._sent_at + ping_s - time.monotonic())

    async def _ping(self, send: "Send", ping_s: float) -> None:
        """Send a ping with the stream's position, if it was quiet for long."""
        if time.monotonic() - self._sent_at >= ping_s:
            await self._send(send, b": \n" + self._place())

    async def _read(self) -> "Page":
        return await self._feed.read(self._position, self._exchanges)

    def _chunk(self, page: "Page") -> bytes:
        parts = [gap_message()] if page.gap else []
        for entry in page.entries:
            wanted = [one for one in entry.messages if wants(self._bindings, one)]
            for message in wanted:
                head = b"id: %s\n" % entry.position.encode() if message is wanted[-1] else b""
                parts.append(b"%sevent: message\ndata: %s\n\n" % (head, message.envelope))
        return b"".join(parts)

    def _place(self) -> bytes:
        """The stream's position, as a message that clients only remember."""
        return b"id: %s\n\n" % self._position.encode()

    async def _until_refused(self) -> None:
        """Until the request would be refused now: what signed it is too old, or it was revoked."""
        while True:
            await asyncio.sleep(self._asked.service.settings.stream_ping)
            try:
                exchanges = sorted(one.full_name for one in self._exchanges)
                await self._asked.still_allowed(exchanges=exchanges)
            except (AuthenticationFailed, ApiError):
                return
            except StoreUnavailable:
                continue  # not known now; it is checked again
            except Exception:
                log.exception("it is not known whether a token is good still")

    async def _send(self, send: "Send", part: bytes, more: bool = True) -> None:
        async with asyncio.timeout(self._asked.service.settings.body_timeout):
            await send({"type": "http.response.body", "body": part, "more_body": more})
        self._sent_at = time.monotonic()
