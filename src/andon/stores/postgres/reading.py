"""Reading records, pages, histories, counts and the event log."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from andon.contract.isolation import each_alone
from andon.contract.limits import MAX_BATCH, MOST_SORTED, SCAN_BUDGET
from andon.contract.queries import EventPage, History, Page, Query, ReadyKind
from andon.contract.query_filter import DUE, due_states, lists_asked, matches, states_asked
from andon.lifecycle.constants import HISTORY_KEPT
from andon.lifecycle.discarded import Discarded, discarded_of
from andon.model.errors import ConfigurationError
from andon.model.fleet import QueueStats, Tallied
from andon.model.task import Task, TaskEvent, Tombstone
from andon.model.words import State
from andon.stores.kit.codec import Row, task_of_row
from andon.stores.kit.log_position import Place, check_of, place_of
from andon.stores.postgres.names import Run
from andon.stores.postgres.records import event_of
from andon.stores.postgres.statements import Statements

DEAD, PARKED, OLDEST = "+dead", "+parked", "+oldest"
"""Counted like states, but not states."""

_LAST = 2**62
_Axis = tuple[str, tuple[Any, ...]]
"""The statement that walks it, and what it is asked for."""

_Place = tuple[int, ...]
"""The position of a record on an axis: its key last, before it the other columns of the order."""

_HELD_PAUSES_S = (0.002, 0.005, 0.01, 0.02)
"""How long a reader waits for events that an older transaction holds back, before it gets an empty
page."""


class Reading:
    """The store's read operations."""

    def __init__(self, run: Run, sql: Statements) -> None:
        self._run = run
        self._sql = sql

    async def tombstones(self, ids: Sequence[str], now: int) -> list[Tombstone | None]:
        """The tombstones of deleted tasks, in the order asked for."""

        async def some(ids: Sequence[str]) -> list[Tombstone | None]:
            rows = await self._run(self._sql.tombstones, list(ids), now)
            return [None if row[0] is None else Tombstone(State(row[0]), *row[1:]) for row in rows]

        return await each_alone(some, ids, _absent)

    async def discarded(self, ids: Sequence[str], now: int) -> list[Discarded | None]:
        """The last two moves of tasks that were discarded at their end, in the order asked for."""

        async def some(ids: Sequence[str]) -> list[Discarded | None]:
            found: dict[str, list[TaskEvent]] = {}
            for row in await self._run(self._sql.discarded, list(ids), now):
                found.setdefault(row["stub"], []).append(event_of(row[:8]))
            return [discarded_of(task_id, found.get(task_id, ())) for task_id in ids]

        return await each_alone(some, ids, _absent)

    async def ready_kinds(self, queues: Sequence[str]) -> list[ReadyKind]:
        """Kinds of which something is ready, by queue."""
        return [ReadyKind(*row) for row in await self._run(self._sql.ready_kinds, list(queues))]

    async def tasks(self, ids: Sequence[str]) -> list[Task | None]:
        """Records in the order asked for. Ids that no record can have are not found."""
        return await each_alone(self._tasks, ids, _absent)

    async def states(self, ids: Sequence[str], now: int) -> list[State | None]:
        """States, also of what was deleted lately."""

        async def some(ids: Sequence[str]) -> list[State | None]:
            rows = await self._run(self._sql.states, list(ids), now)
            return [None if row[0] is None else State(row[0]) for row in rows]

        return await each_alone(some, ids, _absent)

    async def _tasks(self, ids: Sequence[str]) -> list[Task | None]:
        rows = await self._run(self._sql.records, list(ids))
        found = {row["id"]: task_of_row(row) for row in rows}
        return [found.get(task_id) for task_id in ids]

    async def tasks_by_key(self, seqs: Sequence[int]) -> dict[int, Task]:
        """Records by the store's own keys."""
        if not seqs:
            return {}
        rows = await self._run(self._sql.records_by_seq, list(seqs))
        return {row["seq"]: task_of_row(row) for row in rows}

    async def history(self, task_id: str) -> History:
        """The task's moves, walked back along their chain."""
        rows = await self._run(self._sql.history, task_id, HISTORY_KEPT)
        if not rows:
            return History(())
        events = tuple(event_of(row[:8]) for row in reversed(rows))
        return History(events, max(rows[0][8] - len(events), 0))

    async def events(self, cursor: str, limit: int) -> EventPage:
        """Events after a place in the log. Events that were trimmed, or that the server lost after
        the reader had read them, are a gap."""
        asked = place_of(cursor, _LAST)
        after = asked.position if asked is not None else 0
        *rows, end = await self._run(self._sql.events, after, limit)
        for pause in _HELD_PAUSES_S:
            if rows or not end["held"]:
                break
            await asyncio.sleep(pause)
            *rows, end = await self._run(self._sql.events, after, limit)
        start: int = end["place"]
        place = asked or Place(start)
        gap = bool(cursor) and asked is None
        if place.position < start:
            place, gap = Place(start), True
        elif place.position > start and not _is_there(place, end):
            return EventPage((), await self.events_end(), gap=True)
        if rows:
            place = Place(rows[-1]["place"], _check_of(rows[-1]))
        found: list[TaskEvent] = [event_of(row[:8]) for row in rows]
        return EventPage(tuple(found), str(place), gap)

    async def events_end(self) -> str:
        """The cursor after every event that is final: the place of the newest of them, which stays
        the same while nothing is written to this store, whatever else the server does."""
        (end,) = await self._run(self._sql.events_end)
        start, newest = end["start"], end["place"]
        return str(Place(newest, _check_of(end)) if newest > start else Place(start))

    async def stats(self) -> list[QueueStats]:
        """Counts per queue, from the counters; the age from the first entry of each lane."""
        of: dict[str, dict[str, int]] = {}
        for name, state, n in await self._run(self._sql.stats):
            of.setdefault(name, {})[state] = n
        return [
            QueueStats(
                queue=name,
                counts={s: n for s, n in counts.items() if n and not s.startswith("+")},
                oldest_pending_at=counts.get(OLDEST),
                dead_letters=counts.get(DEAD, 0),
                parked=counts.get(PARKED, 0),
            )
            for name, counts in sorted(of.items())
        ]

    async def tallies(self, queue: str | None, days: range) -> list[Tallied]:
        """What was counted of a queue, or of all, on these days."""
        return [Tallied(*row) for row in await self._run(self._sql.tallies, queue, [*days])]

    async def find(self, query: Query) -> Page:
        """A page of records, along the axis that fits the query best."""
        axis, last = await self._axis_of(query), _start(query)
        found: list[Task] = []
        left = most = max(SCAN_BUDGET, query.limit)
        while left > 0:
            # As many again as were looked at: where little is found, few statements do.
            again = min(most - left, MAX_BATCH)
            step = min(max(query.limit - len(found), 50, again) + 1, left)
            places = await self._walk(axis, query, last, step)
            records = await self.tasks_by_key([place[-1] for place in places])
            for place in places:
                if len(found) >= query.limit:
                    return Page(tuple(found), _cursor(query, last))
                last = place
                task = records.get(place[-1])
                if task is not None and matches(query, task):
                    found.append(task)
            if len(places) < step:
                return Page(tuple(found))
            left -= len(places)
        return Page(tuple(found), _cursor(query, last))

    async def _axis_of(self, query: Query) -> _Axis:
        """Ids with the prefix are sorted if they are few. If they are many, some are soon found
        along any other axis."""
        if query.id_prefix is not None and not query.due_first:
            (row,) = await self._run(self._sql.count_begun, query.id_prefix, MOST_SORTED + 1)
            if row[0] > MOST_SORTED:
                return _axis_of(replace(query, id_prefix=None))
        return _axis_of(query)

    async def _walk(self, axis: _Axis, query: Query, after: _Place, count: int) -> list[_Place]:
        name, values = axis
        sql: str = getattr(self._sql, name + ("_newest" if query.newest_first else ""))
        return [tuple(row) for row in await self._run(sql, *values, *after, count)]


