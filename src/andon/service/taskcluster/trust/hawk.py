"""Hawk: checks requests signed with the sender's key, in a header or in the URL. Pure.

docs/taskcluster.md says what is signed and how. Nothing is compared but in constant time, and
everything is parsed in time linear in its length: a header may have 32 KiB, since the scopes of a
task travel in it.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from functools import lru_cache

import msgspec

from andon.model.errors import AuthenticationFailed

MAX_HEADER = 32 * 1024
"""Bytes of an Authorization header, and of a URL with a bewit."""

MAX_SKEW_S = 15 * 60
"""How far the time in a header may be from the service's own, in seconds."""

READING = ("GET", "HEAD")
"""Methods that change nothing; a URL is signed as the first, and holds for both."""

_SCHEME = "hawk"
_NAMES = frozenset({"id", "ts", "nonce", "mac", "hash", "ext"})
_NEEDED = ("id", "ts", "nonce", "mac")
_FIRST = {f"{name}=": name for name in _NAMES}
_NEXT = {f"{comma}{name}=": name for name in _NAMES for comma in (",", ", ")}
_ATTRIBUTE = re.compile(r'[ \t]*([a-z]{1,16})="([\x20\x21\x23-\x5b\x5d-\x7e]*)"[ \t]*(?:,|\Z)')
_SECONDS = re.compile(r"(0|[1-9][0-9]{0,11})\Z")
_BEWIT = re.compile(r"(^|&)bewit=([^&]*)(&|$)")


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an `Authorization: Hawk …` header. `hash` and `ext` are empty if not given."""

    id: str
    ts: int
    nonce: str
    mac: str
    hash: str = ""
    ext: str = ""


class Bewit(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the `bewit` of a signed URL."""

    id: str
    exp: int  #: s UTC
    mac: str
    ext: str = ""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is signed of a request."""

    method: str
    resource: str  #: path and query exactly as sent, still encoded
    hosts: tuple[str, ...]
    """The name as clients may have signed it: an IPv6 address with and without its brackets."""
    port: int


def parse_header(value: str) -> Header:
    """The parsed header. Raises `AuthenticationFailed`."""
    if len(value) > MAX_HEADER:
        raise AuthenticationFailed(f"The header Authorization has more than {MAX_HEADER} bytes.")
    scheme, _, rest = value.strip(" \t").partition(" ")
    if scheme.lower() != _SCHEME:
        raise AuthenticationFailed("The header Authorization must be of the scheme Hawk.")
    given = _usual(rest)
    place = len(rest) if given else 0
    while place < len(rest):
        found = _ATTRIBUTE.match(rest, place)
        if found is None or found[1] not in _NAMES or found[1] in given:
            raise AuthenticationFailed(
                'The header Authorization is no list of id="…", ts="…", nonce="…", mac="…", '
                'hash="…" and ext="…", each at most once.'
            )
        given[found[1]] = found[2]
        place = found.end()
    name, ts, nonce, signed = map(given.get, _NEEDED)
    if not (name and ts and nonce and signed):
        missing = [name for name in _NEEDED if not given.get(name)]
        raise AuthenticationFailed(f"The header Authorization lacks {', '.join(missing)}.")
    if not _SECONDS.match(ts):
        raise AuthenticationFailed("The ts of the header Authorization is no time in seconds.")
    return Header(
        id=name,
        ts=int(ts),
        nonce=nonce,
        mac=signed,
        hash=given.get("hash", ""),
        ext=given.get("ext", ""),
    )


def _usual(rest: str) -> dict[str, str]:
    """The attributes of a header as clients write it, without blanks but after a comma; empty for
    any other, good or bad."""
    texts = rest.split('"')
    first = texts[0]
    if first not in _FIRST or texts.pop() or len(texts) % 2:
        return {}
    if "\\" in rest or not (rest.isascii() and rest.isprintable()):
        return {}
    texts[0] = f",{first}"
    try:
        given = dict(zip([_NEXT[text] for text in texts[::2]], texts[1::2], strict=True))
    except KeyError:
        return {}
    return given if 2 * len(given) == len(texts) else {}


def check_header(
    header: Header, key: str, request: Request, now_s: float, *, content_type: str, body: bytes
) -> None:
    """Raise `AuthenticationFailed` unless the request was signed with this key, not long ago."""
    if abs(now_s - header.ts) > MAX_SKEW_S:
        raise AuthenticationFailed(
            f"The request was signed at {header.ts}, and it is {int(now_s)} here: more than "
            f"{MAX_SKEW_S} s apart. Set the clock of whoever sent it."
        )
    for host in request.hosts:
        signed = mac(
            "header",
            key,
            request,
            host,
            ts=header.ts,
            nonce=header.nonce,
            payload=header.hash,
            ext=header.ext,
        )
        if equal(signed, header.mac):
            break
    else:
        raise AuthenticationFailed(_NOT_SIGNED)
    if header.hash and not equal(payload_hash(content_type, body), header.hash):
        raise AuthenticationFailed("The body is not the one that was signed.")


def bewit_in(resource: str) -> tuple[str, str] | None:
    """The bewit in a path with query, and that path without it; None if it has none.

    Raises `AuthenticationFailed` for more than one.
    """
    path, mark, query = resource.partition("?")
    found = _BEWIT.search(query)
    if not mark or found is None:
        return None
    # Of the two ampersands around it one stays, if something stands on both sides.
    between = "&" if found[1] and found[3] else ""
    rest = query[: found.start()] + between + query[found.end() :]
    if _BEWIT.search(rest):
        raise AuthenticationFailed("The URL has more than one bewit.")
    return found[2], path + (f"?{rest}" if rest else "")


def parse_bewit(text: str) -> Bewit:
    """The parsed bewit. Raises `AuthenticationFailed`."""
    try:
        parts = decode_base64(text).decode("ascii").split("\\")
    except ValueError:
        parts = []
    if len(parts) != 4 or not parts[0] or not parts[2] or not _SECONDS.match(parts[1]):
        raise AuthenticationFailed("The bewit in the URL is none.")
    return Bewit(id=parts[0], exp=int(parts[1]), mac=parts[2], ext=parts[3])


def check_bewit(bewit: Bewit, key: str, request: Request, now_s: float) -> None:
    """Raise `AuthenticationFailed` unless the URL was signed with this key and still holds.

    `request` is the one without the bewit.
    """
    for host in request.hosts:
        signed = mac("bewit", key, request, host, ts=bewit.exp, nonce="", payload="", ext=bewit.ext)
        if equal(signed, bewit.mac):
            break
    else:
        raise AuthenticationFailed(_NOT_SIGNED)
    if bewit.exp <= now_s:
        raise AuthenticationFailed(f"The signed URL held until {bewit.exp}; ask for a new one.")


def mac(
    kind: str,
    key: str,
    request: Request,
    host: str,
    *,
    ts: int,
    nonce: str,
    payload: str,
    ext: str,
) -> str:
    """The signature of a request under a key; `kind` is `header` or `bewit`."""
    lines = (
        f"hawk.1.{kind}",
        str(ts),
        nonce,
        request.method.upper(),
        request.resource,
        host.lower(),
        str(request.port),
        payload,
        ext,  # in which no backslash and no newline can stand, here as there
        "",
    )
    return b64encode(digest(key, "\n".join(lines))).decode()


def payload_hash(content_type: str, body: bytes) -> str:
    """What stands as `hash` for a body of a content type."""
    media_type = content_type.partition(";")[0].strip().lower()
    hashed = hashlib.sha256(f"hawk.1.payload\n{media_type}\n".encode("latin-1", "replace"))
    hashed.update(body)
    hashed.update(b"\n")
    return b64encode(hashed.digest()).decode()


def digest(key: str, text: str) -> bytes:
    """HMAC-SHA256 of a text under a key that is text, too; both are what latin-1 stands for, as a
    request's path is."""
    keyed = _keyed(key).copy()
    keyed.update(text.encode("latin-1"))
    return keyed.digest()


