"""Signed URLs: permission to send or fetch one file without a token, for a while. Pure.

A URL says which namespace, method, task, run and file it is for, of which content type, and until
when; it is signed by the key that signs run tokens, and valid until that has been rotated twice.
"""

import base64
import hmac
from typing import Literal

import msgspec

from andon.model.errors import AuthenticationFailed
from andon.service.trust.runtokens import Keys

PREFIX = "/blobs/"
"""The prefix of the path of every signed URL."""

PUT_S = 45 * 60.0
GET_S = 30 * 60.0
"""How long URLs are good for, in seconds."""


class Signed(msgspec.Struct, frozen=True, array_like=True):
    """The claims of a signed URL."""

    namespace: str
    method: Literal["GET", "PUT"]
    task: str
    run: int
    name: str
    expires_at: int  #: ms UTC
    content_type: str = ""  #: of what is sent


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Signed).decode


def path_of(keys: Keys, signed: Signed) -> str:
    """The path of a URL, signed."""
    key = keys.keys[0]
    body = f"{key.id}.{_text(_encode(signed))}"
    return f"{PREFIX}{body}.{_mac(key.secret, body)}"


def key_of(opaque: str) -> str:
    """The id of the key that the last segment of a path says it was signed with."""
    return opaque.partition(".")[0]


def verify(keys: Keys, opaque: str, method: str, now: int) -> Signed:
    """The claims in the last segment of a path, if it was signed here for this method and is still
    valid at `now` (ms UTC). Raises `AuthenticationFailed`."""
    body, _, mac = opaque.rpartition(".")
    key = next((key for key in keys.keys if key.id == key_of(opaque)), None)
    # The text is compared, not what it decodes to: one URL has one spelling.
    if key is None or not hmac.compare_digest(mac.encode(), _mac(key.secret, body).encode()):
        raise AuthenticationFailed("This URL was not signed by this service, or long ago.")
    signed = _decode(_bytes(body.partition(".")[2]))
    if signed.namespace != keys.namespace or signed.method != method:
        raise AuthenticationFailed(f"This URL is for {signed.method}, and for nothing else.")
    if signed.expires_at <= now:
        raise AuthenticationFailed("This URL has expired; ask for another.")
    return signed


def _mac(secret: bytes, body: str) -> str:
    return _text(hmac.digest(secret, f"{PREFIX}{body}".encode(), "sha256"))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    raw = text.encode("ascii")
    return base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
