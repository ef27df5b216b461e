"""One write transaction: positions handed out, counts gathered, hints kept until it commits."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from andon.contract.requests import Change
from andon.contract.topics import CONFIG_TOPIC, EVENTS_TOPIC, TIMER_TOPIC, ready_topic
from andon.lifecycle.constants import NEAR_TIMER_MS
from andon.model.fleet import QueueConfig
from andon.model.task import Task, TaskEvent
from andon.model.words import Event
from andon.stores.kit.codec import encode_event, encode_events
from andon.stores.sqlite.rows import write
from andon.stores.sqlite.statements import CONFIG, LIFE

if TYPE_CHECKING:
    from andon.lifecycle.daily import Tally

_CLAIM = Event.CLAIM  # see `lifecycle.admission`

DEAD = "+dead"
PARKED = "+parked"
"""Counted like states, but not states: dead letters, and pending tasks held back by their key."""


MOST_SETTLED = 200
"""Edges that one transaction settles with the ends that satisfy them: others wait for it."""

Unblocked = Callable[[Task, int], Change | None]
"""What unblocks a dependent that waits for nothing more (`SettlesAtOnce`)."""

_MOST_NAMES = 10_000


@lru_cache(maxsize=64)  # by value: some tallies of a few days, and a submit needs but one
def counted_as(day: int, tally: str = "") -> str:
    """The key of a day's tally among the counts; without a tally, a key before all of that day.
    Days have seven digits, up to the year 9999, so that they sort."""
    return f"+{day:07d} {tally}"


class Memory:
    """Values cached across transactions, so that they need not be looked up."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}  #: of queue names; they never change
        self.names: dict[int, str] = {}  #: the same by id
        self.lanes: dict[tuple[int, str], int] = {}  #: by place and kind; they never change
        self.bounds: dict[int, tuple[int, int]] = {}
        """By lane: it is awake, and its bound at most this. Until another process writes."""
        self.awake: dict[int, list[tuple[int, str, int, int]]] = {}
        """By place: its lanes awake, with kind and bound. Until a lane changes, or another process
        writes."""
        self.next_keys: tuple[int, int] | None = None
        """The next record key and event position. Until another process writes."""
        self.has_no_tombstones = False  #: there are none, until one is written
        self.days_from = 0  #: of the daily history: days before this one were dropped

    def forget(self) -> None:
        """Forget everything: values cached in a transaction that failed were not written."""
        self.ids.clear()
        self.names.clear()
        self.lanes.clear()
        self.days_from = 0
        self.others_wrote()

    def others_wrote(self) -> None:
        """Another process wrote: forget what it may have changed."""
        self.bounds.clear()
        self.awake.clear()
        self.next_keys = None
        self.has_no_tombstones = False


