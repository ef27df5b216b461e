"""Reads messages from the event log, from any position on, for every subscriber.

A position is the log's cursor before a page, how many of its moves were dealt with, and how many of
the news of groups (`engine.group_news`), which are a log beside it; what is after it is made into
messages again at each read, so nothing is lost with a process. Readers at the same position share
one reading: those at the end of the log mostly are. A reader that is behind reads for itself, and
costs the memory of one page.

Messages that cannot be made of one move are logged and left out (docs/rulings.md, R36). Errors of
the store are raised, and the reader reads again.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from andon.contract.isolation import each_alone
from andon.coroutines.shared_future import shared
from andon.engine.faults import ANYTHING
from andon.engine.groups import GroupEnds
from andon.model.errors import GroupNotFound, StoreUnavailable
from andon.model.task import Task, TaskEvent
from andon.model.words import TERMINAL
from andon.service.taskcluster.document import kept_of, routes_of
from andon.service.taskcluster.messages.changes import Changes
from andon.service.taskcluster.messages.exchanges import Exchange, Message
from andon.service.taskcluster.messages.rendering import (
    Group,
    Subject,
    artifact_messages,
    ends,
    group_message,
    group_resolved,
    is_of,
    messages_of,
    run_resolved_by,
)

if TYPE_CHECKING:
    from andon.artifacts.base import Artifact
    from andon.engine.local import LocalEngine

log = logging.getLogger("andon.service")

PAGE = 100
"""Moves that are read at once."""

_PAGES_SHARED = 8
_ARTIFACTS = 1_000
_OF_GROUPS = frozenset({Exchange.TASK_GROUP_SEALED, Exchange.TASK_GROUP_PRIORITY_CHANGED})
"""Exchanges whose messages come from a log of their own, the news of groups."""

_COSTLY = frozenset({Exchange.ARTIFACT_CREATED, Exchange.TASK_GROUP_RESOLVED, *_OF_GROUPS})
"""Exchanges whose messages cost one more read for each end, or each page: made only for readers
that want them."""


class Entry(NamedTuple):
    """One move: its messages, and the position after it."""

    position: str
    messages: tuple[Message, ...]


class Page(NamedTuple):
    """Moves after a position, in order."""

    entries: tuple[Entry, ...]
    position: str  #: after them all
    gap: bool = False  #: some before them are not kept any more


_Key = tuple[str, frozenset[Exchange]]


class _Reading(NamedTuple):
    """A page that is read, or was, and which change was the last before it."""

    page: "asyncio.Future[Page]"
    seen: int


class Feed:
    """The messages of one store, for all subscribers of one process."""

    def __init__(self, engine: "LocalEngine", *, retries_as_exceptions: bool = False) -> None:
        self._engine = engine
        self._exact = engine.store.partitions == 1
        self._retries_as_exceptions = retries_as_exceptions
        self._groups = GroupEnds(engine)
        self.changes = Changes(engine)
        self._readings: OrderedDict[_Key, _Reading] = OrderedDict()

    async def end(self) -> str:
        """The position after everything so far."""
        news = await self._engine.group_news.end()
        return _position(await self._engine.events_end(), 0, news)

    def now(self) -> int:
        """The store's clock, ms UTC."""
        return self._engine.now()

    async def read(self, position: str, exchanges: Collection[Exchange]) -> Page:
        """What comes after the position; nothing at the end of the log. The messages of other
        exchanges may be among it. Raises `StoreUnavailable`, and `ConfigurationError` for what is
        no position."""
        key = position, _COSTLY.intersection(exchanges)
        reading, seen = self._readings.get(key), self.changes.seen
        # A read under way may have begun before the change that woke this reader.
        if reading is None or (not reading.page.done() and reading.seen != seen):
            page = asyncio.ensure_future(self._read(position, key[1]))
            reading = self._readings[key] = _Reading(page, seen)
            page.add_done_callback(lambda done: self._keep(key, done))
            while len(self._readings) > _PAGES_SHARED:
                self._readings.popitem(last=False)
        return await shared(reading.page)

    def _keep(self, key: "_Key", done: "asyncio.Future[Page]") -> None:
        """A failed or empty read is repeated for the next reader."""
        failed = done.cancelled() or done.exception() is not None
        reading = self._readings.get(key)
        if (failed or not done.result().entries) and reading and reading.page is done:
            del self._readings[key]

    async def _read(self, position: str, costly: frozenset[Exchange]) -> Page:
        cursor, skip, told = self._parsed(position)
        page = await self._engine.events(cursor, PAGE)
        news = await self._news(page.cursor, told) if costly & _OF_GROUPS else None
        subjects = await self._subjects(page.events[skip:])
        last_ends = _last_ends(page.events, subjects)
        entries: list[Entry] = []
        for number, event in enumerate(page.events, 1):
            if number <= skip:
                continue
            subject = subjects.get(event.task)
            messages: list[Message] = []
            if subject is not None and is_of(event, subject.task):
                messages = await self._messages(event, subject, costly, number in last_ends)
            is_last = number == len(page.events)
            after = (page.cursor, 0) if is_last else (cursor, number)
            entries.append(Entry(_position(*after, told), tuple(messages)))
        if news is None:
            return Page(tuple(entries), _position(page.cursor, 0, told), page.gap)
        return Page((*entries, *news.entries), news.position, page.gap or news.gap)

    async def _news(self, cursor: str, told: int) -> Page | None:
        """What happened to groups as a whole after so many of the news; it comes after the moves
        before the cursor. None if nothing did."""
        found = await self._engine.group_news.after(told, PAGE)
        if not found.items:
            return None
        entries: list[Entry] = []
        for number, news in found.items:
            message = None if news is None else group_message(news)
            if news is None:
                log.error("Number %d of the news of groups cannot be read, nor told.", number)
            told_of = () if message is None else (message,)
            entries.append(Entry(_position(cursor, 0, number), told_of))
        return Page(tuple(entries), entries[-1].position, found.gap)

    def _parsed(self, position: str) -> tuple[str, int, int]:
        """Cursor, how many moves after it to leave out, and how many of the news. With several
        partitions pages are not the same each time: then the whole page comes again."""
        cursor, *counts = position.rsplit("~", 2)
        numbers = [
            int(count) if count.isascii() and count.isdecimal() and len(count) < 16 else 0
            for count in (*counts, "0", "0")[:2]
        ]
        return cursor, numbers[0] if self._exact else 0, numbers[1]

    async def _subjects(self, events: Sequence[TaskEvent]) -> dict[str, Subject]:
        """The tasks of the face among those that the moves are about."""
        ids = list(dict.fromkeys(event.task for event in events))

        def unreadable(task_id: str, why: str) -> Task | None:
            log.error("No message is made of task %s, which cannot be read: %s", task_id, why)
            return None

        found: dict[str, Subject] = {}
        for task in await each_alone(self._engine.get, ids, unreadable, ANYTHING):
            kept = None if task is None else kept_of(task)
            if task is not None and kept is not None:
                # Messages must not keep the whole definition of a task in memory.
                few = replace(kept, tags=kept.tags.copy(), payload=Raw(b"null"))
                found[task.id] = Subject(task, few, routes_of(task))
        return found

    async def _messages(
        self, event: TaskEvent, subject: Subject, costly: frozenset[Exchange], is_last_end: bool
    ) -> list[Message]:
        made: list[Message] = []
        try:
            if Exchange.ARTIFACT_CREATED in costly and run_resolved_by(event) is not None:
                made += await self._of_artifacts(event, subject)
            made += messages_of(event, subject, retries_as_exceptions=self._retries_as_exceptions)
            group = subject.task.definition.group
            if group and event.source in TERMINAL and event.target not in TERMINAL:
                self._groups.revived(group)
            elif group and is_last_end and Exchange.TASK_GROUP_RESOLVED in costly:
                made += await self._of_group(event, subject, group)
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("Move %d of task %s cannot be told.", event.revision, event.task)
        return made

    async def _of_artifacts(self, event: TaskEvent, subject: Subject) -> list[Message]:
        number = run_resolved_by(event)
        assert number is not None
        try:
            kept = await self._engine.artifacts()
            found: list[Artifact] = []
            after = ""
            while True:
                page = await kept.page(event.task, number, after=after, limit=_ARTIFACTS)
                found += [artifact for artifact in page.artifacts if artifact.kind != "file"]
                after = page.after
                if not after:
                    break
        except StoreUnavailable:
            raise
        except Exception as error:
            log.error("The artifacts of task %s cannot be told of: %s", event.task, error)
            return []
        return artifact_messages(event, subject, found)

    async def _of_group(self, event: TaskEvent, subject: Subject, group: str) -> list[Message]:
        if not await self._groups.is_resolved(group):
            return []
        kept = subject.kept
        about = Group(group, kept.scheduler_id, subject.task.status.expires_at)
        try:
            record = await self._engine.group(group)
            about = Group(group, record.owner, record.expires_at, record.sealed_at)
        except GroupNotFound:
            pass  # it was deleted with its last member, whose own data is enough
        return [group_resolved(event, about)]


def _position(cursor: str, count: int, news: int) -> str:
    return f"{cursor}~{count}~{news}"


def _last_ends(events: Sequence[TaskEvent], subjects: dict[str, Subject]) -> set[int]:
    """The numbers of the moves that are the last of the page to end a member of a group: only there
    it is asked whether the group is resolved."""
    last: dict[str, int] = {}
    for number, event in enumerate(events, 1):
        subject = subjects.get(event.task)
        group = None if subject is None else subject.task.definition.group
        if group and ends(event):
            last[group] = number
    return set(last.values())
