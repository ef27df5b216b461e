"""The records and everything derived from them, kept in step.

`insert`, `write`, `delete` and `restore` are the only ways a record changes: each brings record,
indexes and event from one consistent state to the next, without an await in between.
"""

from collections.abc import Iterable
from copy import copy

from msgspec.structs import replace

from andon.contract.edges import Ended, Link, Settlement
from andon.contract.hints import Hub
from andon.contract.requests import Snapshot
from andon.contract.topics import (
    CONFIG_TOPIC,
    EVENTS_TOPIC,
    TIMER_TOPIC,
    control_topic,
    ready_topic,
    run_topic,
    task_topic,
)
from andon.lifecycle.constants import SLOW_POLL_S, SUBMIT_WINDOW_MS
from andon.lifecycle.daily import Tally, tally_of
from andon.lifecycle.discarded import discarded_of
from andon.lifecycle.effects import Effects, between, of_new
from andon.lifecycle.indexes import entry_of
from andon.lifecycle.repeats import tombstone_of
from andon.lifecycle.unique import lapsed
from andon.model.fleet import QueueStats
from andon.model.task import RunCell, Task, TaskEvent
from andon.model.words import LIVE, Event, State
from andon.stores.memory.daily import Days
from andon.stores.memory.edges import Edges
from andon.stores.memory.events import EventLog
from andon.stores.memory.fleet import Fleet
from andon.stores.memory.heap import NamedHeap
from andon.stores.memory.lists import Lists
from andon.stores.memory.ready import Ready
from andon.stores.memory.row import Row, Stub

_CLAIM = Event.CLAIM  # see `lifecycle.admission`


