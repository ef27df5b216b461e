"""The delivery cursor of each sink, kept in the store as a note.

A cursor is moved only after delivery, so a crash in between delivers again and loses nothing. The
note also says which process delivers now, and for how long it holds that right: two services with
the same sinks do not both deliver, and if one dies the other goes on when its hold is over. Nothing
is written while there is nothing to deliver.
"""

import asyncio
import secrets
from typing import NamedTuple

import msgspec

from andon.contract.notes import NoteName, NotePut, PutNote
from andon.contract.store import Store
from andon.model.errors import StoreError

CURSOR_NOTES = "messages"
"""The kind of the notes in which cursors are kept."""

HOLD_MS = 15_000
"""How long a process may deliver without renewing its hold."""

KEEP_EVERY_S = HOLD_MS / 3_000
"""How often a process that holds it and only waits renews its hold."""

_ATTEMPTS = 20


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The note of a sink. Times are ms UTC."""

    position: str
    holder: str = ""
    held_until: int = 0


class Taken(NamedTuple):
    """The outcome of asking for the hold."""

    position: str  #: from here on
    free_at: int = 0  #: when it may be asked again, ms UTC; 0: it is ours


class CursorLost(Exception):
    """Another process delivers to the sink now."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Kept).decode


class Cursor:
    """The cursor of one sink, as one process sees it."""

    def __init__(self, store: Store, sink: str, *, holder: str = "") -> None:
        self._store = store
        self._name = NoteName(CURSOR_NOTES, "", sink)
        self._holder = holder or secrets.token_hex(8)
        self._stored: bytes | None = None
        self._kept = Kept(position="")
        self._turn = asyncio.Lock()

    async def begin(self, position: str) -> str:
        """The sink's position; this one if it is new."""
        for _ in range(_ATTEMPTS):
            await self._read()
            if self._stored is not None or await self._write(Kept(position=position)):
                return self._kept.position
        raise self._contended()

    async def take(self) -> Taken:
        """Take the hold of the sink, to deliver from its position; or return until when another
        process has it. Raises `StoreError`."""
        for _ in range(_ATTEMPTS):
            await self._read()
            kept, now = self._kept, self._store.now()
            if kept.holder != self._holder and kept.held_until > now:
                return Taken(kept.position, kept.held_until)
            if self._is_held_for_long(now) or await self._write(self._holding(kept.position)):
                return Taken(self._kept.position)
        raise self._contended()

    async def keep(self) -> None:
        """Renew the hold. Raises `CursorLost`."""
        if self._is_held_for_long(self._store.now()):
            return
        async with self._turn:
            if not self._is_held_for_long(self._store.now()):
                await self._put(self._kept.position)

    async def move(self, position: str) -> None:
        """Move the cursor to this position, before which all is delivered, and renew the hold.
        Raises `CursorLost`."""
        async with self._turn:
            if position != self._kept.position:
                await self._put(position)

    async def release(self) -> None:
        """Let another process deliver at once, if this one did."""
        if self._kept.holder == self._holder and self._stored is not None:
            await self._write(Kept(position=self._kept.position))

    def _is_held_for_long(self, now: int) -> bool:
        kept = self._kept
        return kept.holder == self._holder and kept.held_until - now > HOLD_MS // 2

    async def _put(self, position: str) -> None:
        if await self._write(self._holding(position)):
            return
        # The reply to an earlier write may have been lost: then it is ours all the same.
        await self._read()
        if self._kept.holder != self._holder or not await self._write(self._holding(position)):
            raise CursorLost(self._name.key)

    def _holding(self, position: str) -> Kept:
        until = self._store.now() + HOLD_MS
        return Kept(position=position, holder=self._holder, held_until=until)

    async def _read(self) -> None:
        [value] = await self._store.notes([self._name])
        self._stored = value
        if value is None:
            self._kept = Kept(position="")
            return
        try:
            self._kept = _decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(
                f"The position of messages for {self._name.key!r} does not decode: {error}"
            ) from None

    async def _write(self, kept: Kept) -> bool:
        value = _encode(kept)
        [outcome] = await self._store.put_notes([PutNote(self._name, value, self._stored)])
        if outcome is NotePut.INVALID:
            raise StoreError(f"The position of messages for {self._name.key!r} cannot be written.")
        if outcome is NotePut.OTHER:
            return False
        self._stored, self._kept = value, kept
        return True

    def _contended(self) -> StoreError:
        return StoreError(f"The position of messages for {self._name.key!r} keeps changing.")
