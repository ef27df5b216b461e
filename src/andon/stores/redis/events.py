"""The event log: one list per partition, read by cursor, trimmed from its old end.

A cursor is the mark of the namespace and a position per partition. The mark tells a cursor of
another log, and a position beyond the end one of a log that lost its newest, from one of this log.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.stores.base import EventPage
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.records import event_of

if TYPE_CHECKING:
    from andon.model.task import TaskEvent

EVENT_AGE_MS = 7 * 86_400_000
"""How long events are kept by default (R12)."""


async def read(at: Partitions, cursor: str, limit: int) -> EventPage:
    """Events after the cursor; a cursor that names nothing kept here reads on with a gap."""
    mark, asked = _positions(cursor, at.count)
    found: list[TaskEvent] = []
    positions: list[int] = []
    gap = bool(cursor) and asked is None
    for partition in range(at.count):
        wanted = None if asked is None else asked[partition]
        reply = await at.run("events", partition, (wanted, limit - len(found)))
        own = reply[1].decode()
        if partition == 0:
            if asked is not None and mark != own:
                gap, asked = True, None
                reply = await at.run("events", partition, (None, limit - len(found)))
            mark = own
        begun = int(reply[4])
        gap = gap or (asked is not None and begun != asked[partition])
        page = [event_of(packed) for packed in reply[5:]]
        found += page
        positions.append(begun + len(page))
    return EventPage(tuple(found), _cursor(mark, positions), gap)


async def end(at: Partitions) -> str:
    """The cursor after the newest event."""
    replies = await at.everywhere("events", (None, 0))
    return _cursor(replies[0][1].decode(), [int(reply[3]) for reply in replies])


def _positions(cursor: str, partitions: int) -> tuple[str, list[int] | None]:
    mark, *numbers = cursor.split(".")
    if len(numbers) != partitions or not all(number.isdecimal() for number in numbers):
        return "", None
    return mark, [int(number) for number in numbers]


def _cursor(mark: str, positions: Sequence[int]) -> str:
    return ".".join([mark, *map(str, positions)])


async def trim(at: Partitions, limit: int, max_events: int) -> int:
    """Drop up to `limit` events that are too old or too many. Stubs expire by themselves."""
    most = max(max_events // at.count, 1)
    dropped = 0
    for partition in range(at.count):
        if not await _may_be_past(at, partition, most):
            continue
        reply = await at.run("events", partition, (None, min(limit - dropped, 1_000)))
        start, stop = int(reply[2]), int(reply[3])
        old = reply[0] - EVENT_AGE_MS
        count = max(stop - start - most, 0)
        page = reply[5:]
        while count < len(page) and event_of(page[count]).at < old:
            count += 1
        count = min(count, limit - dropped)
        if count > 0:
            dropped += (await at.run("trim", partition, (start + count,)))[1]
    return dropped


async def _may_be_past(at: Partitions, partition: int, most: int) -> bool:
    """Whether a log is too long, or begins with an event that is too old."""
    first = await at.look(partition, b"LINDEX", "log", 0)
    if first is None:
        return False
    if at.clock.now() - event_of(first).at >= EVENT_AGE_MS:
        return True
    return await at.look(partition, b"LLEN", "log") > most
