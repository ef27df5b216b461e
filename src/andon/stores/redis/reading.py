"""Reading records, pages, histories, counts and the event log."""

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from andon.lifecycle.apply import is_dead_letter
from andon.model.errors import ConfigurationError
from andon.model.fleet import QueueStats
from andon.model.task import Task, TaskEvent
from andon.model.words import State
from andon.stores.base import MAX_BATCH, SCAN_BUDGET, EventPage, History, Page, Query
from andon.stores.redis.records import event_of, task_of

if TYPE_CHECKING:
    from andon.stores.redis.store import RedisStore

EVENT_AGE_MS = 7 * 86_400_000
"""How long events are kept by default (R12)."""

_ROW = 7
_Place = tuple[int, str]


def record_at(reply: list[Any], index: int) -> Task | None:
    """The record at a place of a reply that hands out records."""
    start = 1 + index * _ROW
    return task_of(reply[start].decode(), reply[start + 1 : start + _ROW])


def history(task_id: str, reply: list[Any]) -> History:
    """All moves: those kept apart if there are any, else those that the status carries."""
    task = task_of(task_id, reply[2:])
    if task is None:
        return History(())
    if reply[-1].endswith(b"h"):  # the version tells that they are kept apart
        events = [event_of(packed) for packed in reply[1] if packed]
    else:
        events = [msgspec.structs.replace(e, task=task_id) for e in task.status.events]
    return History(tuple(events), task.status.revision - len(events))


# --- pages ---


async def find(store: "RedisStore", query: Query) -> Page:
    """A page of records by creation, along the axis that fits the query best."""
    lists = await _axis(store, query)
    place = _parse(query.cursor)
    found: list[Task] = []
    looked = 0
    while True:
        most = min(MAX_BATCH, max(query.limit - len(found), 20))
        places = await _places(store, lists, query.newest_first, place, most)
        if not places:
            return Page(tuple(found))
        records = await store.get([task_id for _, task_id in places])
        for here, task in zip(places, records, strict=True):
            if len(found) >= query.limit or looked >= SCAN_BUDGET:
                assert place is not None
                return Page(tuple(found), f"{place[0]}:{place[1]}")
            looked, place = looked + 1, here
            if task is not None and _matches(query, task):
                found.append(task)


async def _places(
    store: "RedisStore",
    lists: Sequence[str],
    newest: bool,  # noqa: FBT001
    place: _Place | None,
    most: int,
) -> list[_Place]:
    """The next places of all lists in all partitions, merged; short only at the end."""
    created, after = place if place is not None else (None, "")
    replies = await store.everywhere("places", (newest, created, after, most, lists))
    rows = [row for reply in replies for row in reply[1:]]
    walks = [
        [(int(row[i]), row[i + 1].decode()) for i in range(0, len(row), 2)] for row in rows
    ]
    # A list that was cut short bounds what is known to come next; the first `most` are known.
    merged = heapq.merge(*walks, reverse=newest)
    unique = dict.fromkeys(merged)
    return list(unique)[:most]


async def _axis(store: "RedisStore", query: Query) -> list[str]:
    if query.key is not None:
        return [f"key:{query.key}"]
    if query.group is not None:
        return [f"group:{query.group}"]
    if query.worker is not None:
        return [f"worker:{query.worker}"]
    names = [query.queue] if query.queue is not None else await _queue_names(store)
    if query.dead_letters:
        return [f"dead:{name}" for name in names]
    return [f"state:{name}|{state.value}" for name in names for state in query.states or State]


async def _queue_names(store: "RedisStore") -> list[str]:
    replies = await store.everywhere("queues", ())
    return sorted({name.decode() for reply in replies for name in reply[1:]})


def _parse(cursor: str) -> _Place | None:
    if not cursor:
        return None
    created, _, task_id = cursor.partition(":")
    if not created.isdecimal() or not task_id:
        raise ConfigurationError(f"{cursor!r} is not a cursor that this store gave.")
    return int(created), task_id


