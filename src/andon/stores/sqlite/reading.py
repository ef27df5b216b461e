"""Reading records, pages, histories, counts and the event log."""

import heapq
import itertools
import sqlite3
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from andon.contract.limits import MOST_SORTED, SCAN_BUDGET
from andon.contract.queries import EventPage, History, Page, Query, ReadyKind
from andon.contract.query_filter import DUE, due_states, lists_asked, matches, states_asked
from andon.lifecycle.constants import HISTORY_KEPT
from andon.lifecycle.discarded import Discarded, discarded_of
from andon.model.errors import ConfigurationError
from andon.model.fleet import QueueStats
from andon.model.task import Task, TaskEvent, Tombstone
from andon.model.words import State
from andon.stores.kit.codec import decode_event, task_of_row
from andon.stores.kit.log_position import Place, check_of, place_of
from andon.stores.sqlite.statements import CONFIG, LANES, READING
from andon.stores.sqlite.transaction import DEAD, PARKED

_LAST = 2**62
_Place = tuple[int, ...]
"""The position of a record on an axis: its key last, before it the other columns of the order."""

_AFTER_ANY = "\x7f"
"""Sorts after every character that an id may have."""

_EVERYWHERE = (0, _LAST)
_POSITION_DIGITS = 18  #: more than any row has, less than a row may have
_MOST_POSITION = 10**_POSITION_DIGITS - 1


def read_task(db: sqlite3.Connection, task_id: str) -> Task | None:
    """One record by id."""
    try:
        row = db.execute(READING.record, (task_id,)).fetchone()
    except UnicodeEncodeError:  # no task can have such an id
        return None
    return None if row is None else task_of_row(row)


def read_task_by_seq(db: sqlite3.Connection, seq: int) -> Task | None:
    """One record by the store's own key."""
    row = db.execute(READING.record_by_seq, (seq,)).fetchone()
    return None if row is None else task_of_row(row)


def read_tasks(db: sqlite3.Connection, ids: Sequence[str]) -> list[Task | None]:
    """Records in the order asked for."""
    return [read_task(db, task_id) for task_id in ids]


def history(db: sqlite3.Connection, task_id: str) -> History:
    """The task's moves, walked back along their chain."""
    pos, revision = db.execute(READING.last_event, (task_id,)).fetchone() or (None, 0)
    events: list[TaskEvent] = []
    while pos is not None and len(events) < HISTORY_KEPT:
        found = db.execute(READING.event, (pos,)).fetchone()
        if found is None:
            break
        pos, body = found
        events.append(decode_event(body))
    events.reverse()
    return History(tuple(events), revision - len(events))


def events(db: sqlite3.Connection, cursor: str, limit: int) -> EventPage:
    """Events after a place. Events that were trimmed, or that the file lost after the reader had
    read them, are a gap."""
    row = db.execute(CONFIG.meta, ("log_start",)).fetchone()
    start: int = row[0] if row else 0
    # "" is a new reader, which begins at the oldest event; a text that is no place is of another
    # log
    asked = place_of(cursor, _MOST_POSITION)
    place, gap = asked or Place(start), bool(cursor) and asked is None
    if place.position < start:
        place, gap = Place(start), True
    elif place.position > start:
        there = db.execute(READING.event_at, (place.position,)).fetchone()
        if there is None or (place.check and place.check != check_of(there[0])):
            return EventPage((), events_end(db), gap=True)
    rows = db.execute(READING.events_after, (place.position, limit)).fetchall()
    if rows:
        place = Place(rows[-1][0], check_of(rows[-1][1]))
    return EventPage(tuple(decode_event(body) for _, body in rows), str(place), gap)


def events_end(db: sqlite3.Connection) -> str:
    """The cursor after the newest event."""
    position, body = db.execute(READING.end).fetchone() or (0, None)
    return str(Place(position, check_of(body) if body is not None else ""))


def _is_position(cursor: str) -> bool:
    """Whether the cursor is a number that a row can have."""
    return cursor.isascii() and cursor.isdigit() and len(cursor) <= _POSITION_DIGITS


def _start(query: Query) -> _Place:
    """The place after which a page begins."""
    parts = query.cursor.removeprefix(DUE).split(":")
    if not query.cursor:
        return (0, 0) if query.due_first else (_LAST if query.newest_first else 0,)
    good = query.cursor.startswith(DUE) == query.due_first
    if not good or len(parts) != 1 + query.due_first or not all(map(_is_position, parts)):
        raise ConfigurationError(f"{query.cursor!r} is not a cursor that this list gave.")
    return tuple(map(int, parts))


def _cursor(query: Query, place: _Place) -> str:
    return (DUE if query.due_first else "") + ":".join(map(str, place))


