"""Signs the submissions of an application, and loads the keys that its workers trust
(`andon.signing`).

A submission is signed as it is sent: after middleware has seen it. The package for keys is imported
only where there is one.
"""

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.contract.limits import in_batches
from andon.engine.base import Engine, Submission
from andon.engine.type_queues import with_queues
from andon.model.headers import SIGNATURE_HEADER

if TYPE_CHECKING:
    from andon.signing import SigningKey, TrustedKeys

KEY_VARIABLE = "ANDON_SIGNING_KEY"
"""Environment variable with the file of the key that signs."""

TRUSTED_VARIABLE = "ANDON_TRUSTED_KEYS"
"""Environment variable with the files of the keys that workers trust, separated as PATH is."""

PathLike = str | os.PathLike[str]

_SLICE = 20
"""Submissions signed before other coroutines get their turn: some 3 ms."""


class Signing:
    """Signs submissions with a key, or with that of a file. The file is read at the first submit:
    an application whose workers submit nothing runs where the key is not."""

    def __init__(self, given: "SigningKey | PathLike") -> None:
        self._given = given
        self._key: SigningKey | None = None

    @property
    def key(self) -> "SigningKey":
        """The key. Raises `ConfigurationError` when its file cannot be used."""
        if self._key is None:
            from andon.signing import SigningKey

            given = self._given
            self._key = given if isinstance(given, SigningKey) else SigningKey.load(given)
        return self._key

    def check(self) -> None:
        """Raise `ConfigurationError` when the key's file cannot be used."""
        _ = self.key

    async def signed(self, submissions: Sequence[Submission], engine: Engine) -> list[Submission]:
        """The same, each with its signature; one that has a signature keeps it. The queue is
        signed, so it is filled in here where it is the one that workers published of the type."""
        key, now = self.key, engine.now()
        submissions = await with_queues(engine, submissions)
        signed: list[Submission] = []
        for some in in_batches(submissions, _SLICE):
            if signed:
                await asyncio.sleep(0)
            signed += [_signed(submission, key, now) for submission in some]
        return signed

    def signed_one(self, submission: Submission, now: int) -> Submission:
        """One of them, at `now` (ms UTC). One that names no queue is signed for `default`."""
        return _signed(submission, self.key, now)


def signing_with(given: "SigningKey | PathLike | None") -> Signing | None:
    """Signing with the key given, a key or its file, else with that of ANDON_SIGNING_KEY; None if
    neither says anything: then nothing is signed."""
    key = given if given is not None else os.environ.get(KEY_VARIABLE)
    return None if key is None else Signing(key)


def _signed(submission: Submission, key: "SigningKey", now: int) -> Submission:
    if SIGNATURE_HEADER in submission.headers:
        return submission
    try:
        signature = key.sign(submission, now)
    except UnicodeEncodeError:
        return submission  # the engine refuses it, and says what is wrong with it
    return replace(submission, headers={**submission.headers, SIGNATURE_HEADER: signature})


def trusted_keys(
    given: "TrustedKeys | PathLike | Iterable[PathLike] | None",
) -> "TrustedKeys | None":
    """The keys that a worker trusts: those given, as keys or files, else those in the files that
    ANDON_TRUSTED_KEYS names; None if neither says anything. Raises `ConfigurationError`."""
    if given is None:
        named = os.environ.get(TRUSTED_VARIABLE)
        if named is None:
            return None
        # The variable is set and empty: it was meant to name keys, so running everything is not the
        # default.
        given = [path for path in named.split(os.pathsep) if path]
    from andon.signing import TrustedKeys

    if isinstance(given, TrustedKeys):
        return given
    return TrustedKeys.load(*([given] if isinstance(given, str | os.PathLike) else given))