def _start(query: Query) -> _Place:
    """The place after which a page begins."""
    if not query.cursor:
        return (0, 0) if query.due_first else (_LAST if query.newest_first else 0,)
    parts = query.cursor.removeprefix(DUE).split(":")
    good = query.cursor.startswith(DUE) == query.due_first and len(parts) == 1 + query.due_first
    if not (good and all(p.isascii() and p.isdecimal() and len(p) < 19 for p in parts)):
        raise ConfigurationError(f"{query.cursor!r} is not a cursor that this list gave.")
    return tuple(map(int, parts))


def _cursor(query: Query, place: _Place) -> str:
    return (DUE if query.due_first else "") + ":".join(map(str, place))


def _axis_of(query: Query) -> _Axis:
    if query.due_first:
        return "by_due", (query.queue, [state.value for state in due_states(query)])
    if query.id_prefix is not None:
        return "by_id", (query.id_prefix,)
    if query.key is not None:
        return "by_key", (query.key,)
    if query.group is not None:
        return "by_group", (query.group,)
    if names := lists_asked(query):
        return "by_list", (list(names),)
    if query.dead_letters and query.queue is None:
        return "by_dead", ()
    states = states_asked(query)
    if not states and query.queue is None:
        return "by_seq", ()
    return "by_state", (query.queue, [s.value for s in (states or tuple(State))])


def _is_there(place: Place, row: Row) -> bool:
    """Whether the row has the event that the place is behind."""
    _, _, at, *_ = row
    return at is not None and place.check in ("", _check_of(row))


def _check_of(row: Row) -> str:
    return check_of(msgspec.msgpack.encode(row[:8]))


def _absent(_id: str, _why: str) -> None:
    return None