def stats(db: sqlite3.Connection, partitions: int) -> list[QueueStats]:
    """Counts per queue, from the counters; the age from the first entry of each level
    of each kind."""
    counts: dict[str, dict[str, int]] = {}
    names: dict[int, str] = {}
    for name, state, n, queue in db.execute(READING.counters):
        names[queue] = name
        if n:
            counts.setdefault(name, {})[state] = n
        else:
            counts.setdefault(name, {})
    oldest: dict[str, int] = {}
    for place, _kind, order in db.execute(LANES.heads, _EVERYWHERE):
        name = names.get(place // partitions, "")
        oldest[name] = min(order, oldest.get(name, order))
    return [
        QueueStats(
            queue=name,
            counts={state: n for state, n in of.items() if not state.startswith("+")},
            oldest_pending_at=oldest.get(name),
            dead_letters=of.get(DEAD, 0),
            parked=of.get(PARKED, 0),
        )
        for name, of in sorted(counts.items())
    ]


def ready_kinds(db: sqlite3.Connection, partitions: int, queues: Sequence[str]) -> list[ReadyKind]:
    """The kinds that these queues, or all, have ready; each with the age of its oldest."""
    oldest: dict[tuple[str, str], int] = {}
    names: dict[int, str] = {}
    for name, first, last in _places(db, partitions, queues):
        for place, kind, order in db.execute(LANES.heads, (first, last)):
            number = place // partitions
            if number not in names:
                names[number] = name or _queue_name(db, number)
            queue = names[number]
            oldest[queue, kind] = min(order, oldest.get((queue, kind), order))
    return [ReadyKind(queue, kind, at) for (queue, kind), at in sorted(oldest.items())]


def _places(
    db: sqlite3.Connection, partitions: int, queues: Sequence[str]
) -> Iterator[tuple[str, int, int]]:
    """The first and the last place of each queue asked for, or of all together."""
    if not queues:
        yield ("", *_EVERYWHERE)
    for name in dict.fromkeys(queues):
        row = db.execute(CONFIG.name_id, (name,)).fetchone()
        if row is not None:
            yield name, row[0] * partitions, (row[0] + 1) * partitions - 1


def _queue_name(db: sqlite3.Connection, queue: int) -> str:
    row = db.execute(CONFIG.name_of, (queue,)).fetchone()
    return "" if row is None else str(row[0])


def tombstones(db: sqlite3.Connection, ids: Sequence[str], since: int) -> list[Tombstone | None]:
    """The tombstones of tasks that were deleted after `since`."""
    return [_tombstone(db, task_id, since) for task_id in ids]


def _tombstone(db: sqlite3.Connection, task_id: str, since: int) -> Tombstone | None:
    try:
        row = db.execute(READING.tombstone, (task_id, since)).fetchone()
    except UnicodeEncodeError:  # no task can have such an id
        return None
    return None if row is None else Tombstone(State(row[0]), row[1], row[2])


def discarded(db: sqlite3.Connection, ids: Sequence[str], since: int) -> list[Discarded | None]:
    """The last two moves of tasks that were discarded at their end after `since`."""
    return [_discarded(db, task_id, since) for task_id in ids]


def _discarded(db: sqlite3.Connection, task_id: str, since: int) -> Discarded | None:
    try:
        rows = db.execute(READING.discarded, (task_id, since)).fetchall()
    except UnicodeEncodeError:  # no task can have such an id
        return None
    return discarded_of(task_id, [decode_event(row[0]) for row in rows])


def find(db: sqlite3.Connection, query: Query) -> Page:
    """A page of records, along the axis that fits the query best."""
    found: list[Task] = []
    looked, last = 0, _start(query)
    for place in _axis(db, query, last):
        if len(found) >= query.limit or looked >= max(SCAN_BUDGET, query.limit):
            return Page(tuple(found), _cursor(query, last))
        looked, last = looked + 1, place
        task = read_task_by_seq(db, place[-1])
        if task is not None and matches(query, task):
            found.append(task)
    return Page(tuple(found))


def _axis(db: sqlite3.Connection, query: Query, start: _Place) -> Iterator[_Place]:
    """Places of records in order, from an index; `matches` filters the rest."""
    suffix = "_newest" if query.newest_first else ""
    # enough for the budget and one more, which tells the end of the list from the end of the budget
    most = max(SCAN_BUDGET, query.limit) + 1

    def walk(name: str, *arguments: object) -> Iterator[_Place]:
        statement: str = getattr(READING, name + suffix)
        yield from db.execute(statement, (*arguments, *start, most))

    def wait(queue: int, state: State) -> Iterator[_Place]:
        timer, seq = start
        line = (queue, state.value, timer)
        yield from db.execute(READING.by_same_due, (*line, seq, most))
        yield from db.execute(READING.by_due, (*line, most))

    if query.due_first:
        lines = itertools.product(_queue_ids(db, query.queue), due_states(query))
        return heapq.merge(*(wait(*line) for line in lines))
    if query.id_prefix is not None:
        begun = (query.id_prefix, f"{query.id_prefix}{_AFTER_ANY}")
        (count,) = db.execute(READING.count_begun, (*begun, MOST_SORTED + 1)).fetchone()
        if count <= MOST_SORTED:
            return walk("by_id", *begun)
        return _axis(db, replace(query, id_prefix=None), start)  # so many that some are soon met
    if query.key is not None:
        return walk("by_key", query.key)
    if query.group is not None:
        return walk("by_group", query.group)
    if names := lists_asked(query):
        return heapq.merge(*(walk("by_list", name) for name in names), reverse=query.newest_first)
    if query.dead_letters and query.queue is None:
        return walk("by_dead")
    states = states_asked(query)
    if not states and query.queue is None:
        return walk("by_seq")
    queues = _queue_ids(db, query.queue)
    lines = [
        walk("by_state", queue, state.value)
        for queue in queues
        for state in (states or tuple(State))
    ]
    return heapq.merge(*lines, reverse=query.newest_first)


def _queue_ids(db: sqlite3.Connection, name: str | None) -> list[int]:
    if name is None:
        return [row[0] for row in db.execute(READING.counted_queues)]
    row = db.execute(CONFIG.name_id, (name,)).fetchone()
    return [] if row is None else [row[0]]
