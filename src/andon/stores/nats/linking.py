"""Links children to parents: writes edges, then writes a new version of the parents' records.

If a parent ends in between, the new version finds the end; if it ends later, the guard of its end
fails, so that it is read again and found to have edges. So ends of tasks without dependents cost no
read. All parents of a call are read and written together, and those that have moved meanwhile once
more.
"""

from collections.abc import Container, Iterable, Mapping, Sequence

from andon.contract.edges import Edge, Ended, Link
from andon.contract.limits import in_batches
from andon.model.words import State
from andon.stores.nats.counts import Counted
from andon.stores.nats.edges import TOGETHER, Edges, is_over, is_possible, state_of
from andon.stores.nats.jetstream import CONFLICT
from andon.stores.nats.known_edges import KnownEdge, Pair
from andon.stores.nats.record_cache import unchanged
from andon.stores.nats.record_codec import StoredRecord
from andon.stores.nats.subjects import is_token


class Linking:
    """Links children to their parents."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges

    async def link(self, links: Sequence[Link], now: int) -> list[Ended]:
        """Record edges. Returns the parents that have ended."""
        links = [link for link in links if is_possible("A link", link.child)]
        for link in links:
            self._edges.counts[self._edges.partition(link.child)].waits_again(link.child)
        blocked = await self._edges.blocked(link.child for link in links)
        ends: list[Ended] = []
        loading: list[tuple[str, Link]] = []
        wanted: dict[str, list[Link]] = {}
        for link in links:
            if link.child not in blocked:
                continue
            for parent in link.parents:
                if parent == link.child:
                    continue
                if not is_token(parent):  # no task has such an id
                    ends.append(Ended(link.child, parent, None, link.any_end))
                elif parent in blocked[link.child].satisfied:
                    ends.append(Ended(link.child, parent, State.COMPLETED, link.any_end))
                    if link.loads:
                        loading.append((parent, link))
                else:
                    wanted.setdefault(parent, []).append(link)
        await self._load(loading)
        return [*ends, *await self._link(wanted, blocked, now)]

    async def _load(self, loading: Sequence[tuple[str, Link]]) -> None:
        """Keep the results of dependencies whose edges did not load them."""
        there = await self._edges.those((parent, link.child) for parent, link in loading)
        edges: list[Edge] = []
        for parent, link in loading:
            known = there.get((parent, link.child))
            if known is not None and known.is_settled_by_count:
                continue
            if known is None or not (known.edge.loads and known.edge.settled):
                any_end = link.any_end if known is None else known.edge.any_end
                edges.append(Edge(parent, link.child, True, any_end, True))
        await self._edges.write(edges)

    async def _link(
        self, wanted: Mapping[str, Sequence[Link]], blocked: Mapping[str, Counted], now: int
    ) -> list[Ended]:
        ends: list[Ended] = []
        open_ = list(wanted)
        while open_:
            stored = await self._edges.records_of(open_)
            over = _over(open_, stored, now)
            there = await self._there(wanted, stored, over)
            first: list[Edge] = []
            marks: list[str] = []
            bumped: dict[int, list[StoredRecord]] = {}
            for parent in open_:
                record = stored.get(parent)
                if record is None or record.task is None:
                    continue
                lacks = self._links(parent, wanted[parent], there, over)
                if lacks:
                    first += lacks
                    marks += [parent] if parent in over else []
                    bumped.setdefault(self._edges.partition(parent), []).append(record)
            await self._edges.write(first, marks, children=blocked)
            again = await self._bump(bumped)
            ends += [
                Ended(link.child, parent, state, link.any_end)
                for parent, state in over.items()
                if parent not in again
                for link in wanted[parent]
            ]
            open_ = [parent for parent in open_ if parent in again]
        return ends

    async def _there(
        self,
        wanted: Mapping[str, Sequence[Link]],
        stored: Mapping[str, StoredRecord],
        over: Container[str],
    ) -> dict[Pair, KnownEdge]:
        """Those of the wanted edges that exist. The edges of a parent that has not ended are read.
        Those of an ended parent may be a moment old: the caller settles them, and the guard refuses
        a write over an edge that has changed."""
        linked = [p for p in stored if stored[p].body.linked]
        live = [(p, link.child) for p in linked if p not in over for link in wanted[p]]
        ended = [(p, link.child) for p in linked if p in over for link in wanted[p]]
        there = await self._edges.those(live) if live else {}
        return there | await self._edges.seen(ended)

    def _links(
        self,
        parent: str,
        links: Sequence[Link],
        there: Mapping[Pair, KnownEdge],
        ended: Container[str],
    ) -> list[Edge]:
        """The edges that an existing parent lacks."""
        over = parent in ended
        edges: list[Edge] = []
        for link in links:
            old = there[parent, link.child].edge if (parent, link.child) in there else None
            # an edge whose parent was rerun since the edge was settled must be settled again; an
            # edge that was released loads anew
            if old is None or (old.settled and not over) or (link.loads and not old.loads):
                loads = link.loads or (old is not None and old.loads)
                any_end = link.any_end if old is None else old.any_end
                settled = old is not None and old.settled and over
                edges.append(Edge(parent, link.child, loads, any_end, settled))
        return edges

    async def _bump(self, bumped: Mapping[int, Sequence[StoredRecord]]) -> set[str]:
        """Write over the records of parents that got edges. Returns those that have moved."""
        again: set[str] = set()
        for partition, parents in bumped.items():
            records = self._edges.records[partition]
            for some in in_batches(parents, TOGETHER):
                writes = [
                    records.write(
                        unchanged(stored, linked=stored.body.linked + 1),
                        stored.subject,
                        guard=stored.guard,
                    )
                    for stored in some
                ]
                seqs = await records.js.write(records.subjects.stream, writes)
                for stored, seq in zip(some, seqs, strict=True):
                    if seq <= CONFLICT:
                        again.add(stored.body.id)
                    else:
                        records.notes.note_write(seq)
                        records.forget(stored.body.id)
        return again


def _over(
    parents: Iterable[str], stored: Mapping[str, StoredRecord], now: int
) -> dict[str, State | None]:
    """The end states of parents; None for those that do not exist."""
    over: dict[str, State | None] = {}
    for parent in parents:
        record = stored.get(parent)
        state = state_of(record, now)
        is_there = record is not None and record.task is not None
        if not is_there or (state is not None and is_over(state)):
            over[parent] = state
    return over
