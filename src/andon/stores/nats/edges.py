"""Edges between tasks, and marks of ends that dependents are to be notified of: one small message
each.

`linking` writes them, `settling` settles them, `dependents` reads them in pages, and `counts`
counts the dependencies of a child that have ended.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from andon.contract.edges import Edge
from andon.contract.isolation import left_out
from andon.contract.limits import in_batches
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.lifecycle.discarded import Discarded, discarded_of
from andon.lifecycle.timers import next_timer
from andon.model.task import Tombstone
from andon.model.words import OVER, State
from andon.stores.kit.codec import encode
from andon.stores.kit.partitions import partition_of
from andon.stores.nats.counts import GONE, Counts, tombstone
from andon.stores.nats.ended_tasks import EndedTasks
from andon.stores.nats.jetstream import CONFLICT, GUARD, Write, seq_of, subject_of
from andon.stores.nats.known_edges import KnownEdge, KnownEdges, Pair
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.record_codec import StoredRecord
from andon.stores.nats.subjects import is_token
from andon.stores.nats.timers import Timers

TOGETHER = 500
"""How many writes are sent at once: more would not all be answered within the time of one
attempt."""

_FIRST = 100
"""Of a parent of thousands, how many edges are read first to find one that is not settled."""


class _Edge(msgspec.Struct, array_like=True):
    loads: bool
    any_end: bool
    settled: bool
    needs_all: bool = False  #: of the child; an older release says nothing of it


_decode = msgspec.msgpack.Decoder(_Edge).decode


def is_over(state: State) -> bool:
    """Whether a task of this state has ended; one that does not decode counts as ended."""
    return state in OVER


def state_of(stored: StoredRecord | None, now: int) -> State | None:
    """The state of a record, or what a task deleted within the submit window ended in."""
    if stored is None:
        return None
    if stored.body.deleted:
        return State(stored.body.state) if stored.body.deleted > now - SUBMIT_WINDOW_MS else None
    return None if stored.task is None else stored.task.state


def tombstone_of(stored: StoredRecord | None, now: int) -> Tombstone | None:
    """What is left of a task that was deleted within the submit window."""
    if stored is None or not stored.body.deleted or stored.body.deleted <= now - SUBMIT_WINDOW_MS:
        return None
    return stored.body.left or Tombstone(State(stored.body.state))


def last_moves_of(stored: StoredRecord | None, now: int) -> Discarded | None:
    """The last two moves of a task that was discarded at its end within the submit window."""
    if stored is None or not stored.body.deleted or stored.body.deleted <= now - SUBMIT_WINDOW_MS:
        return None
    return discarded_of(stored.body.id, stored.body.events)


def is_possible(what: str, task_id: str) -> bool:
    """Whether a task can have the id; one that cannot is logged as left out."""
    if is_token(task_id):
        return True
    left_out(what, task_id, "no subject can hold the id")
    return False


def _edge_of(msg: Reply) -> KnownEdge:
    _, parent, child = subject_of(msg).rsplit(".", 2)
    found = _decode(msg.data)
    edge = Edge(parent, child, found.loads, found.any_end, found.settled)
    return KnownEdge(edge, seq_of(msg), found.needs_all)


def _not_told(messages: Iterable[Reply]) -> set[str]:
    """The parents of those of the edges that are not settled."""
    edges = [_edge_of(msg).edge for msg in messages if msg.data]
    return {edge.parent for edge in edges if not edge.settled}


def encoded(edge: Edge, *, needs_all: bool = False) -> bytes:
    """An edge as it is stored."""
    return encode(_Edge(edge.loads, edge.any_end, edge.settled, needs_all))


class Edges:
    """The edges of all partitions: each is stored in its parent's."""

    def __init__(self, records: list[RecordCache], timers: list[Timers]) -> None:
        self.records = records
        self.counts = [Counts(of_partition) for of_partition in records]
        self.known = KnownEdges()
        self.ended = EndedTasks()
        self._timers = timers

    def partition(self, task_id: str) -> int:
        """The partition that stores what belongs to a task."""
        return partition_of(task_id, len(self.records))

    def _at(self, task_id: str) -> RecordCache:
        return self.records[self.partition(task_id)]

    # --- reading ---

    async def of_each(self, parents: Iterable[str]) -> dict[str, dict[str, KnownEdge]]:
        """The edges of parents by child."""
        found: dict[str, dict[str, KnownEdge]] = {parent: {} for parent in parents}
        for records in self.records:
            subjects = records.subjects
            mine = [subjects.of("e", p, "*") for p in found if self._at(p) is records]
            for msg in await records.last(mine) if mine else ():
                if msg.data:
                    known = _edge_of(msg)
                    found[known.edge.parent][known.edge.child] = known
        return found

    async def those(self, pairs: Iterable[Pair]) -> dict[Pair, KnownEdge]:
        """Edges by parent and child: only these, of parents that may have thousands."""
        wanted = dict.fromkeys(pairs)
        found: dict[Pair, KnownEdge] = {}
        for records in self.records:
            subjects = records.subjects
            mine = [subjects.of("e", p, c) for p, c in wanted if self._at(p) is records]
            for some in in_batches(mine, TOGETHER):
                for msg in await records.last(some):
                    if msg.data:
                        known = _edge_of(msg)
                        found[known.pair] = known
                        self.known.note(known)
        return found

    async def seen(self, pairs: Iterable[Pair]) -> dict[Pair, KnownEdge]:
        """The same as they were seen a moment ago, or are read now. For writing over them with
        `change`."""
        found: dict[Pair, KnownEdge] = {}
        unseen: list[Pair] = []
        for pair in pairs:
            known = self.known.get(pair)
            if known is None:
                unseen.append(pair)
            else:
                found[pair] = known
        return found | await self.those(unseen) if unseen else found

    async def of_some(self, parents: Sequence[str]) -> dict[str, list[KnownEdge]]:
        """The edges of those of the parents that have any."""
        found = await self.of_each(parents)
        return {parent: [*edges.values()] for parent, edges in found.items() if edges}

    async def held(self, parents: Sequence[str]) -> set[str]:
        """Those of the tasks whose edges keep the record from being deleted (docs/rulings.md,
        R9)."""
        edges = await self.of_each(parents)
        holding = {
            parent: [k.edge.child for k in of.values() if k.edge.loads or not k.edge.settled]
            for parent, of in edges.items()
        }
        living = await self._living([child for of in holding.values() for child in of])
        return {parent for parent, of in holding.items() if not living.isdisjoint(of)}

    def lately(self, task_id: str) -> StoredRecord | None:
        """The record as it was read a moment ago."""
        return self._at(task_id).lately(task_id)

    async def _living(self, ids: Iterable[str]) -> set[str]:
        """Those of the tasks that exist and have not ended."""
        return {
            task_id
            for task_id, stored in (await self.records_of(ids)).items()
            if stored.task is not None and not is_over(stored.task.state)
        }

    async def records_of(self, ids: Iterable[str]) -> dict[str, StoredRecord]:
        """The records of tasks that exist, or existed lately."""
        wanted = list(dict.fromkeys(ids))
        found: dict[str, StoredRecord] = {}
        for records in self.records:
            mine = [i for i in wanted if self._at(i) is records]
            if mine:
                found.update(await records.read(mine))
        return found

    # --- writing ---

    async def write(
        self, edges: Iterable[Edge], marks: Iterable[str] = (), *, need_all: Container[str] = ()
    ) -> None:
        """Write edges whatever is there, and marks of ended parents. `need_all`: children that need
        all their dependencies."""
        writes: dict[int, list[Write]] = {}
        for edge in edges:
            self.known.forget((edge.parent, edge.child))
            self.ended.forget_edges(edge.parent)
            message = self._message(edge, needs_all=edge.child in need_all)
            writes.setdefault(self.partition(edge.parent), []).append(message)
        for parent in marks:
            writes.setdefault(self.partition(parent), []).append(self.mark(parent))
        await self._send(writes)

    async def change(self, known: Iterable[KnownEdge], how: Callable[[Edge], Edge]) -> None:
        """Write over each edge what `change` makes of it. One that another process has written
        meanwhile is read anew."""
        left = list(known)
        while left:
            refused: list[Pair] = []
            for some in in_batches(left, TOGETHER):
                refused += await self._change(some, how)
            left = [*(await self.those(refused)).values()] if refused else []

    async def _change(self, known: Sequence[KnownEdge], how: Callable[[Edge], Edge]) -> list[Pair]:
        """Those that differed from what is known of them."""
        refused: list[Pair] = []
        by_partition: dict[int, list[KnownEdge]] = {}
        for one in known:
            new = one._replace(edge=how(one.edge))
            if new != one:
                by_partition.setdefault(self.partition(new.edge.parent), []).append(new)
        for partition, new in by_partition.items():
            records = self.records[partition]
            writes = [self.over(one) for one in new]
            refused += self.written(new, await records.js.write(records.subjects.stream, writes))
        return refused

    def over(self, new: KnownEdge) -> Write:
        """The message of an edge that is written over the one at the position it has so far;
        refused if a newer one exists."""
        subject, body, _ = self._message(new.edge, needs_all=new.needs_all)
        return subject, body, {GUARD: str(new.seq)}

    def written(self, new: Iterable[KnownEdge], seqs: Iterable[int]) -> list[Pair]:
        """Remember the edges of such writes. Returns those that were refused."""
        refused: list[Pair] = []
        for one, seq in zip(new, seqs, strict=True):
            if seq > CONFLICT:
                self.known.note(one._replace(seq=seq))
            else:
                self.known.forget(one.pair)
                refused.append(one.pair)
        return refused

    async def _send(self, writes: Mapping[int, Sequence[Write]]) -> None:
        for partition, of_partition in writes.items():
            records = self.records[partition]
            for some in in_batches(of_partition, TOGETHER):
                await records.js.write(records.subjects.stream, some)

    def _message(self, edge: Edge, *, needs_all: bool) -> Write:
        subject = self._at(edge.parent).subjects.of("e", edge.parent, edge.child)
        return subject, encoded(edge, needs_all=needs_all), None

    def mark(self, parent: str) -> Write:
        """The mark that the dependents of a parent are to be notified of its end."""
        return self._at(parent).subjects.of("x", parent), b"1", None

    # --- telling ---

    async def free(self, parents: Iterable[str], now: int) -> None:
        """Make ended parents due whose deletion was put off, and that no edge keeps any more."""
        due: dict[str, int] = {}
        asked = [parent for parent in parents if self.ended.may_be_over(parent, now)]
        for parent, stored in (await self.records_of(asked)).items() if asked else ():
            task = stored.task
            if task is not None and stored.body.linked and is_over(task.state):
                at = next_timer(task)
                if at is not None and at <= now:
                    due[parent] = task.status.revision
        held = await self.held([*due]) if due else set[str]()
        for partition, timers in enumerate(self._timers):
            await timers.set(
                [
                    (parent, revision, now)
                    for parent, revision in due.items()
                    if parent not in held and self.partition(parent) == partition
                ],
                now,
            )

    async def let_go(self, pairs: Sequence[Pair], now: int) -> None:
        """Release edges: they count as settled, and keep no record or result."""
        pairs = [pair for pair in pairs if is_token(pair[0]) and is_possible("An edge", pair[1])]
        there = await self.seen(pairs)
        await self.change(there.values(), lambda edge: replace(edge, loads=False, settled=True))
        # If the edge was not settled, the parent has mostly not ended; if its deletion was put off
        # all the same, the deletion is tried again a minute later.
        await self.free({k.edge.parent for k in there.values() if k.edge.settled}, now)

    async def unlink(self, pairs: Sequence[Pair], now: int) -> None:
        """Remove edges."""
        pairs = [pair for pair in pairs if is_token(pair[0]) and is_possible("An edge", pair[1])]
        writes: dict[int, list[Write]] = {}
        for parent, child in pairs:
            self.known.forget((parent, child))
            gone = (self._at(parent).subjects.of("e", parent, child), b"", GONE)
            writes.setdefault(self.partition(parent), []).append(gone)
        await self._send(writes)
        await self.free({parent for parent, _ in pairs}, now)

    async def take_unsettled(self, limit: int) -> list[tuple[str, State]]:
        """Ended tasks with dependents to notify."""
        found: list[tuple[str, State]] = []
        for records in self.records:
            # None may also mean that the server is shutting down: then the next call finds them.
            page, _ = await records.page(records.subjects.of("x", "*"), 1, min(limit, 1_000))
            marks = {subject_of(msg).rsplit(".", 1)[1]: msg for msg in page if msg.data}
            stored = await self.records_of(marks)
            states = {p: task.state for p in stored if (task := stored[p].task) is not None}
            over = [p for p in marks if p not in states or is_over(states[p])]
            unsettled = await self._unsettled([p for p in over if p in states])
            found += [(parent, states[parent]) for parent in over if parent in unsettled]
            done = [tombstone(marks[parent]) for parent in over if parent not in unsettled]
            await records.js.write(records.subjects.stream, done)
        return found[:limit]

    async def _unsettled(self, parents: Sequence[str]) -> set[str]:
        """Those that have edges that are not settled."""
        found: set[str] = set()
        for records in self.records:
            mine = [parent for parent in parents if self._at(parent) is records]
            found |= await self._unsettled_in(records, mine) if mine else set[str]()
        return found

    async def _unsettled_in(self, records: RecordCache, parents: Sequence[str]) -> set[str]:
        """The same in one partition. Not all edges of a parent of thousands are read: settling one
        writes it anew, so those that are not settled stand before the rest."""
        subjects = [records.subjects.of("e", parent, "*") for parent in parents]
        looked = await records.snapshot(subjects)
        if looked is not None:
            return _not_told(looked[0])
        if len(parents) > 1:
            middle = len(parents) // 2
            first = await self._unsettled_in(records, parents[:middle])
            return first | await self._unsettled_in(records, parents[middle:])
        page, _ = await records.page(subjects[0], 1, _FIRST)
        return _not_told(page) or _not_told(await records.read_all(subjects))

    async def forget(self, gone: Iterable[str]) -> None:
        """Remove the edges of deleted tasks to their dependents."""
        for records in self.records:
            subjects = records.subjects
            mine = [parent for parent in gone if self._at(parent) is records]
            filters = [subjects.of("e", parent, "*") for parent in mine]
            filters += [subjects.of("x", parent) for parent in mine]
            found = await records.last(filters) if mine else []
            writes = [tombstone(msg) for msg in found if msg.data]
            for some in in_batches(writes, TOGETHER):
                await records.js.write(subjects.stream, some)
