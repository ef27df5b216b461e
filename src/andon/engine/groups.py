"""Groups with a record (docs/rulings.md, R41): admits their members, seals them, deletes them.

The records are notes of the store, spread over scopes by a hash of the group's id; each is written
by compare and set, and read anew for each call that lets members in."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol
from zlib import crc32

import msgspec

from andon.contract.notes import NoteName, NotePut, PutNote
from andon.contract.queries import Page, Query
from andon.contract.store import Store
from andon.engine.group_news import NewsOfGroups
from andon.lifecycle.admission import check_key
from andon.lifecycle.groups import (
    KEPT_MORE_MS,
    let_in,
    may_go,
    news_of,
    reprioritised,
    sealed,
    told,
)
from andon.model.errors import (
    AndonError,
    GroupNotFound,
    InvalidSubmission,
    StoreError,
    StoreUnavailable,
)
from andon.model.groups import GROUP_NOTES, GroupRecord
from andon.model.words import LIVE

SCOPES = 64
"""How many scopes the records are spread over; a list reads one at a time."""

_ATTEMPTS = 50
"""How often a record is decided on anew when others keep writing it."""

_MOST_REMEMBERED = 10_000
"""How many groups' records this process remembers."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(GroupRecord).decode


class Wish(NamedTuple):
    """A member that wants to be let in."""

    group: str
    owner: str
    expires_at: int | None  #: until when its own record is kept, ms UTC, if that is known


def note_of(group: str) -> NoteName:
    """The note in which a group is kept."""
    return NoteName(GROUP_NOTES, scope_of(crc32(group.encode())), group)


def scope_of(number: int) -> str:
    """The scope of this number, of all there are."""
    return f"{number % SCOPES:02}"


