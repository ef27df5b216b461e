"""The list of task types that a worker has code for, which a store keeps under its digest
(docs/rulings.md, R32)."""

import hashlib
from collections.abc import Iterable
from functools import cached_property

import msgspec

_DIGEST_CHARS = 16


class Code(msgspec.Struct, frozen=True, dict=True):
    """Task types that a worker can run: pairs of name and version, sorted, each once.

    A name that ends in `*` is the pattern of a prefix, `*` alone a catch-all. How they match is
    decided in `andon.lifecycle.routing`. Two workers with the same types have the same `digest`,
    so a store keeps the list once and a claim names the digest only.
    """

    types: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, types: Iterable[tuple[str, int]]) -> "Code":
        """The code for these names and versions, in any order."""
        return cls(tuple(sorted(set(types))))

    @cached_property
    def digest(self) -> str:
        """A short name of this very list: 16 hexadecimal characters."""
        listed = "\n".join(f"{name} {version}" for name, version in self.types)
        return hashlib.sha256(listed.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARS]
