"""Checks that a task, as it is stored, was signed with a trusted key."""

from base64 import urlsafe_b64decode
from collections.abc import Iterable
from typing import Self

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from andon.lifecycle.faces.fields import iso
from andon.lifecycle.statements import Signable, parsed, statement
from andon.model.errors import ConfigurationError
from andon.model.headers import SIGNATURE_HEADER
from andon.signing.keys import PathLike, key_id, keys_of

MISSING = "SIGNATURE_MISSING"
MALFORMED = "SIGNATURE_MALFORMED"
UNKNOWN_KEY = "SIGNATURE_KEY_UNKNOWN"
INVALID = "SIGNATURE_INVALID"
EXPIRED = "SIGNATURE_EXPIRED"
"""Error codes of refused tasks."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a task is not run."""

    code: str  #: error code: SIGNATURE_MISSING, _MALFORMED, _KEY_UNKNOWN, _INVALID or _EXPIRED
    message: str


class TrustedKeys:
    """Public keys whose tasks are run; several while one takes over from another.

    Raises `ConfigurationError` for none at all.

    Example:
        from pathlib import Path
        from andon import Andon
        from andon.signing import SigningKey, TrustedKeys

        key = SigningKey.generate()
        Path("shop.pem.pub").write_bytes(key.public_pem())
        app = Andon("memory://", signing_key=key)

        @app.task(name="charge")
        async def charge(order: int) -> str:
            return f"order {order} paid"

        async with app:
            handle = await charge.submit(7)
            async with app.working(trusted_keys=TrustedKeys.load("shop.pem.pub")):
                assert await handle.result(timeout=60) == "order 7 paid"
    """

    def __init__(self, keys: Iterable[Ed25519PublicKey]) -> None:
        self._keys = {key_id(key): key for key in keys}
        if not self._keys:
            raise ConfigurationError(
                "No trusted key is named, so every task would be refused. Name the public keys of "
                "who may submit, or leave trusted_keys away to run tasks without signatures."
            )

    def __repr__(self) -> str:
        return f"<TrustedKeys {', '.join(self.ids)}>"

    @classmethod
    def load(cls, *paths: PathLike) -> Self:
        """The public keys in PEM files, each with one or several. A private key is refused: workers
        are not to have it. Raises `ConfigurationError`."""
        found: list[Ed25519PublicKey] = []
        for path in paths:
            for key in keys_of(path):
                if key.private is not None:
                    raise ConfigurationError(
                        f"{path} holds a private key; workers are given the public one: "
                        f"andon keys show {path} prints it."
                    )
                found.append(key.public)
        return cls(found)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the keys."""
        return tuple(self._keys)

    def refusal(self, task: Signable, now: int) -> Refusal | None:
        """Why a task is not to be run at `now` (ms UTC); None if it may. Never raises."""
        header = task.headers.get(SIGNATURE_HEADER)
        if header is None:
            return Refusal(
                MISSING, "The task is not signed, and this worker runs signed ones only."
            )
        signature = parsed(header)
        if signature is None:
            return Refusal(
                MALFORMED, f"The header {SIGNATURE_HEADER} is not v1.KEY.NOT_AFTER.SIGNATURE."
            )
        key = self._keys.get(signature.key_id)
        if key is None:
            return Refusal(
                UNKNOWN_KEY,
                f"The task is signed with key {signature.key_id}, which this worker does not "
                f"trust. It trusts {', '.join(self.ids)}.",
            )
        try:
            key.verify(
                urlsafe_b64decode(signature.value + "=="), statement(task, signature.not_after)
            )
        except (InvalidSignature, ValueError):  # ValueError: of a text that cannot be encoded
            return Refusal(
                INVALID,
                f"The signature with key {signature.key_id} is not one of this task: something of "
                "it was altered, or signed otherwise than docs/signing.md says.",
            )
        if signature.not_after is not None and now > signature.not_after:
            return Refusal(EXPIRED, f"The signature held until {iso(signature.not_after)}.")
        return None
