"""Sends files as they are, in pieces, never as a page of the board."""

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from andon.dashboard.requests import Send

_PLAIN = re.compile(r"[^A-Za-z0-9._-]")


class Download(msgspec.Struct):
    """One file."""

    name: str
    size: int
    content: AsyncIterator[bytes]


async def send_download(
    found: Download, send: "Send", around: list[tuple[bytes, bytes]], *, head: bool
) -> None:
    """Send the file as an attachment: a run may write anything, so no browser may render it."""
    name = f'attachment; filename="{_PLAIN.sub("_", found.name)}"; '
    disposition = f"{name}filename*=UTF-8''{quote(found.name, safe='')}"
    headers = [
        (b"content-type", b"application/octet-stream"),
        (b"content-length", b"%d" % found.size),
        (b"content-disposition", disposition.encode()),
        (b"cache-control", b"no-store"),
        *around,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if not head:
        async for part in found.content:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
