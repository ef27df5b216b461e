"""Lists as lines of JSON (`application/x-ndjson`): one record a line, from the first to the last.

A list is read and sent a page at a time, so that neither end holds more of it. The client has the
whole list only if the answer ends in good order; an error that cuts it short closes the connection.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from andon.service.binding import Stream
from andon.service.protocol import cycle_of
from andon.service.streaming import check_streams
from andon.service.waiting import unless, until_gone

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

    from andon.service.calls import Call

MEDIA_TYPE = "application/x-ndjson"

_HEADERS = [
    (b"content-type", MEDIA_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_PIECE = 256 * 1024
"""Bytes handed over at once: few enough that encoding them does not hold up the loop."""

_encode = msgspec.json.Encoder().encode


def wants_lines(request: "Call") -> bool:
    """Whether the client prefers lines to one document: its `Accept` names them, and ranks no
    document higher."""
    for name, value in request.scope["headers"]:
        if name == b"accept" and MEDIA_TYPE.encode() in value.lower():
            ranks = _ranks(value.decode("latin-1").lower())
            return ranks.get(MEDIA_TYPE, 0.0) > 0 and ranks[MEDIA_TYPE] >= ranks.get(
                "application/json", 0.0
            )
    return False


def _ranks(accept: str) -> dict[str, float]:
    """The media types of an `Accept` header, each with its weight."""
    ranks: dict[str, float] = {}
    for part in accept.split(","):
        kind, *parameters = (one.strip() for one in part.split(";"))
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                with contextlib.suppress(ValueError):
                    weight = float(value)
        ranks[kind] = weight
    return ranks


class Lines(Stream):
    """A list as an answer. `pages` gives its records in their order."""

    endless = True

    def __init__(self, request: "Call", pages: AsyncIterator[Sequence[Any]]) -> None:
        check_streams(request.service)
        self._service = request.service
        self._pages = pages

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        self._service.list_streams += 1
        try:
            # The first page comes before the headers: what is wrong with it is a problem yet.
            page = await anext(self._pages, None)
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._send_all(page, scope, receive, send)
        finally:
            self._service.list_streams -= 1

    async def _send_all(
        self, page: Sequence[Any] | None, scope: "Scope", receive: "Receive", send: "Send"
    ) -> None:
        whole = None
        try:
            sending = self._send_pages(page, send)
            whole = await unless(sending, self._service.stopping.wait(), until_gone(receive))
        except TimeoutError:
            pass  # it has stopped to read
        finally:
            cycle = cycle_of(scope)
            if not whole and cycle is not None:
                cycle.transport.abort()  # or it would take what it has for the whole
        if whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_pages(self, page: Sequence[Any] | None, send: "Send") -> bool:
        while page is not None:
            for piece in _pieces(page):
                async with asyncio.timeout(self._service.settings.body_timeout):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await asyncio.sleep(0)  # others get their turn in between
            page = await anext(self._pages, None)
        return True


def _pieces(page: Iterable[Any]) -> Iterable[bytes]:
    gathered = bytearray()
    for record in page:
        gathered += _encode(record)
        gathered += b"\n"
        if len(gathered) >= _PIECE:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


def listed(request: "Call", shown: list[Any]) -> "list[Any] | Lines":
    """A short list as the client wants it."""
    if not wants_lines(request):
        return shown

    async def pages() -> AsyncIterator[Sequence[Any]]:
        yield shown

    return Lines(request, pages())
