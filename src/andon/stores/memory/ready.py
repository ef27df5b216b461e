"""The ready index: tasks that may be claimed, and tasks that their concurrency key holds back.

Ready tasks stand in one lane per partition, queue and kind (`lifecycle.routing`), so that a kind
for which a worker has no code, or no room, costs nothing to pass by. A task with a concurrency key
first passes the gate of its key: of each key at most `max_concurrent_per_key` tasks are ready or
active, the others are parked there in their order, and no claim ever looks at them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heapreplace

from andon.contract.limits import SCAN_BUDGET
from andon.contract.queries import ReadyKind
from andon.lifecycle.effects import Effects
from andon.lifecycle.routing import name_of_kind
from andon.model.code import Code
from andon.model.words import State
from andon.stores.kit.known_codes import KnownCodes
from andon.stores.memory.heap import NamedHeap
from andon.stores.memory.row import Rank, Row

_Lane = NamedHeap[Rank]

_ACTIVE = State.ACTIVE  # see `lifecycle.admission`


class _Gate:
    """One concurrency key of one queue."""

    def __init__(self) -> None:
        self.active = 0
        self.worst_ready = _Lane()  #: those let through, the last in order first
        self.parked = _Lane()

    @property
    def admitted(self) -> int:
        return self.active + len(self.worst_ready)

    @property
    def unused(self) -> bool:
        return not self.admitted and not self.parked


class Ready:
    """The ready index of a store, with the counts that fleet-wide limits need."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = rows
        self._lanes: dict[tuple[int, str], dict[str, _Lane]] = {}
        self._ages: dict[str, NamedHeap[int]] = {}
        self._gates: dict[str, dict[str, _Gate]] = {}
        self.active: Counter[str] = Counter()
        self.parked: Counter[str] = Counter()
        self._codes = KnownCodes()

    def update(self, row: Row, effects: Effects, key_limit: int | None) -> bool:
        """Apply a write of the row to this index. Returns whether a task became ready by it."""
        queue, key = effects.queue, effects.key
        was_active = effects.left is _ACTIVE
        is_active = effects.state is _ACTIVE
        is_ready = effects.ready_in is not None
        if not (was_active or is_active or is_ready or effects.ready_out is not None):
            return False
        if is_active is not was_active:
            self._count(self.active, queue, is_active - was_active)
        if row.lane is not None:
            self._withdraw(row)
        if key is None:
            if is_ready:
                self._offer(row)
            return is_ready
        gate = self._gates.setdefault(queue, {}).setdefault(key, _Gate())
        parked = len(gate.parked)
        gate.active += is_active - was_active
        gate.worst_ready.discard(row.id)
        gate.parked.discard(row.id)
        if is_ready:
            gate.parked.put(row.id, row.rank)
        offered = self._balance(gate, key_limit)
        self._count(self.parked, queue, len(gate.parked) - parked)
        if gate.unused:
            del self._gates[queue][key]
            if not self._gates[queue]:
                del self._gates[queue]
        return offered

    def set_key_limit(self, queue: str, limit: int | None) -> None:
        """Let tasks through or hold them back as a new limit per key requires."""
        for gate in self._gates.get(queue, {}).values():
            parked = len(gate.parked)
            self._balance(gate, limit)
            self._count(self.parked, queue, len(gate.parked) - parked)

    def take(
        self,
        partition: int,
        queue: str,
        limit: int,
        *,
        room: dict[str, int],
        code: Code | None,
        now: int,
    ) -> tuple[list[Row], list[Row]]:
        """Take up to `limit` ready rows that the code may run, lowering `room`; beside them those
        found dead.

        Both are withdrawn: the first are claimed now, the others wait for their timer.
        """
        taken: list[Row] = []
        dead: list[Row] = []
        lanes = self._lanes.get((partition, queue), {})
        may = self._codes.kinds_of(code)
        heads = [
            (*head, kind)
            for kind, lane in lanes.items()
            if (not room or room.get(name_of_kind(kind), 1) > 0)
            and may(kind)
            and (head := lane.first()) is not None
        ]
        heapify(heads)
        looked = 0
        while heads and len(taken) < limit and looked < SCAN_BUDGET:
            looked += 1
            _, task_id, kind = heads[0]
            name = name_of_kind(kind) if room else ""
            if room.get(name, 1) <= 0:  # used up by another kind of this name
                heappop(heads)
                continue
            row, lane = self._rows[task_id], lanes[kind]
            self._withdraw(row)
            ready = row.entry.ready
            assert ready is not None
            if ready.dead_at is not None and ready.dead_at <= now:
                dead.append(row)
            else:
                taken.append(row)
                if name in room:
                    room[name] -= 1
            following = lane.first()
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (*following, kind))
        return taken, dead

    def kinds(self, queues: Sequence[str]) -> list[ReadyKind]:
        """The kinds that these queues have ready, or all queues if none is named."""
        oldest: dict[tuple[str, str], int] = {}
        for (_, queue), lanes in self._lanes.items():
            if queues and queue not in queues:
                continue
            for kind, lane in lanes.items():
                first = lane.first()
                assert first is not None
                _, order, _ = first[0]
                oldest[queue, kind] = min(order, oldest.get((queue, kind), order))
        return [ReadyKind(queue, kind, at) for (queue, kind), at in sorted(oldest.items())]

    def waiting(self, queue: str) -> bool:
        """Whether the queue has something to claim, in any partition."""
        return queue in self._ages

    def oldest(self, queue: str) -> int | None:
        """Since when the oldest ready task of the queue waits."""
        ages = self._ages.get(queue)
        first = None if ages is None else ages.first()
        return None if first is None else first[0]

    def _offer(self, row: Row) -> None:
        definition, status, ready = row.task.definition, row.task.status, row.entry.ready
        assert ready is not None
        lanes = self._lanes.setdefault((row.partition, definition.queue), {})
        lane = lanes.get(ready.kind)
        if lane is None:
            lane = lanes[ready.kind] = _Lane()
        lane.put(row.id, row.rank)
        row.lane = ready.kind
        ages = self._ages.get(definition.queue)
        if ages is None:
            ages = self._ages[definition.queue] = NamedHeap[int]()
        ages.put(row.id, status.submitted_at or status.created_at)

    def _withdraw(self, row: Row) -> None:
        kind, row.lane = row.lane, None
        if kind is None:
            return
        queue = row.task.definition.queue
        lanes = self._lanes[row.partition, queue]
        if not lanes[kind].discard(row.id):
            del lanes[kind]
            if not lanes:
                del self._lanes[row.partition, queue]
        if not self._ages[queue].discard(row.id):
            del self._ages[queue]

    def _balance(self, gate: _Gate, limit: int | None) -> bool:
        """Let the first in order through, as many as the limit has room for."""
        offered = False
        while limit is not None and gate.admitted > limit and gate.worst_ready:
            self._park(gate)
        while gate.parked and (limit is None or gate.admitted < limit):
            self._pass(gate)
            offered = True
        return offered

    def _park(self, gate: _Gate) -> None:
        worst = gate.worst_ready.first()
        assert worst is not None
        row = self._rows[worst[1]]
        gate.worst_ready.discard(worst[1])
        self._withdraw(row)
        gate.parked.put(worst[1], row.rank)

    def _pass(self, gate: _Gate) -> None:
        first = gate.parked.first()
        assert first is not None
        rank, task_id = first
        gate.parked.discard(task_id)
        gate.worst_ready.put(task_id, (-rank[0], -rank[1], -rank[2]))
        self._offer(self._rows[task_id])

    @staticmethod
    def _count(counter: Counter[str], queue: str, change: int) -> None:
        if change:
            counter[queue] += change
            if not counter[queue]:
                del counter[queue]
