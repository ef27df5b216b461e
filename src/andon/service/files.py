"""Files over HTTP: a body taken piece by piece, and an answer that streams one.

Neither is ever in memory as a whole, and neither waits for ever for a client that has stopped.
"""

import asyncio
import base64
import contextlib
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from litestar.params import HeaderParameter

from andon.artifacts.base import Artifact, ArtifactNotFound
from andon.service.binding import Stream, is_at_most, next_part
from andon.service.problems import Problem, body_too_large
from andon.service.protocol import cycle_of
from andon.service.waiting import until_gone

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

    from andon.service.calls import Call
    from andon.service.service import Service

_PIECE = 256 * 1024
"""Bytes handed over at once: few enough that hashing them does not hold up the loop."""

_RANGE = re.compile(r"bytes=([0-9]*)-([0-9]*)\Z")
_DIGITS = 19
_PLAIN = re.compile(r"[\x20-\x7e]{1,200}\Z")


Ranged = Annotated[str | None, HeaderParameter(name="Range", description="One range of bytes.")]
"""The header `Range`, of every route that serves a file."""

Encoded = Annotated[
    str | None,
    HeaderParameter(
        name="Content-Encoding",
        description="What the body is encoded with: kept with it as it is, and served with it.",
    ),
]
"""The header `Content-Encoding`, of every route that keeps a file."""


async def body_pieces(request: "Call", limit: int) -> AsyncIterator[bytes]:
    """The body of a request as it comes. Raises `Problem` (413, 408, 400)."""
    gathered: list[bytes] = []
    size = taken = 0
    more = True
    while more:
        message = await next_part(request.receive, request.service)
        more = message["more_body"]
        gathered.append(message["body"])
        size += len(message["body"])
        taken += len(message["body"])
        if taken > limit:
            raise body_too_large(limit)
        if size >= _PIECE:
            yield b"".join(gathered)
            gathered.clear()
            size = 0
    if size:
        yield b"".join(gathered)


def check_length(request: "Call", limit: int) -> None:
    """Raise `Problem` (413) for a body whose Content-Length is too large."""
    for name, value in request.scope["headers"]:
        if name == b"content-length" and not is_at_most(value, limit):
            raise body_too_large(limit)


def check_readable(artifact: Artifact) -> None:
    """Raise unless it is a file whose bytes are there: `Problem` (424) for an error that stands in
    the place of one, else `ArtifactNotFound`."""
    if artifact.kind == "error":
        raise Problem(
            424,
            "artifact-error",
            "No artifact",
            artifact.message or f"The run says of {artifact.name!r}: {artifact.reason}.",
            reason=artifact.reason,
        )
    if not artifact.is_present:
        raise ArtifactNotFound(artifact.task, artifact.name)


def etag_of(artifact: Artifact) -> str:
    """The same for the same content."""
    return f'"{artifact.sha256}"'


class Download(Stream):
    """An artifact as an answer: whole, one range of it, or nothing where the client has it."""

    def __init__(self, service: "Service", artifact: Artifact, content: Any, part: range) -> None:
        self._service = service
        self._artifact = artifact
        self._content: AsyncIterator[bytes] = content
        self._part = part

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        left = len(self._part)
        # The first piece comes before the headers: a file that is gone is a 404 yet.
        piece = await anext(self._content, b"")
        status, headers = self._head()
        await send({"type": "http.response.start", "status": status, "headers": headers})
        gone = asyncio.ensure_future(until_gone(receive))
        whole = False
        try:
            while piece and left and not gone.done():
                piece = piece[:left]
                left -= len(piece)
                async with asyncio.timeout(self._service.settings.body_timeout):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                if left:
                    piece = await anext(self._content, b"")
            whole = not left
        except TimeoutError:
            pass  # it has stopped to read
        finally:
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone
            cycle = cycle_of(scope)
            if not whole and cycle is not None:
                cycle.transport.abort()  # or it would take what it has for the whole
        if whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        artifact, part = self._artifact, self._part
        kind = artifact.content_type
        name = quote(artifact.name, safe="")
        digest = base64.b64encode(bytes.fromhex(artifact.sha256)).decode()
        headers = {
            "content-type": kind if _PLAIN.match(kind) else "application/octet-stream",
            "content-length": str(len(part)),
            "etag": etag_of(artifact),
            "repr-digest": f"sha-256=:{digest}:",
            "accept-ranges": "bytes",
            # The content comes from a task: no browser may run it as a page of the service.
            "content-disposition": f"attachment; filename*=UTF-8''{name}",
            "content-security-policy": "sandbox",
            "x-content-type-options": "nosniff",
            "cache-control": "no-cache",
            "andon-run": str(artifact.run),
        }
        if artifact.encoding:
            headers["content-encoding"] = artifact.encoding
        status = 200
        if len(part) < artifact.size:
            status = 206
            headers["content-range"] = f"bytes {part.start}-{part.stop - 1}/{artifact.size}"
        return status, [(name.encode(), value.encode()) for name, value in headers.items()]


def part_of(artifact: Artifact, asked: str | None) -> range:
    """The bytes that a Range header asks for; all of them for one that is not understood, as the
    standard has it. Raises `Problem` (416)."""
    whole = range(artifact.size)
    found = _RANGE.match(asked or "")
    if found is None or not (found[1] or found[2]):
        return whole
    size = artifact.size
    if found[1]:
        first = _place(found[1], size)
        last = min(_place(found[2], size) if found[2] else size - 1, size - 1)
        if found[2] and _number(found[2]) < _number(found[1]):
            return whole
    else:
        first, last = max(size - _place(found[2], size), 0), size - 1
    if first > last:
        raise Problem(
            416,
            "range-not-satisfiable",
            "Range not satisfiable",
            f"The artifact has {artifact.size:,} bytes; there is no such part of it.",
            headers={"Content-Range": f"bytes */{artifact.size}"},
        )
    return range(first, last + 1)


def _number(digits: str) -> tuple[int, str]:
    """What orders numbers of any length as they are."""
    digits = digits.lstrip("0")
    return len(digits), digits


def _place(digits: str, size: int) -> int:
    """A place in a file of that size; whatever is beyond its end is that."""
    digits = digits.lstrip("0")
    return size if len(digits) >= _DIGITS else min(int(digits or "0"), size)