def _matches(query: Query, task: Task) -> bool:
    definition, status = task.definition, task.status
    return (
        (not query.states or status.state in query.states)
        and (query.queue is None or definition.queue == query.queue)
        and (query.name is None or definition.name == query.name)
        and (query.worker is None or status.worker == query.worker)
        and (query.tag is None or query.tag in definition.tags)
        and (query.key is None or definition.key == query.key)
        and (query.group is None or definition.group == query.group)
        and (not query.dead_letters or is_dead_letter(task, status))
    )


# --- counts ---


def stats(replies: Sequence[list[Any]]) -> list[QueueStats]:
    """Counts per queue, summed over the partitions."""
    counts: dict[str, dict[str, int]] = {}
    parked: dict[str, int] = {}
    dead: dict[str, int] = {}
    oldest: dict[str, int] = {}
    for reply in replies:
        for name, held, letters, since, *by_state in reply[1:]:
            queue = name.decode()
            of = counts.setdefault(queue, {})
            for state, count in zip(State, by_state, strict=True):
                if count:
                    of[state.value] = of.get(state.value, 0) + count
            parked[queue] = parked.get(queue, 0) + held
            dead[queue] = dead.get(queue, 0) + letters
            if since:
                oldest[queue] = min(int(since), oldest.get(queue, int(since)))
    return [
        QueueStats(
            queue=queue,
            counts=counts[queue],
            oldest_pending_at=oldest.get(queue),
            dead_letters=dead[queue],
            parked=parked[queue],
        )
        for queue in sorted(counts)
    ]


# --- the event log ---


async def events(store: "RedisStore", cursor: str, limit: int) -> EventPage:
    """Events after the cursor; a cursor that names nothing kept here reads on with a gap."""
    mark, asked = _positions(cursor, store.partitions)
    found: list[TaskEvent] = []
    positions: list[int] = []
    gap = bool(cursor) and asked is None
    for partition in range(store.partitions):
        wanted = None if asked is None else asked[partition]
        reply = await store.run("events", partition, (wanted, limit - len(found)))
        own = reply[1].decode()
        if partition == 0:
            if asked is not None and mark != own:
                gap, asked = True, None
                reply = await store.run("events", partition, (None, limit - len(found)))
            mark = own
        begun = int(reply[4])
        gap = gap or (asked is not None and begun != asked[partition])
        page = [event_of(packed) for packed in reply[5:]]
        found += page
        positions.append(begun + len(page))
    return EventPage(tuple(found), _cursor(mark, positions), gap)


async def events_end(store: "RedisStore") -> str:
    """The cursor after the newest event."""
    replies = await store.everywhere("events", (None, 0))
    return _cursor(replies[0][1].decode(), [int(reply[3]) for reply in replies])


def _positions(cursor: str, partitions: int) -> tuple[str, list[int] | None]:
    mark, *numbers = cursor.split(".")
    if len(numbers) != partitions or not all(number.isdecimal() for number in numbers):
        return "", None
    return mark, [int(number) for number in numbers]


def _cursor(mark: str, positions: Sequence[int]) -> str:
    return ".".join([mark, *map(str, positions)])


async def trim(store: "RedisStore", limit: int, max_events: int) -> int:
    """Drop up to `limit` events that are too old or too many. Stubs expire by themselves."""
    most = max(max_events // store.partitions, 1)
    dropped = 0
    for partition in range(store.partitions):
        reply = await store.run("events", partition, (None, min(limit - dropped, 1_000)))
        start, stop = int(reply[2]), int(reply[3])
        old = reply[0] - EVENT_AGE_MS
        count = max(stop - start - most, 0)
        page = reply[5:]
        while count < len(page) and event_of(page[count]).at < old:
            count += 1
        count = min(count, limit - dropped)
        if count > 0:
            dropped += (await store.run("trim", partition, (start + count,)))[1]
    return dropped

