"""Reads records, pages, histories and counts."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from andon.contract.limits import MAX_BATCH
from andon.contract.queries import History, Page, Query, ReadyKind
from andon.contract.query_filter import DUE, due_states, lists_asked, matches
from andon.lifecycle.discarded import Discarded, discarded_of
from andon.model.errors import ConfigurationError
from andon.model.fleet import QueueStats
from andon.model.task import Task, Tombstone
from andon.model.words import State
from andon.stores.kit.codec import encode
from andon.stores.redis.due import due_lists
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.records import event_of, is_apart, order_in, task_of

QUEUES_AT_ONCE = 50
"""How many queues one script reads: others wait while it runs."""

LISTS_AT_ONCE = 200
"""How many lists one script reads."""

MOST_LISTS = 10_000
"""How many lists one call reads. With more queues than that, tasks of all queues come by groups of
queues, each in its order."""

MOST_LOOKED = 500
"""How many records one call reads to find those that match the query, unless its limit is higher.
Fewer than `SCAN_BUDGET`: each is read whole, by the one thread that serves all clients."""

MOST_IDS = 10_000
"""How many ids one call reads to find those with a beginning; then it says up to where it has
read."""

_IDS_AT_ONCE = 4_000
"""How many ids one script reads."""

_ROW = 7
_PARTS_OF_GROUP = 4
_Place = tuple[int, str]


async def read(at: Partitions, ids: Sequence[str]) -> list[Task | None]:
    """Records in the order of the request."""
    if ids and at.count == 1:
        return await _read(at, 0, ids)
    found: list[Task | None] = [None] * len(ids)

    async def one(partition: int, places: Sequence[int]) -> None:
        tasks = await _read(at, partition, [ids[place] for place in places])
        for place, task in zip(places, tasks, strict=True):
            found[place] = task

    await asyncio.gather(*(one(p, places) for p, places in at.places(ids).items()))
    return found


async def _read(at: Partitions, partition: int, ids: Sequence[str]) -> list[Task | None]:
    """Records of one partition."""
    reply = await at.run_packed("get", partition, encode(ids))
    rows = range(1, len(reply), _ROW)
    return [
        task_of(task_id, reply[row + 1 : row + _ROW])
        for task_id, row in zip(ids, rows, strict=True)
    ]


async def states(at: Partitions, ids: Sequence[str]) -> list[State | None]:
    """States of records; of those deleted within the submit window the states in which they
    ended."""
    replies = await at.spread("states", ids, ids)
    return [State(reply.decode()) if reply else None for reply in replies]


async def history(at: Partitions, task_id: str) -> History:
    """All moves: those kept apart if the version says that there are any, else those in the
    status."""
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


async def tombstones(at: Partitions, ids: Sequence[str]) -> list[Tombstone | None]:
    """What is left of records deleted within the submit window."""
    return [_tombstone(reply) for reply in await at.spread("tombstones", ids, ids)]


def _tombstone(reply: Any) -> Tombstone | None:
    if not reply:
        return None
    run, _, report = reply[1].decode().partition(" ")
    return Tombstone(State(reply[0].decode()), run, report)


async def discarded(at: Partitions, ids: Sequence[str]) -> list[Discarded | None]:
    """The last two moves of records that were discarded at their end within the submit window."""
    replies = await at.spread("discarded", ids, ids)
    return [
        discarded_of(task_id, [event_of(packed) for packed in reply])
        for task_id, reply in zip(ids, replies, strict=True)
    ]


def absent(task_id: str, why: str) -> None:
    """The answer for an id that cannot be encoded: no task can have it."""


# --- pages ---


async def find(at: Partitions, query: Query) -> Page:
    """A page of records, along the axis that fits the query best."""
    if not _goes_by_queues(query):
        return await _find(at, query, ())
    if query.queue is not None:
        return await _find(at, query, [query.queue])
    known = await queue_names(at)
    begin, inner = _parse_group(query.cursor)
    if begin is None:
        first, last = "", _last_of_group(known, query)
    else:
        first, last = begin
    group = [name for name in known if first <= name and (not last or name <= last)]
    page = await _find(at, msgspec.structs.replace(query, cursor=inner), group)
    if begin is None and not last:
        return page
    if page.cursor:
        return Page(page.tasks, f"@{first}@{last}@{page.cursor}")
    rest = [name for name in known if name > last] if last else []
    return Page(page.tasks, f"@{rest[0]}@{_last_of_group(rest, query)}@" if rest else "")


def _goes_by_queues(query: Query) -> bool:
    """Whether the lists of queues are read, and not one of a key, a group, a name or dead letters.
    (A query by the beginning of an id reads all lists in any case.)"""
    if query.due_first:
        return True
    return (
        query.key is None
        and query.group is None
        and not query.dead_letters
        and query.id_prefix is None
        and not lists_asked(query)
    )


def _last_of_group(names: Sequence[str], query: Query) -> str:
    """The last of these queues whose lists one call reads; empty if it reads all."""
    most = max(MOST_LISTS // max(len(_states(query)), 1), 1)
    return names[most - 1] if len(names) > most else ""


def _parse_group(cursor: str) -> tuple[tuple[str, str] | None, str]:
    """The first and the last queue of the group to which a page belongs ("": all that follow), and
    the place in it."""
    if not cursor.startswith("@"):
        return None, cursor
    parts = cursor.split("@")
    if len(parts) != _PARTS_OF_GROUP or (parts[2] and parts[1] > parts[2]):
        raise ConfigurationError(f"{cursor!r} is not a cursor that this list gave.")
    return (parts[1], parts[2]), parts[3]


def _states(query: Query) -> Sequence[State]:
    """The states whose lists are read. A query for a worker's runs reads all active tasks: an index
    of them would cost every run two writes."""
    if query.due_first:
        return due_states(query)
    return (State.ACTIVE,) if query.worker is not None else query.states or tuple(State)


async def _find(at: Partitions, query: Query, queues: Sequence[str]) -> Page:
    mark = DUE if query.due_first else ""
    place = _parse(query.cursor, mark)
    walk = _Walk(at, await _axis(at, query, queues), query)
    found: list[Task] = []
    looked = 0
    while True:
        # One more than are wanted, to know whether there are more; and as many again as were read,
        # since each read asks all lists, however little is found.
        most = min(MAX_BATCH, max(query.limit - len(found) + 1, 20, looked))
        places, upto = await walk.beyond(place, most)
        records = await read(at, [task_id for _, task_id in places]) if places else []
        for here, task in zip(places, records, strict=True):
            if len(found) >= query.limit or looked >= max(MOST_LOOKED, query.limit):
                assert place is not None
                return Page(tuple(found), f"{mark}{place[0]}:{place[1]}")
            looked, place = looked + 1, here
            if task is not None and matches(query, task):
                found.append(task)
        if upto is None:
            return Page(tuple(found))
        place = upto
        if walk.is_over(len(found) >= query.limit):
            return Page(tuple(found), f"{mark}{place[0]}:{place[1]}")


class _Walk:
    """Reads along the lists of a query's axis, in its order."""

    def __init__(self, at: Partitions, lists: Sequence[str], query: Query) -> None:
        self._at = at
        self._lists = lists
        self._newest = query.newest_first
        self._begin = query.id_prefix
        self._ids = 0
        self._ahead: list[_Place] = []
        self._upto: _Place | None = None

    def is_over(self, is_full: bool) -> bool:
        """Whether the page ends here. A query by the beginning of ids waits neither to learn
        whether there are more, nor for a full page: the caller asks again from here."""
        return self._begin is not None and (is_full or self._ids >= MOST_IDS)

    async def beyond(self, place: _Place | None, most: int) -> tuple[list[_Place], _Place | None]:
        """At most so many places that come next, and up to where the lists were read for them;
        None: to their end. (Each is a record to read: the other places found are kept.)"""
        if not self._ahead:
            self._ahead, self._upto, looked = await _next_places(
                self._at, self._lists, self._begin or "", place, most, newest=self._newest
            )
            self._ids += looked
        some, self._ahead = self._ahead[:most], self._ahead[most:]
        return some, some[-1] if self._ahead else self._upto


