"""Lists of tasks by queue and state, key, group, worker and name, each in order of creation; and of
those that wait for a time, by due time."""

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge

from andon.contract.limits import SCAN_BUDGET
from andon.contract.queries import Page, Query
from andon.contract.query_filter import DUE, due_states, lists_asked, matches
from andon.lifecycle.indexes import IndexEntry
from andon.model.errors import ConfigurationError
from andon.model.words import State
from andon.stores.memory.ordered import Ordered
from andon.stores.memory.row import Row

_Place = tuple[int, str]
_Lists = dict[str, Ordered[_Place]]


class Lists:
    """The list indexes of a store; they also give its counts."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = rows
        self._states: dict[State, _Lists] = {}
        self._keys: _Lists = {}
        self._groups: _Lists = {}
        self._named: _Lists = {}
        self._workers: dict[str, set[_Place]] = {}
        self._dead_letters: _Lists = {}
        self._due: dict[State, _Lists] = {State.SCHEDULED: {}, State.RETRY: {}}

    def insert(self, row: Row) -> None:
        """Take in a new row."""
        definition = row.task.definition
        _add(self._states.setdefault(row.entry.state, {}), definition.queue, row.place)
        if definition.key is not None:
            _add(self._keys, definition.key, row.place)
        if definition.group is not None:
            _add(self._groups, definition.group, row.place)
        for name in row.entry.lists:
            _add(self._named, name, row.place)
        if row.entry.dead_letter:
            _add(self._dead_letters, definition.queue, row.place)
        if row.entry.state in self._due:
            self._wait(row.entry, row.task.id, begun=True)

    def remove(self, row: Row) -> None:
        """Remove a row."""
        definition = row.task.definition
        _remove(self._states[row.entry.state], definition.queue, row.place)
        if definition.key is not None:
            _remove(self._keys, definition.key, row.place)
        if definition.group is not None:
            _remove(self._groups, definition.group, row.place)
        for name in row.entry.lists:
            _remove(self._named, name, row.place)
        if row.entry.dead_letter:
            _remove(self._dead_letters, definition.queue, row.place)
        if row.entry.state in self._due:
            self._wait(row.entry, row.task.id, begun=False)

    def move(self, row: Row, old: IndexEntry, new: IndexEntry) -> None:
        """Move a row from the lists of its old entry to those of the new."""
        if old.state is not new.state:
            _remove(self._states[old.state], old.queue, row.place)
            _add(self._states.setdefault(new.state, {}), new.queue, row.place)
        for name in old.lists:
            _remove(self._named, name, row.place)
        for name in new.lists:
            _add(self._named, name, row.place)
        if old.dead_letter:
            _remove(self._dead_letters, old.queue, row.place)
        if new.dead_letter:
            _add(self._dead_letters, new.queue, row.place)
        if old.state in self._due:
            self._wait(old, row.task.id, begun=False)
        if new.state in self._due:
            self._wait(new, row.task.id, begun=True)

    def _wait(self, entry: IndexEntry, task_id: str, *, begun: bool) -> None:
        """Note that a task waits for a time, or does so no longer."""
        change = _add if begun else _remove
        change(self._due[entry.state], entry.queue, (entry.timer or 0, task_id))

    def work(self, row: Row, worker: str, *, begun: bool) -> None:
        """Note that a worker holds the row, or does so no longer."""
        if begun:
            self._workers.setdefault(worker, set()).add(row.place)
            return
        held = self._workers[worker]
        held.remove(row.place)
        if not held:
            del self._workers[worker]

    def counts(self) -> dict[str, dict[str, int]]:
        """Queue to state to number of tasks; nothing is listed that is zero."""
        counts: dict[str, dict[str, int]] = {}
        for state, queues in self._states.items():
            for queue, places in queues.items():
                counts.setdefault(queue, {})[state.value] = len(places)
        return counts

    def dead_letters(self, queue: str) -> int:
        """How many dead letters the queue has."""
        return sum(len(places) for places in _one(self._dead_letters, queue))

    def count(self, queue: str, state: State) -> int:
        """How many tasks of the queue are in the state."""
        places = self._states.get(state, {}).get(queue)
        return 0 if places is None else len(places)

    def oldest(self, queue: str, state: State) -> Iterator[Row]:
        """Tasks of the queue in the state, by creation."""
        places = self._states.get(state, {}).get(queue)
        return iter(()) if places is None else (self._rows[i] for _, i in places.after(None))

    def of(self, state: State) -> list[Row]:
        """All tasks in the state."""
        lists = self._states.get(state, {}).values()
        return [self._rows[task_id] for places in lists for _, task_id in places.after(None)]

    def find(self, query: Query) -> Page:
        """A page of what the query asks for; short when the scan budget is used up first."""
        found: list[Row] = []
        cursor = ""
        mark = DUE if query.due_first else ""
        places = self._walk(query, _parse(query.cursor, mark))
        for looked, (at, task_id) in enumerate(places, start=1):
            row = self._rows[task_id]
            if matches(query, row.task):
                found.append(row)
            if len(found) >= query.limit or looked >= SCAN_BUDGET:
                cursor = f"{mark}{at}:{task_id}"
                break
        return Page(tuple(row.copy() for row in found), cursor)

    def _walk(self, query: Query, place: _Place | None) -> Iterator[_Place]:
        newest_first = query.newest_first
        if query.due_first:
            by_due = _of_queue((self._due[state] for state in due_states(query)), query.queue)
            return merge(*(places.after(place) for places in by_due))
        if query.id_prefix is not None:
            begin = query.id_prefix
            return _from(place, self._begun(begin), newest_first=newest_first)
        if query.worker is not None:
            held = self._workers.get(query.worker, ())
            return _from(place, held, newest_first=newest_first)
        lists = self._axis(query)
        if newest_first:
            return merge(*(places.before(place) for places in lists), reverse=True)
        return merge(*(places.after(place) for places in lists))

    def _begun(self, begin: str) -> Iterator[_Place]:
        """Tasks whose ids begin with a prefix: the query scans all ids, so that writes need no
        index for it."""
        return (row.place for task_id, row in self._rows.items() if task_id.startswith(begin))

    def _axis(self, query: Query) -> Iterable[Ordered[_Place]]:
        if query.key is not None:
            return _one(self._keys, query.key)
        if query.group is not None:
            return _one(self._groups, query.group)
        if names := lists_asked(query):
            return [places for name in names for places in _one(self._named, name)]
        by_state = [self._states.get(state, {}) for state in query.states or State]
        if query.dead_letters:
            by_state = [self._dead_letters]
        return _of_queue(by_state, query.queue)


def _parse(cursor: str, mark: str) -> _Place | None:
    at, _, task_id = cursor.removeprefix(mark).partition(":")
    if not cursor:
        return None
    good = cursor.startswith(mark) and at.isascii() and at.isdecimal() and len(at) < 20
    if not (good and task_id):
        raise ConfigurationError(f"{cursor!r} is not a cursor that this list gave.")
    return int(at), task_id


def _of_queue(by_state: Iterable[_Lists], queue: str | None) -> list[Ordered[_Place]]:
    if queue is not None:
        return [places for lists in by_state for places in _one(lists, queue)]
    return [places for lists in by_state for places in lists.values()]


def _from(
    place: _Place | None, places: Iterable[_Place], *, newest_first: bool
) -> Iterator[_Place]:
    """The places beyond one, in order."""
    ordered = sorted(places, reverse=newest_first)
    if place is None:
        return iter(ordered)
    return (p for p in ordered if (p < place if newest_first else p > place))


def _one(lists: _Lists, name: str) -> list[Ordered[_Place]]:
    places = lists.get(name)
    return [] if places is None else [places]


def _add(lists: _Lists, name: str, place: _Place) -> None:
    places = lists.get(name)
    if places is None:
        places = lists[name] = Ordered[_Place]()
    places.add(place)


def _remove(lists: _Lists, name: str, place: _Place) -> None:
    if not lists[name].remove(place):
        del lists[name]