class Groups:
    """The group records of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.news = NewsOfGroups(store)
        """What happened to groups, for callers that follow them."""
        self._swept = 0  #: the scope that was swept last
        self._after: dict[str, str] = {}
        self._known: OrderedDict[str, tuple[GroupRecord, bytes]] = OrderedDict()
        """Records as they were last read or written; the store may have newer ones."""

    def note_for(self, wish: Wish, now: int) -> PutNote:
        """The note of a group after it has let this member in, made from the remembered record of
        the group, or as if it had none. The store compares it with what it has. Raises `AndonError`
        if the member would be refused."""
        group, owner, expires_at = wish
        found, value = self._known.get(group, (None, None))
        if found is None:
            check_key(group, field="group")
            check_key(owner, field="group_owner")
        new = let_in(group, found, owner, expires_at, now)
        if new is found:
            return PutNote(note_of(group), value, value)
        encoded = _encode(new)
        self._remember(group, new, encoded)
        return PutNote(note_of(group), encoded, value)

    def forget(self, groups: Iterable[str]) -> None:
        """Forget the remembered records of groups: they were not written, or have changed."""
        for group in groups:
            self._known.pop(group, None)

    def _remember(self, group: str, record: GroupRecord, encoded: bytes) -> None:
        self._known[group] = record, encoded
        if len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)

    async def let_in(self, wishes: Sequence[Wish]) -> list[AndonError | None]:
        """Let members in, whose records are to be written within half a minute. Returns the error
        of each that is refused."""
        answers: dict[tuple[str, str], AndonError | None] = {}
        until: dict[tuple[str, str], int | None] = {}
        for wish in wishes:
            pair = wish.group, wish.owner
            until[pair] = max(until.get(pair) or 0, wish.expires_at or 0) or None
        left = list(until)
        for _ in range(_ATTEMPTS):
            left = await self._let_in(left, until, answers)
            if not left:
                break
        for pair in left:
            answers[pair] = StoreUnavailable(f"Group {pair[0]!r} keeps changing; try again.")
        return [answers[wish.group, wish.owner] for wish in wishes]

    async def _let_in(
        self,
        pairs: Sequence[tuple[str, str]],
        until: dict[tuple[str, str], int | None],
        answers: dict[tuple[str, str], AndonError | None],
    ) -> list[tuple[str, str]]:
        """Decide on each once. Returns those to be decided again."""
        names: list[tuple[tuple[str, str], NoteName]] = []
        for pair in pairs:
            try:
                check_key(pair[0], field="group")
                check_key(pair[1], field="group_owner")
                names.append((pair, note_of(pair[0])))
            except InvalidSubmission as error:
                answers[pair] = error
        values = await self._store.notes([name for _, name in names])
        now = self._store.now()
        puts: dict[str, tuple[tuple[str, str], GroupRecord, bytes, PutNote]] = {}
        again: list[tuple[str, str]] = []
        for (pair, name), value in zip(names, values, strict=True):
            group, owner = pair
            if group in puts:  # another owner's member of the same call came first
                again.append(pair)
                continue
            try:
                found = None if value is None else _decoded(group, value)
                new = let_in(group, found, owner, until[pair], now)
            except AndonError as error:
                answers[pair] = error
                continue
            if new is not found:
                encoded = _encode(new)
                puts[group] = pair, new, encoded, PutNote(name, encoded, value)
            elif value is not None:
                answers[pair] = None
                self._remember(group, new, value)
        if not puts:
            return again
        outcomes = await self._store.put_notes([put for *_, put in puts.values()])
        for (pair, new, encoded, _), outcome in zip(puts.values(), outcomes, strict=True):
            if outcome is NotePut.OTHER:
                again.append(pair)
            elif outcome is NotePut.WRITTEN:
                answers[pair] = None
                self._remember(pair[0], new, encoded)
            else:
                answers[pair] = InvalidSubmission(
                    f"No record can be kept of group {pair[0]!r}.", field="group"
                )
        return again

    async def get(self, group: str) -> GroupRecord:
        """The record of a group. Raises `GroupNotFound`."""
        found, _ = await self._read(group)
        return found

    async def seal(self, group: str) -> GroupRecord:
        """Let no more members in, for good. Returns the record. Repeating it changes nothing.
        Raises `GroupNotFound`."""
        return await self._change(group, lambda found: sealed(found, self._store.now()))

    async def reprioritised(self, group: str, priority: int, changed: int) -> None:
        """Write to the group log that so many members were given this priority. Raises
        `GroupNotFound`."""
        now = self._store.now()
        await self._change(group, lambda found: reprioritised(found, priority, changed, now))

    async def _change(
        self, group: str, change: Callable[[GroupRecord], GroupRecord]
    ) -> GroupRecord:
        """Write the changed record, then its news to the group log. Returns the record. If the
        process dies in between, the news is written by a repeat of the call, or by the sweep."""
        self.forget([group])
        for _ in range(_ATTEMPTS):
            found, value = await self._read(group)
            new = change(found)
            if new is found and not found.untold:
                return found
            written = _encode(new)
            if new is not found:
                [outcome] = await self._store.put_notes([PutNote(note_of(group), written, value)])
                if outcome is not NotePut.WRITTEN:
                    continue
            return await self._tell(group, new, written if new is not found else value)
        raise StoreUnavailable(f"Group {group!r} keeps changing; try again.")

    async def _tell(self, group: str, found: GroupRecord, value: bytes) -> GroupRecord:
        """Append the record's pending news to the group log. Returns the record after that. If the
        record has changed meanwhile, the next caller appends the news once more, as a repeat."""
        news = news_of(group, found)
        for one in news:
            await self.news.append(one)
        new = told(found, news)
        await self._store.put_notes([PutNote(note_of(group), _encode(new), value)])
        return new

    async def _read(self, group: str) -> tuple[GroupRecord, bytes]:
        try:
            check_key(group, field="group")
        except InvalidSubmission:
            raise GroupNotFound(group) from None
        [value] = await self._store.notes([note_of(group)])
        if value is None:
            raise GroupNotFound(group)
        return _decoded(group, value), value

    async def sweep(self, limit: int = 100) -> int:
        """Of the next few groups, delete the records of those that have expired and have no member
        left. Returns how many. One that still has members is looked at again an hour later."""
        scope = scope_of(self._swept)
        page = await self._store.list_notes(GROUP_NOTES, scope, self._after.get(scope, ""), limit)
        if len(page) < limit:
            self._after.pop(scope, None)
            self._swept += 1
        else:
            self._after[scope] = page[-1].key
        now, puts = self._store.now(), list[PutNote]()
        for note in page:
            try:
                record = _decode(note.value)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # the error is raised to callers that ask for the group
            if record.untold:
                await self._tell(note.key, record, note.value)
            if not may_go(record, now):
                continue
            members = await self._store.find(Query(group=note.key, limit=1))
            kept = bool(members.tasks or members.cursor)
            later = msgspec.structs.replace(record, expires_at=now + KEPT_MORE_MS)
            name = NoteName(GROUP_NOTES, scope, note.key)
            puts.append(PutNote(name, _encode(later) if kept else None, note.value))
        outcomes = await self._store.put_notes(puts) if puts else []
        return sum(
            put.value is None and outcome is NotePut.WRITTEN
            for put, outcome in zip(puts, outcomes, strict=True)
        )


def _decoded(group: str, value: bytes) -> GroupRecord:
    try:
        return _decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"What is kept of group {group!r} does not decode: {error}") from None


class Finds(Protocol):
    """The part of an `Engine` that lists tasks."""

    async def find(self, query: Query) -> Page:
        """A page of tasks."""
        ...


class GroupEnds:
    """Tells a reader of the event log when a group is resolved: a member has ended, and none is
    live.

    It remembers the position of the first live member of each group, so that all ends of a group of
    n read about n records, and not n each.
    """

    def __init__(self, engine: Finds) -> None:
        self._engine = engine
        self._from: OrderedDict[str, str] = OrderedDict()

    async def is_resolved(self, group: str) -> bool:
        """Whether no member is live; to be called after each end of a member."""
        cursor = self._from.pop(group, "")
        while True:
            query = Query(group=group, states=tuple(LIVE), limit=1, cursor=cursor)
            page = await self._engine.find(query)
            if page.tasks:
                self._from[group] = cursor
                if len(self._from) > _MOST_REMEMBERED:
                    self._from.popitem(last=False)
                return False
            if not page.cursor:
                return True
            cursor = page.cursor

    def revived(self, group: str) -> None:
        """A member was rerun: it may be before the first live one."""
        self._from.pop(group, None)
