"""Ed25519 keys in PEM files, and signing with one.

A private key file is PKCS#8, a public one SubjectPublicKeyInfo, as `openssl pkey` and every other
tool writes them; neither is encrypted. A key's id is the beginning of the SHA-256 of its 32 public
bytes: it needs no other name.
"""

import hashlib
import logging
import os
import re
import stat
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Self

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from andon.lifecycle.statements import Signable, Signature, statement
from andon.model.errors import ConfigurationError

logger = logging.getLogger("andon.signing")

_BLOCK = re.compile(rb"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----", re.DOTALL)
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MOST_BYTES = 1024 * 1024

PathLike = str | os.PathLike[str]


def key_id(public: Ed25519PublicKey) -> str:
    """The id of a key: 16 hex digits, the first of the SHA-256 of its public bytes."""
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:16]


class SigningKey:
    """A private key, and how long its signatures hold.

    With `valid_for` (seconds) no run of a task may begin later than so long after its submit; then
    a copied signature is worth nothing. Without, it holds as long as workers trust the key, and
    reruns stay possible. Raises `ConfigurationError` for a `valid_for` that is not more than 0.

    Example:
        from pathlib import Path
        from andon import Andon
        from andon.signing import SigningKey

        made = SigningKey.generate()  # as andon keys new does
        Path("shop.pem").touch(mode=0o600)
        Path("shop.pem").write_bytes(made.private_pem())
        Path("shop.pem.pub").write_bytes(made.public_pem())

        key = SigningKey.load("shop.pem", valid_for=86_400)
        assert key.key_id == made.key_id
        app = Andon("memory://", signing_key=key)
    """

    def __init__(self, private: Ed25519PrivateKey, *, valid_for: float | None = None) -> None:
        if valid_for is not None and not 0 < valid_for < float("inf"):
            raise ConfigurationError(f"valid_for is more than 0 seconds, not {valid_for}.")
        self._private = private
        self.valid_for = valid_for  #: seconds that a signature holds; None: without end
        self.key_id = key_id(private.public_key())  #: 16 hex digits

    def __repr__(self) -> str:
        return f"<SigningKey {self.key_id}>"

    @classmethod
    def generate(cls) -> Self:
        """A new key, at random."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: PathLike, *, valid_for: float | None = None) -> Self:
        """The key in a PEM file. Raises `ConfigurationError` for a file that has none; one that
        others may read is used, and the log warns of it."""
        warn_if_shared(path)
        found = [key.private for key in keys_of(path) if key.private is not None]
        if len(found) != 1:
            raise ConfigurationError(
                f"{path} holds {len(found) or 'no'} private keys; name the file of the one to sign "
                "with. A new one: andon keys new FILE."
            )
        return cls(found[0], valid_for=valid_for)

    @property
    def public(self) -> Ed25519PublicKey:
        """The public half, which workers are given."""
        return self._private.public_key()

    def private_pem(self) -> bytes:
        """The key as a PEM file has it. Keep it to yourself."""
        return self._private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def public_pem(self) -> bytes:
        """The public half as a PEM file has it."""
        return public_pem(self.public)

    def sign(self, task: Signable, now: int) -> str:
        """The header's text for a task; `now` is ms UTC. Raises `UnicodeEncodeError` for a text
        that no store keeps either."""
        not_after = None if self.valid_for is None else now + round(self.valid_for * 1000)
        signed = self._private.sign(statement(task, not_after))
        value = urlsafe_b64encode(signed).rstrip(b"=").decode()
        return Signature(self.key_id, not_after, value).header


def public_pem(public: Ed25519PublicKey) -> bytes:
    """A public key as a PEM file has it."""
    return public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


class FoundKey(msgspec.Struct, frozen=True):
    """A key in a PEM file."""

    public: Ed25519PublicKey
    private: Ed25519PrivateKey | None  #: None: the file has its public half only


def keys_of(path: PathLike) -> list[FoundKey]:
    """Every key in a PEM file, in order. Raises `ConfigurationError` for a file that cannot be
    read, has none, or has a key of another kind."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MOST_BYTES)
    except OSError as error:
        raise ConfigurationError(f"The key file {path} cannot be read: {error.strerror}.") from None
    found = [_key_of(match[0], match[1], path) for match in _BLOCK.finditer(text)]
    if not found:
        raise ConfigurationError(
            f"{path} holds no key in PEM form. A new one: andon keys new FILE."
        )
    return found


def _key_of(block: bytes, kind: bytes, path: PathLike) -> FoundKey:
    key: object = None
    try:
        if kind.endswith(b"PRIVATE KEY"):
            key = serialization.load_pem_private_key(block, password=None)
        elif kind == b"PUBLIC KEY":
            key = serialization.load_pem_public_key(block)
    except TypeError:  # it is encrypted
        raise ConfigurationError(
            f"{path} holds a key under a passphrase, which nobody could type in here. Write it "
            "without one: openssl pkey -in FILE -out NEW."
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigurationError(f"{path} holds a damaged {kind.decode().lower()}.") from None
    if isinstance(key, Ed25519PrivateKey):
        return FoundKey(key.public_key(), key)
    if isinstance(key, Ed25519PublicKey):
        return FoundKey(key, None)
    raise ConfigurationError(
        f"{path} holds a {kind.decode().lower()} of another kind; tasks are signed with Ed25519. "
        "A new one: andon keys new FILE."
    )


def warn_if_shared(path: PathLike) -> None:
    """Log that others than its owner may read or write a private key's file."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return  # reading it raises the error
    if os.name == "posix" and mode & _FOR_OTHERS:
        logger.warning(
            "Others than its owner may use the private key in %s. Close it: chmod 600 %s.",
            path,
            path,
        )
