"""Certificates: temporary credentials, signed with the key of the client that issues them. Pure.

A holder of a client's access token makes them without calling the service: with the client's scopes
or fewer, for 31 days at the most. A named one has a client id of its own, and its issuer in the
certificate.
"""

import re
from base64 import b64encode, urlsafe_b64encode
from secrets import token_urlsafe

import msgspec

from andon.model.errors import AuthenticationFailed
from andon.service.taskcluster.trust.hawk import digest, equal
from andon.service.taskcluster.trust.scopes import is_scope

LONGEST_MS = 31 * 24 * 3600 * 1000
"""The longest life of a certificate."""

SKEW_MS = 5 * 60 * 1000
"""How far the issuer's clock may be off."""

_SEED = re.compile(r"[A-Za-z0-9_-]{44}\Z")
CLIENT_ID = re.compile(r"[A-Za-z0-9!@/:.+|_-]{1,1024}\Z")
"""What a client id is made of."""


class Certificate(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A certificate as it travels. Times are ms UTC."""

    version: int
    scopes: tuple[str, ...]
    start: int
    expiry: int
    seed: str
    signature: str
    issuer: str | None = None  #: client id of the issuer, if the credentials are named


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What a client is given to sign with. Its repr does not show the token."""

    client_id: str
    access_token: str
    certificate: str  #: JSON

    def __repr__(self) -> str:
        return f"<Credentials of {self.client_id}>"


_decode = msgspec.json.Decoder(Certificate).decode
_encode = msgspec.json.Encoder().encode


def issue(
    *, name: str, issuer: str, key: str, scopes: tuple[str, ...], start: int, expiry: int
) -> Credentials:
    """Named temporary credentials under the key (access token) of their issuer."""
    seed = token_urlsafe(33)  # which makes 44 characters
    unsigned = Certificate(
        version=1,
        scopes=scopes,
        start=start,
        expiry=expiry,
        seed=seed,
        signature="",
        issuer=issuer,
    )
    signed = msgspec.structs.replace(unsigned, signature=_signature(unsigned, name, key))
    return Credentials(
        client_id=name,
        access_token=derived_key(key, seed),
        certificate=_encode(signed).decode(),
    )


def read(value: object) -> Certificate:
    """A certificate out of `ext`: an object, or a text that is one in JSON.

    Raises `AuthenticationFailed` for what is none.
    """
    try:
        if isinstance(value, str):
            certificate = _decode(value)
        else:
            certificate = msgspec.convert(value, Certificate)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise AuthenticationFailed(f"The certificate cannot be read: {error}.") from None
    if certificate.version != 1:
        raise AuthenticationFailed("The certificate must be of version 1.")
    if not _SEED.match(certificate.seed):
        raise AuthenticationFailed("The seed of a certificate is 44 URL-safe characters.")
    if not all(map(is_scope, certificate.scopes)):
        raise AuthenticationFailed("A scope of the certificate is not printable ASCII.")
    if certificate.issuer is not None and not CLIENT_ID.match(certificate.issuer):
        raise AuthenticationFailed("The issuer of the certificate is no client id.")
    return certificate


def check_time(certificate: Certificate, now: int) -> None:
    """Raise `AuthenticationFailed` unless it holds at `now` (ms UTC)."""
    if certificate.expiry - certificate.start > LONGEST_MS:
        raise AuthenticationFailed("The certificate is for more than 31 days.")
    if certificate.start > now + SKEW_MS:
        raise AuthenticationFailed("The certificate begins in the future.")
    if certificate.expiry < now - SKEW_MS:
        raise AuthenticationFailed("The certificate has expired.")


def check_signature(certificate: Certificate, client_id: str, key: str) -> None:
    """Raise `AuthenticationFailed` unless it was signed with this key, for that client id if it is
    a named one."""
    if not equal(_signature(certificate, client_id, key), certificate.signature):
        raise AuthenticationFailed(
            "The certificate was not signed with the access token of its issuer."
        )


def derived_key(key: str, seed: str) -> str:
    """The access token that goes with a seed, under the issuer's own."""
    return urlsafe_b64encode(digest(key, seed)).rstrip(b"=").decode()


def _signature(certificate: Certificate, client_id: str, key: str) -> str:
    lines = [f"version:{certificate.version}"]
    if certificate.issuer is not None:
        lines += [f"clientId:{client_id}", f"issuer:{certificate.issuer}"]
    lines += [
        f"seed:{certificate.seed}",
        f"start:{certificate.start}",
        f"expiry:{certificate.expiry}",
        "scopes:",
        *certificate.scopes,
    ]
    return b64encode(digest(key, "\n".join(lines))).decode()