async def _next_places(
    at: Partitions,
    lists: Sequence[str],
    begin: str,
    place: _Place | None,
    most: int,
    *,
    newest: bool,
) -> tuple[list[_Place], _Place | None, int]:
    """The next places of tasks whose ids have that beginning (any id, if it is empty), all there
    are up to the second result, and how many ids were read. The lists are read a part at a time, by
    short scripts that do not make others wait; an index of ids would cost every submit a write."""
    created, after = place if place is not None else (None, "")
    # Any id: twice as many as are wanted, as some lie beyond the point up to which all lists were
    # read.
    budget, most = (_IDS_AT_ONCE, most) if begin else (2 * most, 2 * most)
    found: set[_Place] = set()
    upto: _Place | None = None
    looked = 0
    for i in range(0, len(lists), LISTS_AT_ONCE):
        last = None if upto is None else upto[0]
        some = lists[i : i + LISTS_AT_ONCE]
        asked = (newest, created, after, budget, begin, most, last, some)
        for reply in await at.everywhere("walk", asked):
            looked += int(reply[1])
            if reply[3]:
                horizon = (int(reply[2]), reply[3].decode())
                upto = horizon if upto is None else _earlier(upto, horizon, newest=newest)
            found.update((int(reply[j]), reply[j + 1].decode()) for j in range(4, len(reply), 2))
    known = found if upto is None else (p for p in found if (p >= upto if newest else p <= upto))
    return sorted(known, reverse=newest), upto, looked


