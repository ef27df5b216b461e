"""Settles edges, and counts the dependencies of each child."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.contract.edges import Edge, Settlement
from andon.stores.nats.counts import Counted, Counts
from andon.stores.nats.edges import Edges, is_possible
from andon.stores.nats.jetstream import CONFLICT, Write
from andon.stores.nats.known_edges import KnownEdge
from andon.stores.nats.subjects import is_token

if TYPE_CHECKING:
    from andon.stores.nats.record_cache import RecordCache


async def settle(edges: Edges, settlements: Sequence[Settlement], now: int) -> list[int]:
    """Settle edges, count dependencies."""
    outcomes = [0 if s.satisfied else -1 for s in settlements]
    possible = {
        position: s
        for position, s in enumerate(settlements)
        if is_possible("A settlement", s.child)
    }
    pairs = [(s.parent, s.child) for s in possible.values() if is_token(s.parent)]
    there = await edges.seen(pairs)
    satisfied = {(s.parent, s.child) for s in possible.values() if s.satisfied}

    def is_told_by_child(known: KnownEdge) -> bool:
        """Whether the child says that the edge is settled: it counts the parent, or waits no longer
        (`Edges.unsettled`)."""
        child = known.edge.child
        return known.is_settled_by_count and (
            known.pair in satisfied or edges.counts[edges.partition(child)].is_over(child)
        )

    told = [
        known._replace(edge=_told(known.edge))
        for known in there.values()
        if not known.edge.settled and not is_told_by_child(known)
    ]
    by_partition: dict[int, dict[int, Settlement]] = {}
    for position, s in possible.items():
        edge = there.get((s.parent, s.child))
        if edge is not None and edge.needs_all and not s.satisfied:
            continue  # a dependency that fails it is not counted: it can never run
        by_partition.setdefault(edges.partition(s.child), {})[position] = s
    for partition, records in enumerate(edges.records):
        mine = [known for known in told if edges.partition(known.edge.parent) == partition]
        settling = _Settling(records, edges.counts[partition], by_partition.get(partition, {}))
        seqs = await settling.run([edges.over(known) for known in mine])
        refused = edges.written(mine, seqs)
        await edges.change((await edges.those(refused)).values(), _told)
        for position, left in settling.outcomes.items():
            outcomes[position] = left
    await edges.free({known.edge.parent for known in told}, now)
    return outcomes


def _told(edge: Edge) -> Edge:
    return replace(edge, settled=True)


class _Settling:
    """The settlements of children of one partition."""

    def __init__(
        self, records: "RecordCache", counts: Counts, settlements: Mapping[int, Settlement]
    ) -> None:
        self._records = records
        self._counts = counts
        self._of_child: dict[str, dict[int, Settlement]] = {}
        for position, s in settlements.items():
            self._of_child.setdefault(s.child, {})[position] = s
        self._kept: dict[str, Counted] = {}
        self.outcomes: dict[int, int] = {}

    async def run(self, first: Sequence[Write]) -> list[int]:
        """Make these writes and count; repeat the count of children that have moved meanwhile.
        Returns the answers to these writes."""
        try:
            if any(self._counts.known(child) for child in self._of_child):
                async with self._counts.turn:
                    return await self._run(first)
            return await self._run(first)
        except BaseException:
            self._kept.clear()  # what was not written must not count
            raise
        finally:
            for child in self._of_child:
                self._counts.drop(child)
            for child, one in self._kept.items():
                self._counts.keep(child, one)

    async def _run(self, first: Sequence[Write]) -> list[int]:
        counted = {c: one for c in self._of_child if (one := self._usable(c)) is not None}
        plans = {c: self._count(c, one) or self._again(c, one) for c, one in counted.items()}
        over = [c for c in self._of_child if c not in counted and self._counts.is_over(c)]
        self._tell_over(over)
        unread = [c for c in self._of_child if not plans.get(c) and c not in over]
        writes, answered = list(first), list[int]()
        while writes or unread or any(plans.values()):
            plans |= await self._read(counted, unread)
            newest: dict[str, int] = {}
            for child, counts in plans.items():
                writes += counts
                if counts:
                    newest[child] = len(writes) - 1
            seqs = await self._records.js.write(self._records.subjects.stream, writes)
            answered = answered or seqs[: len(first)]
            written = {c: (counted[c], seqs[i]) for c, i in newest.items() if seqs[i] > CONFLICT}
            unread = [c for c in newest if c not in written]
            await self._look(written, sorted(seq for seq in seqs if seq > CONFLICT))
            plans, writes = {}, []
        return answered

    def _usable(self, child: str) -> Counted | None:
        """What is remembered of a child; nothing if a failure is counted: the child may have been
        satisfied since by a dependency that another process settled, and that is for good."""
        known = self._counts.known(child)
        fails = any(not s.satisfied for s in self._of_child[child].values())
        return None if known is None or (fails and known.counts_failures()) else known

    def _again(self, child: str, counted: Counted) -> list[Write]:
        """A count to write again, to learn whether what is remembered of the child still holds."""
        for s in self._of_child[child].values():
            if s.satisfied and s.parent in counted.satisfied:
                return self._counts.writes(child, counted, [s])
        return []

    async def _read(
        self, counted: dict[str, Counted], children: Sequence[str]
    ) -> dict[str, list[Write]]:
        """Count for children of which nothing is known. Returns the writes for each."""
        if not children:
            return {}
        stored = await self._records.read(children)
        found = await self._counts.read(stored)
        over = [child for child in children if child not in found]
        self._tell_over(over)
        self._counts.note_over(child for child in over if child in stored)
        counted.update(found)
        plans = {c: self._count(c, one) for c, one in found.items()}
        for child, writes in plans.items():
            if not writes:
                self._kept[child] = found[child]
        return plans

    def _tell_over(self, children: Sequence[str]) -> None:
        """Note children that wait no longer."""
        for child in children:
            for position, s in self._of_child[child].items():
                self.outcomes[position] = 0 if s.satisfied else -1

    def _count(self, child: str, counted: Counted) -> list[Write]:
        new: list[Settlement] = []
        for position, s in self._of_child[child].items():
            if counted.add(s):
                new.append(s)
            self.outcomes[position] = counted.left(satisfied=s.satisfied)
        return self._counts.writes(child, counted, new)

    async def _look(self, written: dict[str, tuple[Counted, int]], own: Sequence[int]) -> None:
        """Read what other processes have counted meanwhile: the last of them must see that the join
        is complete."""
        last: dict[str, dict[bool, int]] = {
            child: {s.satisfied: position for position, s in self._of_child[child].items()}
            for child in written
        }
        unsure = {
            child: pair
            for child, pair in written.items()
            if any(pair[0].is_unsure(satisfied=kind) for kind in last[child])
        }
        await self._counts.look(unsure, own)
        for child, (counted, _) in unsure.items():
            for satisfied, position in last[child].items():
                more = self.outcomes[position] - counted.left(satisfied=satisfied)
                for earlier, s in self._of_child[child].items() if more > 0 else ():
                    self.outcomes[earlier] -= more if s.satisfied == satisfied else 0
        for child, (counted, _) in written.items():
            self._kept[child] = counted
