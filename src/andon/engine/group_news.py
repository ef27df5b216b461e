"""The log of what happened to groups, for callers that follow them; it is made of notes.

The event log has only moves of tasks, and sealing a group is not one. Each of these happenings is a
note whose key is the number after that of the last, written only where there is none yet. So
concurrent writers get consecutive numbers, no number is left out, and a reader in order misses
nothing. A happening stands in its group's record until it stands here (`engine.groups`).

Notes of 100 numbers share a scope, since a store may read all of a scope for a list. A note also
says where the log begins and ends; it is a hint and may be behind.
"""

from typing import NamedTuple

import msgspec

from andon.contract.notes import NoteName, NotePut, PutNote
from andon.contract.store import Store
from andon.lifecycle.constants import EVENTS_KEPT_MS
from andon.model.errors import StoreError, StoreUnavailable
from andon.model.groups import NEWS_NOTES, GroupNews

_BLOCK = 100
_ATTEMPTS = 50
_ENDS = NoteName(NEWS_NOTES, "", "ends")


class _Ends(msgspec.Struct, frozen=True, array_like=True):
    first: int = 1  #: number of the oldest that is kept
    last: int = 0  #: number of the newest, or of one before it


class Item(NamedTuple):
    """One of the news."""

    number: int  #: from 1 on, without gaps
    news: GroupNews | None  #: None: it does not decode


class Read(NamedTuple):
    """What came after a number."""

    items: list[Item]
    gap: bool  #: some of them are not kept any more


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(GroupNews).decode
_decode_ends = msgspec.msgpack.Decoder(_Ends).decode


class NewsOfGroups:
    """The news of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last = 0  #: the newest that this process knows

    async def append(self, news: GroupNews) -> None:
        """Append it."""
        value = _encode(news)
        for _ in range(_ATTEMPTS):
            number = await self.end() + 1
            [outcome] = await self._store.put_notes([PutNote(_name(number), value, None)])
            if outcome is NotePut.INVALID:
                raise StoreError(f"What happened to group {news.group!r} cannot be written.")
            if outcome is NotePut.WRITTEN:
                self._last = number
                await self._note_end(number)
                return
        raise StoreUnavailable("The news of groups keep growing; try again.")

    async def end(self) -> int:
        """Number of the newest; 0 if there was never one."""
        # The newest number that this process knows may be a week old, and all later ones deleted
        # since, except the newest, which the hint leads to.
        _, ends = await self._ends()
        self._last = max(self._last, ends.last)
        while found := await self._block(self._last, _BLOCK):
            self._last = found[-1].number
        return self._last

    async def after(self, number: int, limit: int = _BLOCK) -> Read:
        """Up to so many after a number, in order; none at the end."""
        found = await self._block(number, limit)
        if found:
            return Read(found, found[0].number > number + 1)
        _, ends = await self._ends()
        if ends.first <= number + 1:
            return Read([], False)
        # Its block is not kept any more.
        return Read(await self._block(ends.first - 1, limit), True)

    async def trim(self, limit: int = 100) -> int:
        """Delete what is older than the moves that the event log keeps, except the newest. Returns
        how many were deleted."""
        value, ends = await self._ends()
        if value is None:
            return 0
        names = [_name(number) for number in range(ends.first, min(ends.first + limit, ends.last))]
        values = await self._store.notes(names) if names else []
        oldest, puts = self._store.now() - EVENTS_KEPT_MS, list[PutNote]()
        for name, stored in zip(names, values, strict=True):
            news = None if stored is None else _decoded(stored)
            if news is not None and news.happening.at >= oldest:
                break
            puts.append(PutNote(name, None, stored))
        if not puts:
            return 0
        # First the new beginning is noted, then older news are deleted: a reader in between learns
        # that it has missed some.
        begun = _Ends(ends.first + len(puts), ends.last)
        [outcome] = await self._store.put_notes([PutNote(_ENDS, _encode(begun), value)])
        if outcome is not NotePut.WRITTEN:
            return 0
        await self._store.put_notes([put for put in puts if put.expect is not None])
        return len(puts)

    async def _block(self, number: int, limit: int) -> list[Item]:
        """What comes after a number, as far as it is in the block of the next one."""
        name = _name(number + 1)
        after = _key(number)
        page = await self._store.list_notes(NEWS_NOTES, name.scope, after, limit)
        return [Item(int(note.key), _decoded(note.value)) for note in page]

    async def _ends(self) -> tuple[bytes | None, _Ends]:
        [value] = await self._store.notes([_ENDS])
        if value is None:
            return None, _Ends()
        try:
            return value, _decode_ends(value)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"Where the news of groups end does not decode: {error}") from None

    async def _note_end(self, number: int) -> None:
        """A hint: if it is not written, the search for the end begins at an earlier number."""
        value, ends = await self._ends()
        if ends.last < number:
            new = _Ends(ends.first, number)
            await self._store.put_notes([PutNote(_ENDS, _encode(new), value)])


def _key(number: int) -> str:
    return f"{number:016}"


def _name(number: int) -> NoteName:
    return NoteName(NEWS_NOTES, str((number - 1) // _BLOCK), _key(number))


def _decoded(value: bytes) -> GroupNews | None:
    try:
        return _decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
