"""API tokens: long random words, of which only a hash is kept. Pure.

A token is `andon_<id>_<secret>`. The id finds its record; the secret has 256 random bits, so one
round of SHA-256 keeps it as safe as a slow hash keeps a password, at a price every request can pay.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable

import msgspec

from andon.service.trust.scopes import check

PREFIX = "andon_"
_TOKEN = re.compile(r"andon_([0-9a-f]{8})_([A-Za-z0-9_-]{43})\Z")
_NOBODY = hashlib.sha256(b"nobody").digest()


class ApiToken(msgspec.Struct, frozen=True, kw_only=True):
    """One token as it is kept. Times are ms UTC by the store's clock."""

    id: str
    name: str  #: for people: who or what it was made for
    digest: bytes  #: SHA-256 of the secret
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None

    def state(self, now: int) -> str:
        """`valid`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


def make(
    name: str, scopes: Iterable[str], now: int, expires_at: int | None = None
) -> tuple[str, ApiToken]:
    """A new token: its text, to be shown once, and its record. Raises `ConfigurationError`."""
    token_id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    record = ApiToken(
        id=token_id,
        name=name,
        digest=_digest(secret),
        scopes=tuple(check(scope) for scope in scopes),
        created_at=now,
        expires_at=expires_at,
    )
    return f"{PREFIX}{token_id}_{secret}", record


def id_of(token: str) -> str | None:
    """The id in a token's text; None if it is not the text of a token."""
    match = _TOKEN.match(token)
    return match[1] if match else None


def matches(record: ApiToken | None, token: str) -> bool:
    """Whether the text is that of the record. Takes as long whether there is one or not."""
    match = _TOKEN.match(token)
    digest = _digest(match[2] if match else "")
    equal = hmac.compare_digest(digest, record.digest if record is not None else _NOBODY)
    return equal and record is not None and match is not None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