class Transaction:
    """What operations write through. `finish` writes the counts; the writer then commits."""

    def __init__(
        self,
        db: sqlite3.Connection,
        *,
        now: int,
        memory: Memory,
        partitions: int,
        configs: dict[str, QueueConfig],
        unblocked: Unblocked | None = None,
    ) -> None:
        self.db = db
        self.now = now
        self.partitions = partitions
        self.configs = configs  #: queues that have settings of their own
        self.unblocked = unblocked
        self.may_settle = MOST_SETTLED  #: edges, at once with the ends that satisfy them
        self.hints: set[str] = set()
        self.ready: set[str] = set()
        """Topics that say there is something to claim."""
        self.is_ready_told = False  #: other processes were hinted `ready` before the commit
        self.moved: list[str] = []  #: ids of tasks, whose own topics are to be hinted too
        self.begun: list[str] = []  #: and of tasks of which a run began or progressed
        self.memory = memory
        self._counts: dict[tuple[int, str], int] = {}
        self._next_seq, self._next_pos = memory.next_keys or (0, 0)
        self._events: list[tuple[int, int, int | None, int, bytes]] = []

    def one(self, sql: str, parameters: Iterable[object] = ()) -> tuple[object, ...] | None:
        """The first row of a query."""
        return self.db.execute(sql, tuple(parameters)).fetchone()

    def take_seqs(self, count: int) -> int:
        """The first of `count` new record keys."""
        if not self._next_pos:
            self._find_next()
        first = self._next_seq
        self._next_seq += count
        return first

    def add_event(self, seq: int, task_id: str, event: TaskEvent, prev: int | None) -> int:
        """Append an event to the log, after the task's event at `prev`; its position."""
        told = self.begun if event.event is _CLAIM else self.moved
        [pos] = self._take_positions((task_id,), told)
        self._events.append((pos, seq, prev, event.at, encode_event(event, task_id)))
        return pos

    def begin_events(self, seqs: Sequence[int], ids: Sequence[str], event: TaskEvent) -> range:
        """Append the one event with which several tasks begin, given by record key and id; its
        positions."""
        if len(ids) == 1:
            pos = self.add_event(seqs[0], ids[0], event, None)
            return range(pos, pos + 1)
        positions = self._take_positions(ids, self.moved)
        bodies = encode_events(event, ids)
        self._events += [
            (pos, seq, None, event.at, body)
            for pos, seq, body in zip(positions, seqs, bodies, strict=True)
        ]
        return positions

    def chain_events(self, events: Sequence[tuple[int, str, TaskEvent]]) -> range:
        """Append (record key, task id, event) of moves at once, each after its task's newest event.
        The caller then writes the positions returned as the records' newest."""
        positions = self._take_positions([task_id for _, task_id, _ in events], self.moved)
        rows = [
            (pos, seq, seq, event.at, encode_event(event, task_id))
            for pos, (seq, task_id, event) in zip(positions, events, strict=True)
        ]
        write(self.db, LIFE.chain_event, rows)
        return positions

    def _take_positions(self, ids: Sequence[str], told: list[str]) -> range:
        """Positions for an event of each of these tasks. Adds their ids to `told`, the tasks that
        are hinted after the commit."""
        if not self._next_pos:
            self._find_next()
        first = self._next_pos
        self._next_pos += len(ids)
        told += ids
        return range(first, self._next_pos)

    def _find_next(self) -> None:
        last = dict(self.db.execute(LIFE.last_keys).fetchall())
        self._next_seq = last.get("definition", 0) + 1
        self._next_pos = last.get("event", 0) + 1

    def any_tombstone(self) -> bool:
        """Whether any deleted task has left a tombstone."""
        if not self.memory.has_no_tombstones:
            found = self.db.execute(LIFE.any_stub).fetchone()
            self.memory.has_no_tombstones = found is None
        return not self.memory.has_no_tombstones

    def flush_events(self) -> None:
        """Write the events added so far; before anything reads them back."""
        if self._events:
            write(self.db, LIFE.insert_event, self._events)
            self._events.clear()

    def name_id(self, name: str) -> int:
        """The id of a queue, which is created if it is new."""
        found = self.memory.ids.get(name) or self.known_id(name)
        if found is None:
            found = self.db.execute(CONFIG.new_name, (name,)).lastrowid
            assert found is not None
            self.hints.add(CONFIG_TOPIC)  # a worker that serves every queue has one more
            self.memory.ids[name] = found
        return found

    def known_id(self, name: str) -> int | None:
        """The id of a queue; None if it is not known."""
        known = self.memory.ids
        found = known.get(name)
        if found is None:
            row = self.db.execute(CONFIG.name_id, (name,)).fetchone()
            if row is not None:
                if len(known) >= _MOST_NAMES:
                    known.clear()
                found = known[name] = int(row[0])
        return found

    def name_of(self, queue: int) -> str:
        """The name of a queue; empty if there is none of this id."""
        known = self.memory.names
        found = known.get(queue)
        if found is None:
            row = self.db.execute(CONFIG.name_of, (queue,)).fetchone()
            if len(known) >= _MOST_NAMES:
                known.clear()
            found = known[queue] = "" if row is None else str(row[0])
        return found

    def place(self, queue: int, partition: int) -> int:
        """Where the lanes of a queue's partition are."""
        return queue * self.partitions + partition

    def count(self, queue: int, state: str, change: int) -> None:
        """Change a count; written at `finish`."""
        key = (queue, state)
        self._counts[key] = self._counts.get(key, 0) + change

    def tally(self, queue: int, day: int, tally: "Tally | None", times: int = 1) -> None:
        """Count moves of one day in the daily history; written at `finish`."""
        if tally is not None:
            self.count(queue, counted_as(day, tally), times)

    def counted(self, queue: int, state: str) -> int:
        """A count as it stands within this transaction."""
        row = self.db.execute(LIFE.counted, (queue, state)).fetchone()
        return (row[0] if row else 0) + self._counts.get((queue, state), 0)

    def hint_ready(self, queue: str) -> None:
        """Hint that there is something to claim."""
        self.ready.add(ready_topic(queue))

    def hint_timers(self, timers: Sequence[int | None]) -> None:
        """Timers were set: the earliest counts."""
        self.hint_timer(min([timer for timer in timers if timer is not None], default=None))

    def hint_timer(self, timer: int | None) -> None:
        """A timer was set; hint it if no timekeeper wakes up by itself in time."""
        if timer is not None and timer - self.now < NEAR_TIMER_MS:
            self.hints.add(TIMER_TOPIC)

    def finish(self) -> None:
        """Write the collected counts."""
        self.flush_events()
        if self.moved or self.begun:
            self.hints.add(EVENTS_TOPIC)
        # As plain text: of any other type SQLite's module asks first how it is to be adapted.
        changes = [(q, str(s), n) for (q, s), n in self._counts.items() if n]
        if changes:
            write(self.db, LIFE.count, changes)
        if self._next_pos:
            self.memory.next_keys = (self._next_seq, self._next_pos)
