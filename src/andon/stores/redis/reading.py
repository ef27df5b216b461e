"""Reading records, pages, histories and counts."""

import asyncio
import heapq
from collections.abc import Sequence

import msgspec

from andon.model.errors import ConfigurationError
from andon.model.fleet import QueueStats
from andon.model.task import Task
from andon.model.words import State
from andon.stores.base import MAX_BATCH, SCAN_BUDGET, History, Page, Query
from andon.stores.matching import matches
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.records import event_of, is_apart, task_of

_ROW = 7
_Place = tuple[int, str]


async def read(at: Partitions, ids: Sequence[str]) -> list[Task | None]:
    """Records in the order asked for."""
    found: list[Task | None] = [None] * len(ids)

    async def one(partition: int, places: list[int]) -> None:
        reply = await at.run("get", partition, [ids[place] for place in places])
        for i, place in enumerate(places):
            start = 1 + i * _ROW
            found[place] = task_of(ids[place], reply[start + 1 : start + _ROW])

    await asyncio.gather(*(one(p, places) for p, places in at.places(ids).items()))
    return found


async def states(at: Partitions, ids: Sequence[str]) -> list[State | None]:
    """States of records, or those that ones deleted within the window ended in."""
    replies = await at.spread("states", ids, ids)
    return [State(reply.decode()) if reply else None for reply in replies]


async def history(at: Partitions, task_id: str) -> History:
    """All moves: those kept apart if the version tells of any, else those in the status."""
    reply = await at.run("history", at.of(task_id), (task_id,))
    task = task_of(task_id, reply[2:])
    if task is None:
        return History(())
    if is_apart(reply[-1]):
        kept = [event_of(packed) for packed in reply[1] if packed]
        events = [event for event in kept if event.task == task_id]
    else:
        events = [msgspec.structs.replace(e, task=task_id) for e in task.status.events]
    return History(tuple(events), task.status.revision - len(events))


# --- pages ---


async def find(at: Partitions, query: Query) -> Page:
    """A page of records by creation, along the axis that fits the query best."""
    lists = await _axis(at, query)
    place = _parse(query.cursor)
    found: list[Task] = []
    looked = 0
    while True:
        most = min(MAX_BATCH, max(query.limit - len(found), 20))
        places = await _places(at, lists, place, most, newest=query.newest_first)
        if not places:
            return Page(tuple(found))
        records = await read(at, [task_id for _, task_id in places])
        for here, task in zip(places, records, strict=True):
            if len(found) >= query.limit or looked >= SCAN_BUDGET:
                assert place is not None
                return Page(tuple(found), f"{place[0]}:{place[1]}")
            looked, place = looked + 1, here
            if task is not None and matches(query, task):
                found.append(task)


async def _places(
    at: Partitions,
    lists: Sequence[str],
    place: _Place | None,
    most: int,
    *,
    newest: bool,
) -> list[_Place]:
    """The next places of all lists in all partitions, merged; short only at the end."""
    created, after = place if place is not None else (None, "")
    replies = await at.everywhere("places", (newest, created, after, most, lists))
    rows = [row for reply in replies for row in reply[1:]]
    walks = [[(int(row[i]), row[i + 1].decode()) for i in range(0, len(row), 2)] for row in rows]
    # A list that was cut short bounds what is known to come next; the first `most` are known.
    merged = heapq.merge(*walks, reverse=newest)
    unique = dict.fromkeys(merged)
    return list(unique)[:most]


async def _axis(at: Partitions, query: Query) -> list[str]:
    if query.key is not None:
        return [f"key:{query.key}"]
    if query.group is not None:
        return [f"group:{query.group}"]
    names = [query.queue] if query.queue is not None else await queue_names(at)
    if query.dead_letters:
        return [f"dead:{name}" for name in names]
    # Who asks for a worker's runs looks through all that run: an index of them would cost every run
    # two writes.
    states = (State.ACTIVE,) if query.worker is not None else query.states or State
    return [f"state:{name}|{state.value}" for name in names for state in states]


async def queue_names(at: Partitions) -> list[str]:
    """The queues known in any partition."""
    looks = (at.look(partition, b"SMEMBERS", "queues") for partition in range(at.count))
    replies: list[list[bytes]] = await asyncio.gather(*looks)
    return sorted({name.decode() for reply in replies for name in reply})


def _parse(cursor: str) -> _Place | None:
    if not cursor:
        return None
    created, _, task_id = cursor.partition(":")
    if not created.isdecimal() or not task_id:
        raise ConfigurationError(f"{cursor!r} is not a cursor that this store gave.")
    return int(created), task_id


# --- counts ---


async def stats(at: Partitions) -> list[QueueStats]:
    """Counts per queue, summed over the partitions."""
    replies = await at.everywhere("stats", [state.value for state in State])
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
