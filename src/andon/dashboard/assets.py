"""Serves the stylesheet, the script and the icon: each under a name that has its hash, so that a
browser may keep it for ever and never shows an old one beside a new page."""

import gzip
import hashlib
from functools import cache
from importlib.resources import files

import msgspec

from andon.dashboard.requests import TEXT, Answer, Request

_TYPES = {
    "board.css": b"text/css; charset=utf-8",
    "board.js": b"text/javascript; charset=utf-8",
    "icon.svg": b"image/svg+xml",
}
_FOR_EVER = (b"cache-control", b"public, max-age=31536000, immutable")


class Asset(msgspec.Struct, frozen=True):
    """One file as it is sent."""

    path: str  #: below the board
    content_type: bytes
    body: bytes
    zipped: bytes


@cache
def assets() -> dict[str, Asset]:
    """Every asset by its file name. Read once."""
    found: dict[str, Asset] = {}
    for name, kind in _TYPES.items():
        body = (files("andon.dashboard") / "assets" / name).read_bytes()
        path = f"/static/{hashlib.sha256(body).hexdigest()[:12]}/{name}"
        found[name] = Asset(path, kind, body, gzip.compress(body, 9, mtime=0))
    return found


def answer_asset(request: Request) -> Answer:
    """The asset that a request asks for, or 404."""
    for one in assets().values():
        if request.path == one.path:
            break
    else:
        body = b"There is no such file; reload the page."
        return Answer(status=404, body=body, content_type=TEXT)
    headers = [_FOR_EVER, (b"vary", b"accept-encoding")]
    if "gzip" in request.header("accept-encoding"):
        headers.append((b"content-encoding", b"gzip"))
        return Answer(body=one.zipped, content_type=one.content_type, headers=headers)
    return Answer(body=one.body, content_type=one.content_type, headers=headers)