class Records:
    """Rows by id, and their indexes."""

    def __init__(
        self,
        *,
        fleet: Fleet,
        log: EventLog,
        hub: Hub,
        partitions: int,
        poll_s: float = SLOW_POLL_S,
    ) -> None:
        self._near_ms = poll_s * 1000
        self.rows: dict[str, Row] = {}
        self.ready = Ready(self.rows)
        self.lists = Lists(self.rows)
        self.edges = Edges()
        self.days = Days()
        self.timers = [NamedHeap[int]() for _ in range(partitions)]
        self._fleet = fleet
        self._log = log
        self._hub = hub
        self._stubs: dict[str, Stub] = {}
        self._unique: dict[str, str] = {}
        self._tokens: dict[str, dict[str, None]] = {}

    def stats(self) -> list[QueueStats]:
        """Counts of each queue."""
        counts = self.lists.counts()
        return [
            QueueStats(
                queue=queue,
                counts=counts.get(queue, {}),
                oldest_pending_at=self.ready.oldest(queue),
                parked=self.ready.parked[queue],
                dead_letters=self.lists.dead_letters(queue),
            )
            for queue in sorted(self._fleet.queues)
        ]

    # --- the four writes ---

    def insert(self, row: Row, effects: Effects, now: int) -> None:
        """Store a new record with its submit event."""
        self._insert(row, effects, now)
        self._record(row, row.task.status.events[-1], effects.tally)

    def restore(self, snapshot: Snapshot, partition: int, now: int) -> None:
        """Store a record as it was in another store, with everything known beside it."""
        task = copy(snapshot.task)
        task.ref = 0
        row = Row(task, partition, entry_of(task))
        self._insert(row, of_new(task, row.entry), now)
        self._take_up(row, "")
        self.edges.restore(task.id, snapshot.edges, ended=task.state not in LIVE)
        if task.state is State.BLOCKED:
            for parent in {*snapshot.satisfied} & {*task.definition.dependencies}:
                self.edges.satisfy(task.id, parent)
        for event in snapshot.history:
            self._record(row, event, tally_of(event))

    def _insert(self, row: Row, effects: Effects, now: int) -> None:
        self.rows[row.id] = row
        if row.entry.queue not in self._fleet.queues:
            self._fleet.use(row.entry.queue)
            self._hub.hint(CONFIG_TOPIC)  # a worker that serves every queue has one more
        self.lists.insert(row)
        self._follow(row, effects, now)
        self.arm(row, row.entry.timer, now)

    def write(
        self,
        row: Row,
        task: Task,
        effects: Effects,
        event: TaskEvent,
        now: int,
        *,
        token: str = "",
    ) -> None:
        """Store a move and carry out its effects; `token` is that of the claim which made it."""
        old, new = row.entry, effects.entry
        assert new is not None
        had, has = row.task.status.run, task.status.run
        if had and had != has:
            self._run_ended(row)
        row.task, row.entry = task, new
        if has and had != has:
            self._take_up(row, token)
        self.lists.move(row, old, new)
        self._follow(row, effects, now)
        self.arm(row, new.timer, now)
        self._record(row, event, effects.tally)
        if effects.interrupts:
            self._hub.hint(control_topic(effects.interrupts))

    def delete(self, row: Row, event: TaskEvent, now: int) -> None:
        """Remove a record and all that was derived from it; a stub stays for the window."""
        task, effects = row.task, between(row.entry, None, event)
        end = row.history[-1].write_id if row.history else ""
        self._run_ended(row)
        self.lists.remove(row)
        self._follow(row, effects, now)
        self.timers[row.partition].discard(task.id)
        self.free(self.edges.remove_task(task.id), now)
        self._record(row, event, effects.tally)
        del self.rows[task.id]
        self._stubs[task.id] = Stub(
            task.definition.digest,
            tombstone_of(task.status),
            now + SUBMIT_WINDOW_MS,
            (end, event.write_id),
            discarded_of(task.id, [row.history[-2], event]) if len(row.history) > 1 else None,
        )

    # --- what is not a move ---

    def put_cell(self, row: Row, cell: RunCell) -> None:
        """Replace the run cell alone. The timer stays: it fires early, and is armed anew then."""
        task = row.task
        row.task = Task(
            definition=task.definition, status=task.status, cell=cell, result=task.result
        )

    def arm(self, row: Row, at: int | None, now: int) -> None:
        """Set the row's timer, also if it is taken."""
        row.held = False
        timers = self.timers[row.partition]
        if at is None:
            timers.discard(row.id)
            return
        timers.put(row.id, at)
        if at <= now + self._near_ms:
            self._hub.hint(TIMER_TOPIC)

    def held(self, row: Row) -> bool:
        """Whether edges forbid that the record is deleted (docs/rulings.md, R9)."""
        edges, parent = self.edges, row.id
        return any(
            child in self.rows and self.rows[child].entry.state in LIVE
            for child in (*edges.unsettled(parent), *edges.loading(parent))
        )

    def free(self, parents: Iterable[str], now: int) -> None:
        """Set the timers of ended parents that no edge keeps any longer: their deletion may have
        been due."""
        for parent in parents:
            row = self.rows.get(parent)
            if row is not None and row.entry.state not in LIVE and not self.held(row):
                self.arm(row, row.entry.timer, now)

    def claimed_with(self, token: str) -> list[Task]:
        """What a claim with this token handed out, as far as those runs are active."""
        held = self._tokens.get(token)
        return [self.rows[task_id].copy() for task_id in held] if held else []

    def holder(self, task_id: str, key: str | None, now: int, heir_of: str = "") -> str | None:
        """The task that keeps this one from the unique key: neither itself nor the one it
        supersedes. None if the key is None or free."""
        if key is None:
            return None
        holder = self._unique.get(key)
        if holder is None or holder in (task_id, heir_of) or lapsed(self.rows[holder].entry, now):
            return None
        return holder

    def stub(self, task_id: str, now: int) -> Stub | None:
        """The tombstone of a task that was deleted within the submit window."""
        stub = self._stubs.get(task_id)
        if stub is not None and stub.until <= now:
            del self._stubs[task_id]
            return None
        return stub

    def state(self, task_id: str, now: int) -> State | None:
        """The state of a record, or the one that a deleted record ended in."""
        row = self.rows.get(task_id)
        if row is not None:
            return row.entry.state
        stub = self.stub(task_id, now)
        return None if stub is None else stub.state

    def trim_stubs(self, now: int, limit: int) -> int:
        """Drop up to `limit` stubs whose window has passed; the oldest stand first."""
        passed: list[str] = []
        for task_id, stub in self._stubs.items():
            if stub.until > now or len(passed) >= limit:
                break
            passed.append(task_id)
        for task_id in passed:
            del self._stubs[task_id]
        return len(passed)

    # --- dependencies ---

    def link(self, link: Link, now: int) -> list[Ended]:
        """Record the edges of a child. Returns which of its parents have ended."""
        child = self.rows.get(link.child)
        if child is None or child.entry.state is not State.BLOCKED:
            return []
        told = ((parent, self._link(parent, link, now)) for parent in link.parents)
        return [Ended(link.child, parent, end[0], link.any_end) for parent, end in told if end]

    def _link(self, parent: str, link: Link, now: int) -> tuple[State | None] | None:
        """Record one edge, or give the end of the parent, in a tuple.

        A child that names itself waits only to be scheduled. What satisfied a child once does so
        for good, also when the parent was rerun since: the child may have missed that it was the
        last.
        """
        if parent == link.child:
            return None
        row = self.rows.get(parent)
        if parent in self.edges.satisfied(link.child):
            if link.loads and row is not None:
                self.edges.add(parent, link, ended=True)
                self.edges.settle(parent, link.child)
            return (State.COMPLETED,)
        if row is None:
            stub = self.stub(parent, now)
            return (None if stub is None else stub.state,)
        ended = row.entry.state not in LIVE
        self.edges.add(parent, link, ended=ended)  # a rerun may satisfy where an end did not
        return (row.entry.state,) if ended else None

    def settle(self, settlement: Settlement, now: int) -> int:
        """Settle the edge, and count the dependency. Returns how many more the child needs, or how
        many more may fail (`Store.settle`)."""
        parent = settlement.parent
        self.edges.settle(parent, settlement.child)
        self.free([parent], now)
        child = self.rows.get(settlement.child)
        if child is None or child.entry.state is not State.BLOCKED:
            return 0 if settlement.satisfied else -1
        if not settlement.satisfied and child.entry.spare is None:
            return -1
        is_named = self.edges.names(child.id, child.task.definition.dependencies, parent)
        if settlement.satisfied and is_named:
            self.edges.satisfy(child.id, parent)
        satisfied = self.edges.satisfied(child.id)
        if settlement.satisfied or child.entry.spare is None:
            return child.entry.remaining - len(satisfied)
        counts = is_named and parent not in satisfied
        return child.entry.spare - self.edges.failing(child.id, parent if counts else None)

    # --- keeping the indexes in step with the record ---

    def _run_ended(self, row: Row) -> None:
        status = row.task.status
        if status.worker:
            self.lists.work(row, status.worker, begun=False)
        if row.token:
            held = self._tokens[row.token]
            del held[row.id]
            if not held:
                del self._tokens[row.token]
            row.token = ""

    def _take_up(self, row: Row, token: str) -> None:
        status = row.task.status
        if status.worker:
            self.lists.work(row, status.worker, begun=True)
        if token:
            row.token = token
            self._tokens.setdefault(token, {})[row.id] = None

    def _follow(self, row: Row, effects: Effects, now: int) -> None:
        """Carry out what a write does to readiness, unique keys and edges."""
        config = self._fleet.queues[effects.queue]
        offered = self.ready.update(row, effects, config.max_concurrent_per_key)
        made_room = config.max_concurrent is not None and effects.frees_slot
        if offered or (made_room and self.ready.waiting(config.name)):
            self._hub.hint(ready_topic(config.name))
        if row.task.definition.unique_key is not None:
            self._reserve(row.id, effects, now)
        if effects.left is not None and effects.left is not effects.state:
            self._follow_edges(row.id, effects)

    def _reserve(self, task_id: str, effects: Effects, now: int) -> None:
        key, freed = effects.key_to_reserve(now), effects.frees_key
        if key is not None and self.holder(task_id, key, now, effects.heir_of) is None:
            self._unique[key] = task_id  # a restored record may find it taken
        elif freed is not None and self._unique.get(freed) == task_id:
            del self._unique[freed]

    def _follow_edges(self, task_id: str, effects: Effects) -> None:
        if effects.unblocks:
            self.edges.unblocked(task_id)
        if effects.ends:
            self.edges.ended(task_id)
        elif effects.revives:
            self.edges.revived(task_id)

    def _record(self, row: Row, event: TaskEvent, tally: Tally | None) -> None:
        event = replace(event, task=row.id)
        row.history.append(event)
        self.days.add(row.entry.queue, event.at, tally)
        self._log.append(row.partition, event)
        topic = run_topic if event.event is _CLAIM else task_topic
        self._hub.hint(EVENTS_TOPIC, topic(row.id))
