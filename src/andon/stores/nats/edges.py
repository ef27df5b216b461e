"""Edges between tasks: one small message each.

`linking` writes them, `settling` settles them, `dependents` reads them in pages, and `counts`
counts the dependencies of a child that have ended. `end_marks` finds those that a crash left
unsettled.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from andon.contract.edges import Edge
from andon.contract.isolation import left_out
from andon.contract.limits import in_batches
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.lifecycle.discarded import Discarded, discarded_of
from andon.lifecycle.timers import next_timer
from andon.model.task import Tombstone
from andon.model.words import OVER, State
from andon.stores.kit.partitions import partition_of
from andon.stores.nats.counts import GONE, Counted, Counts, is_blocked, tombstone
from andon.stores.nats.edge_codec import edge_of, encoded
from andon.stores.nats.end_marks import end_marks
from andon.stores.nats.ended_tasks import EndedTasks
from andon.stores.nats.jetstream import CONFLICT, GUARD, Write
from andon.stores.nats.known_edges import KnownEdge, KnownEdges, Pair
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.record_codec import StoredRecord
from andon.stores.nats.subjects import is_token
from andon.stores.nats.timers import Timers

TOGETHER = 500
"""How many writes are sent at once: more would not all be answered within the time of one
attempt."""


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
                    known = edge_of(msg)
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
                        known = edge_of(msg)
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

    async def blocked(self, ids: Iterable[str]) -> dict[str, Counted]:
        """Those of the tasks that are blocked, and the counts of each."""
        children: dict[str, StoredRecord] = {}
        unread: list[str] = []
        for child in ids:
            stored = self._at(child).lately(child)
            if stored is not None and is_blocked(stored):
                children[child] = stored
            else:
                unread.append(child)
        if unread:
            children |= await self.records_of(unread)
        found: dict[str, Counted] = {}
        for partition, counts in enumerate(self.counts):
            mine = {c: children[c] for c in children if self.partition(c) == partition}
            found |= await counts.read(mine)
        return found

    async def unsettled(self, edges: Iterable[KnownEdge]) -> list[KnownEdge]:
        """Those of the edges that are not settled. Of some only the count of the child says so; a
        child that waits no longer need not be notified."""
        left = [known for known in edges if not known.edge.settled]
        children = {known.edge.child for known in left if known.is_settled_by_count}
        blocked = await self.blocked(children) if children else {}

        def waits(parent: str, child: str) -> bool:
            return child in blocked and not blocked[child].has(parent)

        return [k for k in left if not k.is_settled_by_count or waits(*k.pair)]

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
        self,
        edges: Iterable[Edge],
        marks: Sequence[str] = (),
        *,
        children: Mapping[str, Counted] = MappingProxyType({}),
    ) -> None:
        """Write edges whatever is there, and marks of ended parents. `children`: what is known of
        the blocked ones."""
        writes: dict[int, list[Write]] = {}
        for edge in edges:
            self.known.forget((edge.parent, edge.child))
            self.ended.forget_edges(edge.parent)
            child = children.get(edge.child)
            needs_all = child is not None and not child.counts_failures()
            of_many = child is not None and child.needs_all_of_many(edge.parent)
            message = self._message(edge, needs_all=needs_all, of_many=of_many)
            writes.setdefault(self.partition(edge.parent), []).append(message)
        for partition, records in enumerate(self.records):
            mine = [parent for parent in marks if self.partition(parent) == partition]
            writes.setdefault(partition, []).extend(end_marks(records.subjects, mine))
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
        subject, body, _ = self._message(new.edge, needs_all=new.needs_all, of_many=new.of_many)
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

    def _message(self, edge: Edge, *, needs_all: bool, of_many: bool) -> Write:
        subject = self._at(edge.parent).subjects.of("e", edge.parent, edge.child)
        return subject, encoded(edge, needs_all=needs_all, of_many=of_many), None

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

    async def release_edges(self, pairs: Sequence[Pair], now: int) -> None:
        """Release edges: they count as settled, and keep no record or result."""
        pairs = [pair for pair in pairs if is_token(pair[0]) and is_possible("An edge", pair[1])]
        there = await self.seen(pairs)
        await self.change(there.values(), lambda edge: replace(edge, loads=False, settled=True))
        # If the edge was not settled, as far as is known here, the parent has mostly not ended;
        # if its deletion was put off all the same, the deletion is tried again a minute later.
        over = {
            known.edge.parent
            for known in there.values()
            if known.edge.settled
            or (known.is_settled_by_count and self.ended.is_known(known.edge.parent))
        }
        await self.free(over, now)

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
