"""The event log: one list per partition, read by cursor, trimmed from its old end.

A cursor is the mark of the namespace, by which a cursor of another log is recognised, and a place
per partition. The server checks the places.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from andon.contract.queries import EventPage
from andon.lifecycle.constants import EVENTS_KEPT_MS
from andon.stores.kit.log_position import Place, place_of
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.records import event_of

if TYPE_CHECKING:
    from andon.model.task import TaskEvent

_BEYOND = 10**15
"""A position that no log reaches, and up to which scripts count exactly."""


class _Part(NamedTuple):
    """The script's answer for one partition."""

    now: int  #: ms UTC
    mark: str
    start: int
    stop: int
    begun: int
    is_elsewhere: bool  #: not where the reader was
    check: str  #: of the event before the place after these
    events: list[bytes]

    @property
    def after(self) -> Place:
        return Place(self.begun + len(self.events), self.check)


async def _read(at: Partitions, partition: int, place: Place | None, limit: int) -> _Part:
    asked = (None, limit) if place is None else (place.position, limit, place.check)
    reply = await at.run("events", partition, asked)
    now, mark, start, stop, begun, elsewhere, check, *events = reply
    numbers = int(start), int(stop), int(begun)
    return _Part(now, mark.decode(), *numbers, bool(elsewhere), check.decode(), events)


async def read(at: Partitions, cursor: str, limit: int) -> EventPage:
    """Events after the cursor; a cursor to events that are not kept here reads on with a gap."""
    mark, asked = _places(cursor, at.count)
    found: list[TaskEvent] = []
    after: list[Place] = []
    gap = bool(cursor) and asked is None
    for partition in range(at.count):
        left = limit - len(found)
        part = await _read(at, partition, None if asked is None else asked[partition], left)
        if partition == 0:
            if asked is not None and mark != part.mark:
                gap, asked = True, None
                part = await _read(at, partition, None, left)
            mark = part.mark
        gap = gap or part.is_elsewhere
        found += map(event_of, part.events)
        after.append(part.after)
    return EventPage(tuple(found), _cursor(mark, after), gap)


async def end(at: Partitions) -> str:
    """The cursor after the newest event."""
    newest = Place(_BEYOND)
    parts = await asyncio.gather(*(_read(at, number, newest, 0) for number in range(at.count)))
    return _cursor(parts[0].mark, [part.after for part in parts])


def _places(cursor: str, partitions: int) -> tuple[str, list[Place] | None]:
    mark, *parts = cursor.split(".")
    places = [place for part in parts if (place := place_of(part, _BEYOND)) is not None]
    return (mark, places) if len(places) == len(parts) == partitions else ("", None)


def _cursor(mark: str, places: Sequence[Place]) -> str:
    return ".".join([mark, *map(str, places)])


async def trim(at: Partitions, limit: int, max_events: int) -> int:
    """Drop up to `limit` events that are too old or too many. Stubs expire by themselves."""
    most = max(max_events // at.count, 1)
    dropped = 0
    for partition in range(at.count):
        if not await _may_be_past(at, partition, most):
            continue
        part = await _read(at, partition, None, min(limit - dropped, 1_000))
        old = part.now - EVENTS_KEPT_MS
        count = max(part.stop - part.start - most, 0)
        while count < len(part.events) and event_of(part.events[count]).at < old:
            count += 1
        count = min(count, limit - dropped)
        if count > 0:
            dropped += (await at.run("trim", partition, (part.start + count,)))[1]
    return dropped


async def _may_be_past(at: Partitions, partition: int, most: int) -> bool:
    """Whether a log is too long, or begins with an event that is too old."""
    first = await at.look(partition, b"LINDEX", "log", 0)
    if first is None:
        return False
    if at.clock.now() - event_of(first).at >= EVENTS_KEPT_MS:
        return True
    return await at.look(partition, b"LLEN", "log") > most