def _earlier(one: _Place, other: _Place, *, newest: bool) -> _Place:
    return max(one, other) if newest else min(one, other)


async def _axis(at: Partitions, query: Query, queues: Sequence[str]) -> list[str]:
    if query.due_first:
        return await due_lists(at, queues, due_states(query))
    if query.key is not None:
        return [f"key:{query.key}"]
    if query.group is not None:
        return [f"group:{query.group}"]
    if names := lists_asked(query):
        return [f"list:{name}" for name in names]
    if query.dead_letters:
        return ["dead" if query.queue is None else f"dead:{query.queue}"]
    if query.id_prefix is not None:
        queues = [query.queue] if query.queue is not None else await queue_names(at)
    return [f"state:{name}|{state.value}" for name in queues for state in _states(query)]


async def queue_names(at: Partitions) -> list[str]:
    """The known queues of all partitions."""
    looks = (at.look(partition, b"SMEMBERS", "queues") for partition in range(at.count))
    replies: list[list[bytes]] = await asyncio.gather(*looks)
    return sorted({name.decode() for reply in replies for name in reply})


def _parse(cursor: str, mark: str) -> _Place | None:
    if not cursor:
        return None
    at, _, task_id = cursor.removeprefix(mark).partition(":")
    good = cursor.startswith(mark) and at.isascii() and at.isdecimal() and len(at) < 19
    if not (good and task_id):
        raise ConfigurationError(f"{cursor!r} is not a cursor that this list gave.")
    return int(at), task_id


# --- counts ---


async def stats(at: Partitions) -> list[QueueStats]:
    """Counts per queue, summed over the partitions; some queues at a time."""
    names = await queue_names(at)
    pages = [names[i : i + QUEUES_AT_ONCE] for i in range(0, len(names), QUEUES_AT_ONCE)]
    return [counted for page in pages for counted in await _stats_of(at, page)]


async def _stats_of(at: Partitions, queues: Sequence[str]) -> list[QueueStats]:
    states = [state.value for state in State]
    replies = await at.everywhere("stats", (queues, states))
    found: list[QueueStats] = []
    for i, queue in enumerate(queues, start=1):
        parked, dead, *counts = map(sum, zip(*(reply[i] for reply in replies), strict=True))
        of = {state: count for state, count in zip(states, counts, strict=True) if count}
        found.append(
            QueueStats(
                queue=queue,
                counts=of,
                oldest_pending_at=await _oldest(at, queue) if State.PENDING.value in of else None,
                dead_letters=dead,
                parked=parked,
            )
        )
    return found


async def _oldest(at: Partitions, queue: str) -> int | None:
    """Since when the oldest ready task has been waiting."""
    oldest: list[int] = []
    for partition in range(at.count):
        place: int | bytes = 0
        while place != b"":
            _, place, since = await at.run("oldest", partition, (queue, place))
            if since:
                oldest.append(int(since))
    return min(oldest, default=None)


async def ready_kinds(at: Partitions, queues: Sequence[str]) -> list[ReadyKind]:
    """The kinds of which a queue has ready tasks; some queues at a time."""
    wanted = set(queues)
    found: dict[tuple[str, str], int] = {}
    for partition in range(at.count):
        ready = sorted(name.decode() for name in await at.look(partition, b"HKEYS", "ready"))
        names = [name for name in ready if not wanted or name in wanted]
        for i in range(0, len(names), QUEUES_AT_ONCE):
            page = names[i : i + QUEUES_AT_ONCE]
            rows = (await at.run("ready_kinds", partition, page))[1:]
            for queue, row in zip(page, rows, strict=True):
                for kind, score in zip(row[::2], row[1::2], strict=True):
                    name, since = (queue, kind.decode()), order_in(score)
                    found[name] = min(since, found.get(name, since))
    return [ReadyKind(queue, kind, at) for (queue, kind), at in sorted(found.items())]
