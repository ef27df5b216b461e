"""Lists of what workers have code for, each kept in the store once, under its digest
(docs/rulings.md, R32).

A claim over HTTP and the description of a worker name the digest only; the list itself can be read
here, on any replica and after a restart. The lists are kept in a fixed number of settings, by the
first character of the digest; each of these is bounded and drops the list that has been unused for
longest. A worker that uses a dropped list sends it again.
"""

import asyncio
import re
from collections.abc import Iterable

import msgspec

from andon.contract.store import Store
from andon.lifecycle.admission import check_name
from andon.model.code import Code
from andon.model.errors import InvalidSubmission

MOST_BYTES = 256 * 1024
"""Bytes of one list in JSON: thousands of types. A worker with more of them names patterns."""

_MOST_BYTES_OF_ALL = 512 * 1024  # in one setting
_UNUSED_MS = 8 * 86_400_000
_USED_AGAIN_MS = 86_400_000
"""Age of the noted last use after which it is written again."""

_MOST_TRIES = 20
_MOST_REMEMBERED = 200


_DIGEST = re.compile("[0-9a-f]{16}")


class _Kept(msgspec.Struct, array_like=True):
    digest: str
    used_at: int  # ms UTC
    types: tuple[tuple[str, int], ...]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[_Kept]).decode


class CodeBook:
    """The lists that the workers on one store have named."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[Code, int]] = {}  # with when it was last noted as used

    async def keep(self, code: Code) -> None:
        """Store a list, or note that it is used. Writes nothing if that was noted lately.

        Raises `InvalidSubmission` for one that is too long.
        """
        now = self._store.now()
        known = self._known.get(code.digest)
        if known is not None and known[1] > now - _USED_AGAIN_MS:
            return
        check_code(code)
        place = _place_of(code.digest)
        for _ in range(_MOST_TRIES):
            held = await self._store.setting(place)
            kept = _decode(held) if held else []
            mine = next((one for one in kept if one.digest == code.digest), None)
            if mine is not None and mine.used_at > now - _USED_AGAIN_MS:
                now = mine.used_at
                break
            kept = [_Kept(code.digest, now, code.types), *(one for one in kept if one is not mine)]
            if await self._store.put_setting(place, _encoded(kept, now), expect=held):
                break
        else:
            now = 0  # other processes keep writing; the next call tries again
        self._remember(code, now)

    async def find(self, digests: Iterable[str]) -> dict[str, Code]:
        """The lists with these digests that are still kept."""
        wanted = {digest for digest in digests if _DIGEST.fullmatch(digest)}
        unknown = {_place_of(digest) for digest in wanted if digest not in self._known}
        for held in await asyncio.gather(*(self._store.setting(place) for place in unknown)):
            for one in _decode(held) if held else []:
                if one.digest in wanted:
                    self._remember(Code(one.types), one.used_at)
        return {digest: self._known[digest][0] for digest in wanted if digest in self._known}

    def _remember(self, code: Code, used_at: int) -> None:
        self._known.pop(code.digest, None)
        self._known[code.digest] = (code, used_at)
        while len(self._known) > _MOST_REMEMBERED:
            del self._known[next(iter(self._known))]


def _place_of(digest: str) -> str:
    return f"codes-{digest[:1]}"


def _encoded(kept: list[_Kept], now: int) -> bytes:
    """The newest of them, as many as there is room for."""
    kept = [one for one in kept if one.used_at > now - _UNUSED_MS]
    kept.sort(key=lambda one: -one.used_at)
    sizes = [len(_encode(one)) + 1 for one in kept]
    while sum(sizes) > _MOST_BYTES_OF_ALL and len(kept) > 1:
        kept.pop()
        sizes.pop()
    return _encode(kept)


def check_code(code: Code) -> None:
    """Refuse a list that is too long, or names what no task type can be called."""
    for name, version in code.types:
        if name != "*":
            check_name(name.removesuffix("*"), field="types")
        if not 0 <= version < 2**63:
            raise InvalidSubmission(
                f"Task type {name!r}: version {version} is not 0 to 2^63 - 1.", field="types"
            )
    size = len(_encode(code.types))
    if size > MOST_BYTES:
        raise InvalidSubmission(
            f"The list of a worker's {len(code.types):,} task types takes {size:,} bytes, the "
            f"limit is {MOST_BYTES:,}. Name patterns, such as shop.*, or the catch-all *.",
            field="types",
        )
