"""Run tokens: signed permission to act for one run of one task. Pure.

A token says which namespace, task and run it is for, and which scopes the task carries; it is
signed by a key that only the store's configuration has. It has no expiry: it is valid as long as
the store says that the run holds the task, so it never has to be renewed (docs/store-contract.md,
14).
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable

import msgspec

from andon.model.errors import AuthenticationFailed

PREFIX = "run_"
MOST_KEYS = 2
"""The key that signs, and the one before it, still accepted while it is being replaced."""


class Claims(msgspec.Struct, frozen=True, array_like=True):
    """The claims of a run token."""

    namespace: str
    task: str
    run: str
    number: int
    scopes: tuple[str, ...] = ()


class Key(msgspec.Struct, frozen=True):
    """One signing key. Its repr does not show the secret, which must never reach a log."""

    id: str
    secret: bytes
    created_at: int

    def __repr__(self) -> str:
        return f"<Key {self.id}>"


class Keys(msgspec.Struct, frozen=True):
    """The keys of one namespace, the newest first."""

    namespace: str
    keys: tuple[Key, ...]


def new_keys(now: int, before: Keys | None = None) -> Keys:
    """Keys with a new one in front; the one that signed so far is accepted for a while yet."""
    key = Key(secrets.token_hex(3), secrets.token_bytes(32), now)
    if before is None:
        return Keys(secrets.token_hex(4), (key,))
    return Keys(before.namespace, (key, *before.keys)[:MOST_KEYS])


def sign(keys: Keys, task: str, run: str, number: int, scopes: Iterable[str] = ()) -> str:
    """A token for one run."""
    key = keys.keys[0]
    claims = Claims(keys.namespace, task, run, number, tuple(scopes))
    body = f"{PREFIX}{key.id}.{_text(_encode(claims))}"
    return f"{body}.{_text(_mac(key, body))}"


def is_run_token(token: str) -> bool:
    """Whether this looks like a run token, valid or not."""
    return token.startswith(PREFIX)


def key_of(token: str) -> str:
    """The id of the key that a token says it was signed with."""
    return token[len(PREFIX) :].partition(".")[0]


def verify(keys: Keys, token: str) -> Claims:
    """The claims of a token, if it was signed here. Raises `AuthenticationFailed`."""
    body, _, mac = token.rpartition(".")
    key = next((key for key in keys.keys if key.id == key_of(token)), None)
    # The text is compared, not the decoded bytes: one token has one spelling.
    if key is not None and hmac.compare_digest(mac.encode(), _text(_mac(key, body)).encode()):
        claims = _decode(_bytes(body.rpartition(".")[2]))
        if claims.namespace == keys.namespace:
            return claims
    raise AuthenticationFailed("This run token was not signed by this service, or long ago.")


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Claims).decode


def _mac(key: Key, body: str) -> bytes:
    return hmac.digest(key.secret, body.encode(), hashlib.sha256)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    raw = text.encode("ascii")
    return base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
