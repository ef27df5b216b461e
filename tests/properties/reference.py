"""The contract in its plainest form: a dict of records, searched from end to end.

Nothing here is fast, nothing is shared with a store but the pure core, and every rule is one
line or two. The stores are right when they cannot be told from this.
"""

from dataclasses import dataclass, field

from andon.contract.edges import Ended, Link, Settlement
from andon.contract.outcomes import Changed, ChangeKind, Created, CreateKind, Verdict
from andon.contract.requests import Change, ClaimRequest, Renewal
from andon.lifecycle.apply import next_fence, stamped
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.lifecycle.indexes import entry_of
from andon.model.fleet import QueueConfig
from andon.model.task import RunCell, Stamp, Status, Task, TaskEvent
from andon.model.words import TERMINAL, WAITING, State

LIVE = WAITING | {State.ACTIVE}


@dataclass
class Record:
    task: Task
    number: int
    timer: int | None
    history: list[TaskEvent]
    parked: bool = False
    token: str = ""


@dataclass
class Tie:
    """An edge."""

    loads: bool
    any_end: bool
    settled: bool


@dataclass
class Reference:
    """All of a store that the machine asks about. `now` is set by whoever drives it."""

    now: int
    records: dict[str, Record] = field(default_factory=dict)
    stubs: dict[str, tuple[str, State, int, tuple[str, ...]]] = field(default_factory=dict)
    configs: dict[str, QueueConfig] = field(default_factory=dict)
    edges: dict[tuple[str, str], Tie] = field(default_factory=dict)
    satisfied: set[tuple[str, str]] = field(default_factory=set)
    failing: set[tuple[str, str]] = field(default_factory=set)
    log: list[TaskEvent] = field(default_factory=list)
    created: int = 0
    claims: int = 0

    # --- the life of a task ---

    def create(self, tasks: list[Task]) -> list[Created]:
        return [self._create(task) for task in tasks]

    def _create(self, task: Task) -> Created:
        there = self.records.get(task.id)
        if there is not None:
            return Created(CreateKind.EXISTS, there.task.definition.digest, there.task.state)
        if (stub := self._stub(task.id)) is not None:
            return Created(CreateKind.EXISTS, stub[0], stub[1])
        holder = self._holder(task)
        if holder is not None:
            return Created(CreateKind.KEY_HELD, holder=holder)
        config = self._config(task.definition.queue)
        pending = self._of(task.definition.queue, State.PENDING)
        if (
            config.max_size is not None
            and task.state is State.PENDING
            and len(pending) >= config.max_size
        ):
            return Created(CreateKind.FULL)
        self.created += 1
        record = Record(task, self.created, entry_of(task).timer, [])
        record.parked = task.state is State.PENDING and task.definition.key is not None
        self.records[task.id] = record
        self._note(record, task.status.events[-1])
        self._admit(record)
        return Created(CreateKind.CREATED)

    def claim(self, request: ClaimRequest) -> list[Task]:
        again = [r.task for r in self.records.values() if r.token == request.token]
        if again:
            return again
        room, taken = dict(request.room), []
        for queue in request.queues:
            config = self._config(queue)
            limit = 0 if config.paused else request.limit - len(taken)
            if config.max_concurrent is not None:
                limit = min(limit, config.max_concurrent - len(self._of(queue, State.ACTIVE)))
            for record in self.ready(queue):
                name, entry = record.task.definition.name, entry_of(record.task)
                if limit <= 0:
                    break
                assert entry.ready is not None
                if entry.ready.dead_at is not None and entry.ready.dead_at <= self.now:
                    record.timer = min(record.timer or self.now, self.now)
                elif room.get(name, 1) > 0:
                    taken.append(self._stamp(record, request))
                    limit -= 1
                    if name in room:
                        room[name] -= 1
        return taken

    def _stamp(self, record: Record, request: ClaimRequest) -> Task:
        self.claims += 1
        stamp = Stamp(
            run=f"run{self.claims}",
            fence=next_fence(record.task.status.fence, self.now),
            worker=request.worker,
            token=request.token,
            at=self.now,
            lease_until=self.now + request.lease_ms,
        )
        self._put(record, stamped(record.task, stamp))
        record.token = request.token
        self._note(record, record.task.status.events[-1])
        return record.task

    def renew(self, renewal: Renewal) -> Verdict:
        record = self.records.get(renewal.task)
        if record is None or record.task.cell is None or record.task.cell.run != renewal.run:
            return Verdict.LOST
        cell = record.task.cell
        renewed = RunCell(
            run=cell.run,
            lease_until=max(cell.lease_until, self.now + renewal.lease_ms),
            heartbeat_at=self.now if renewal.heartbeat else cell.heartbeat_at,
            progress=cell.progress if renewal.progress is None else renewal.progress,
            message=cell.message if renewal.message is None else renewal.message,
        )
        record.task = _with(record.task, record.task.status, renewed, record.task.result)
        asked = record.task.status.cancel_requested_at is not None
        return Verdict.CANCEL if asked else Verdict.OK

    def commit(self, change: Change) -> Changed:
        record = self.records.get(change.before.id)
        if record is None:
            stub = self._stub(change.before.id)
            repeated = stub is not None and change.event.write_id in stub[3]
            return Changed(ChangeKind.APPLIED if repeated else ChangeKind.GONE)
        task = record.task
        if change.before.status.created_at != task.status.created_at:
            return Changed(ChangeKind.GONE)  # decided on an earlier task of this id
        if any(e.write_id == change.event.write_id for e in record.history):
            return self._applied(task)
        lease = None if task.cell is None else task.cell.lease_until
        moved = change.before.status.revision != task.status.revision
        if moved or (change.seen_lease is not None and change.seen_lease != lease):
            return Changed(ChangeKind.CONFLICT, current=task)
        if change.after is None:
            if not change.force and self.held(task.id):
                return Changed(ChangeKind.CONFLICT, current=task)
            self._delete(record, change.event)
            return Changed(ChangeKind.APPLIED)
        active = change.after.state is State.ACTIVE
        result = change.result if change.sets_result else task.result
        new = _with(task, change.after, task.cell if active else None, result)
        if entry_of(task).unique_key is None:
            holder = self._holder(new)
            if holder is not None:
                return Changed(ChangeKind.KEY_HELD, holder=holder)
        if not active:
            record.token = ""
        self._put(record, new)
        self._note(record, change.event)
        outcome = self._applied(new)
        if change.discard is not None and not self.held(task.id):
            self._delete(record, change.discard)
        return outcome

    def _applied(self, task: Task) -> Changed:
        tied = any(parent == task.id for parent, _ in self.edges)
        return Changed(ChangeKind.APPLIED, has_dependents=tied and task.state in TERMINAL)

    # --- timers ---

    def due(self) -> list[Task]:
        """Tasks whose timer has passed."""
        return [
            r.task for r in self.records.values() if r.timer is not None and r.timer <= self.now
        ]

    def rearm(self, task_id: str, at: int | None) -> None:
        self.records[task_id].timer = at

    # --- dependencies ---

    def link(self, link: Link) -> list[Ended]:
        child = self.records.get(link.child)
        if child is None or child.task.state is not State.BLOCKED:
            return []
        ended: list[Ended] = []
        for parent in link.parents:
            record = self.records.get(parent)
            state = None if record is None else record.task.state
            if record is None and (stub := self._stub(parent)) is not None:
                state = stub[1]
            over = state is None or state in TERMINAL
            if (link.child, parent) in self.satisfied:
                over, state = True, State.COMPLETED
            if over:
                ended.append(Ended(link.child, parent, state, link.any_end))
            if record is not None and (link.loads or (link.child, parent) not in self.satisfied):
                tie = Tie(link.loads, link.any_end, settled=over)
                tie = self.edges.setdefault((parent, link.child), tie)
                tie.settled = tie.settled and over
                tie.loads = tie.loads or link.loads
        return ended

    def settle(self, settlement: Settlement) -> int:
        tie = self.edges.get((settlement.parent, settlement.child))
        if tie is not None:
            tie.settled = True
        self._edge_changed(settlement.parent)
        child = self.records.get(settlement.child)
        if child is None or child.task.state is not State.BLOCKED:
            return 0 if settlement.satisfied else -1
        d, pair = child.task.definition, (settlement.child, settlement.parent)
        needs = len(d.dependencies) if d.needs is None else d.needs
        if settlement.satisfied:
            if settlement.parent in d.dependencies:
                self.satisfied.add(pair)
                self.failing.discard(pair)
            return needs - sum((d.id, parent) in self.satisfied for parent in d.dependencies)
        if d.needs is None:
            return -1
        if pair not in self.satisfied and settlement.parent in d.dependencies:
            self.failing.add(pair)
        failing = sum((d.id, parent) in self.failing for parent in d.dependencies)
        return len(d.dependencies) - needs - failing

    def release_edges(self, parent: str, child: str) -> None:
        tie = self.edges.get((parent, child))
        if tie is not None:
            tie.settled, tie.loads = True, False

    def unlink(self, parent: str, child: str) -> None:
        self.edges.pop((parent, child), None)
        self._edge_changed(parent)

    def _edge_changed(self, parent: str) -> None:
        """An edge has changed: a deletion that edges put off is due again."""
        record = self.records.get(parent)
        if record is None or record.task.state not in TERMINAL or self.held(parent):
            return
        at = entry_of(record.task).timer
        if record.timer is not None and at is not None and at <= self.now < record.timer:
            record.timer = self.now

    def held(self, task_id: str) -> bool:
        """Whether a live child was not told, or still loads the result."""
        return any(
            parent == task_id
            and (tie.loads or not tie.settled)
            and child in self.records
            and self.records[child].task.state in LIVE
            for (parent, child), tie in self.edges.items()
        )

    # --- the fleet ---

    def put_queue(self, config: QueueConfig, expect: QueueConfig) -> bool:
        if self.configs.get(config.name, QueueConfig(name=config.name)) != expect:
            return False
        self.configs[config.name] = config
        keys = {
            r.task.definition.key
            for r in self.records.values()
            if r.task.definition.queue == config.name
        }
        for key in keys:
            if key is not None:
                self._balance(config.name, key)
        return True

    # --- what follows from the records ---

    def ready(self, queue: str) -> list[Record]:
        """The claimable tasks of a queue in claim order."""
        pending = [r for r in self._of(queue, State.PENDING) if not r.parked]
        return sorted(pending, key=_rank)

    def counts(self, queue: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for record in self.records.values():
            if record.task.definition.queue == queue:
                state = record.task.state.value
                found[state] = found.get(state, 0) + 1
        return found

    def dead_letters(self, queue: str) -> int:
        return sum(
            entry_of(r.task).dead_letter
            for r in self.records.values()
            if r.task.definition.queue == queue
        )

    def parked(self, queue: str) -> int:
        return sum(r.parked for r in self._of(queue, State.PENDING))

    def most_of_a_key(self, queue: str) -> int:
        """Most admitted tasks of one key, waiting or running."""
        found = [r for s in (State.PENDING, State.ACTIVE) for r in self._of(queue, s)]
        keys = [r.task.definition.key for r in found if not r.parked]
        return max((keys.count(key) for key in keys if key is not None), default=0)

    def next_timer(self) -> int | None:
        timers = [r.timer for r in self.records.values() if r.timer is not None]
        return min(timers, default=None)

    def _of(self, queue: str, state: State) -> list[Record]:
        return [
            r
            for r in self.records.values()
            if r.task.definition.queue == queue and r.task.state is state
        ]

    def _config(self, queue: str) -> QueueConfig:
        return self.configs.get(queue) or QueueConfig(name=queue)

    # --- writing ---

    def _put(self, record: Record, task: Task) -> None:
        was = record.task.state
        record.task = task
        record.timer = entry_of(task).timer
        record.parked = task.state is State.PENDING and task.definition.key is not None
        if was is State.BLOCKED and task.state is not State.BLOCKED:
            self.satisfied = {pair for pair in self.satisfied if pair[0] != task.id}
            self.failing = {pair for pair in self.failing if pair[0] != task.id}
        self._admit(record)

    def _delete(self, record: Record, event: TaskEvent) -> None:
        task = record.task
        writes = tuple(e.write_id for e in (*record.history[-1:], event) if e.write_id)
        self._note(record, event)
        del self.records[task.id]
        parents = [parent for parent, child in self.edges if child == task.id]
        self.edges = {pair: tie for pair, tie in self.edges.items() if task.id not in pair}
        for parent in parents:
            self._edge_changed(parent)
        until = self.now + SUBMIT_WINDOW_MS
        self.stubs[task.id] = (task.definition.digest, task.state, until, writes)
        self._admit(record)

    def _note(self, record: Record, event: TaskEvent) -> None:
        record.history.append(event)
        self.log.append(event)

    def _stub(self, task_id: str) -> tuple[str, State, int, tuple[str, ...]] | None:
        stub = self.stubs.get(task_id)
        return stub if stub is not None and stub[2] > self.now else None

    def _holder(self, task: Task) -> str | None:
        """Who holds the key that this record wants; a record past its period wants none."""
        wish = entry_of(task)
        if wish.unique_key is None or self._lapsed(wish.unique_until):
            return None
        for other in self.records.values():
            entry = entry_of(other.task)
            same = entry.unique_key == wish.unique_key and other.task.id != task.id
            if same and not self._lapsed(entry.unique_until):
                return other.task.id
        return None

    def _lapsed(self, until: int | None) -> bool:
        return until is not None and until <= self.now

    # --- limits per key ---

    def _admit(self, record: Record) -> None:
        key = record.task.definition.key
        if key is not None:
            self._balance(record.task.definition.queue, key)

    def _balance(self, queue: str, key: str) -> None:
        """Let the first of those parked through, as many as the limit has room for. Who was let
        through stays so, whoever comes later, unless the limit is lowered."""
        limit = self._config(queue).max_concurrent_per_key
        active = sum(r.task.definition.key == key for r in self._of(queue, State.ACTIVE))
        mine = [r for r in self._of(queue, State.PENDING) if r.task.definition.key == key]
        order = sorted(mine, key=lambda r: (r.parked, _rank(r)))
        for place, record in enumerate(order):
            record.parked = limit is not None and place >= limit - active


def _rank(record: Record) -> tuple[int, int, int]:
    status = record.task.status
    return (-status.priority, status.order, record.number)


def _with(task: Task, status: Status, cell: RunCell | None, result: bytes | None) -> Task:
    return Task(definition=task.definition, status=status, cell=cell, result=result)