@lru_cache(maxsize=1024)
def _keyed(key: str) -> hmac.HMAC:
    """What the digests under one key begin with: `hmac.digest` would make it for each, and give the
    interpreter away to other threads meanwhile."""
    return hmac.new(key.encode("latin-1"), digestmod="sha256")


def equal(one: str, other: str) -> bool:
    """Whether two texts are equal, in a time that does not say where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def decode_base64(text: str) -> bytes:
    """What base64 stands for, in the standard or the URL-safe alphabet, padded or not, and only in
    the one spelling that its encoder gives.

    Raises `ValueError`.
    """
    bare = text.rstrip("=")
    padding = "=" * (-len(bare) % 4)
    if text not in (bare, bare + padding):
        raise ValueError("it is padded otherwise")
    is_safe = "-" in bare or "_" in bare
    if is_safe and ("+" in bare or "/" in bare):
        raise ValueError("it mixes two alphabets")
    standard = bare.translate(_TO_STANDARD) + padding
    decoded = b64decode(standard, validate=True)
    if b64encode(decoded).decode() != standard:
        raise ValueError("it has another spelling")
    return decoded


_TO_STANDARD = str.maketrans("-_", "+/")

_NOT_SIGNED = (
    "The signature is not one of this request under the key of these credentials: the access "
    "token is another, or method, path, host or port were changed on the way."
)
