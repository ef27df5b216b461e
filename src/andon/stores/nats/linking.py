"""Linking: edges are written, then their parents' records are bumped.

If a parent ends in between, the bump finds the end; if it ends later, its guard has failed, and it
is looked at again and found to have edges. So ends of tasks that nobody depends on cost no read.
All parents of a call are read, written and bumped together, and those that have moved meanwhile
once more.
"""

from collections.abc import Container, Iterable, Mapping, Sequence

from andon.contract.edges import Edge, Ended, Link
from andon.contract.limits import in_batches
from andon.model.words import State
from andon.stores.nats.edges import TOGETHER, Edges, is_over, is_possible, state_of
from andon.stores.nats.jetstream import CONFLICT, Write
from andon.stores.nats.record_cache import unchanged
from andon.stores.nats.record_codec import StoredRecord
from andon.stores.nats.subjects import is_token


class Linking:
    """Links children to their parents."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges

    async def link(self, links: Sequence[Link], now: int) -> list[Ended]:
        """Record edges; report ends."""
        links = [link for link in links if is_possible("A link", link.child)]
        satisfied = await self._satisfied(link.child for link in links)
        ends: list[Ended] = []
        counted: list[tuple[str, Link]] = []
        wanted: dict[str, list[Link]] = {}
        for link in links:
            if link.child not in satisfied:
                continue
            for parent in link.parents:
                if parent == link.child:
                    continue
                if not is_token(parent):  # nobody has such an id
                    ends.append(Ended(link.child, parent, None, link.any_end))
                elif parent in satisfied[link.child]:
                    ends.append(Ended(link.child, parent, State.COMPLETED, link.any_end))
                    if link.loads:
                        counted.append((parent, link))
                else:
                    wanted.setdefault(parent, []).append(link)
        await self._load(counted)
        return [*ends, *await self._link(wanted, now)]

    async def _satisfied(self, ids: Iterable[str]) -> dict[str, set[str]]:
        """What has satisfied each of the tasks that are blocked."""
        children = await self._edges.records_of(ids)
        found: dict[str, set[str]] = {}
        for partition, counts in enumerate(self._edges.counts):
            mine = {c: children[c] for c in children if self._edges.partition(c) == partition}
            found |= {c: one.satisfied for c, one in (await counts.read(mine)).items()}
        return found

    async def _load(self, counted: Sequence[tuple[str, Link]]) -> None:
        """Keep the results of dependencies that have been counted off."""
        there = await self._edges.those((parent, link.child) for parent, link in counted)
        writes: dict[int, list[Write]] = {}
        for parent, link in counted:
            edge = there.get((parent, link.child))
            if edge is None or not (edge.loads and edge.settled):
                any_end = link.any_end if edge is None else edge.any_end
                new = Edge(parent, link.child, True, any_end, True)
                writes.setdefault(self._edges.partition(parent), []).append(
                    self._edges.message(new)
                )
        await self._edges.write(writes)

    async def _link(self, wanted: Mapping[str, Sequence[Link]], now: int) -> list[Ended]:
        ends: list[Ended] = []
        open_ = list(wanted)
        while open_:
            stored = await self._edges.records_of(open_)
            linked = [p for p in stored if stored[p].body.linked]
            there = await self._edges.those((p, link.child) for p in linked for link in wanted[p])
            first: dict[int, list[Write]] = {}
            bumped: dict[int, list[StoredRecord]] = {}
            over: dict[str, State | None] = {}
            for parent in open_:
                record = stored.get(parent)
                state = state_of(record, now)
                is_there = record is not None and record.task is not None
                if not is_there or (state is not None and is_over(state)):
                    over[parent] = state
                writes = self._links(parent, wanted[parent], there, over) if is_there else []
                if record is not None and writes:
                    first.setdefault(self._edges.partition(parent), []).extend(writes)
                    bumped.setdefault(self._edges.partition(parent), []).append(record)
            await self._edges.write(first)
            again = await self._bump(bumped)
            ends += [
                Ended(link.child, parent, state, link.any_end)
                for parent, state in over.items()
                if parent not in again
                for link in wanted[parent]
            ]
            open_ = [parent for parent in open_ if parent in again]
        return ends

    def _links(
        self,
        parent: str,
        links: Sequence[Link],
        there: Mapping[tuple[str, str], Edge],
        ended: Container[str],
    ) -> list[Write]:
        """What a parent that is there lacks of its edges."""
        over = parent in ended
        writes: list[Write] = []
        for link in links:
            old = there.get((parent, link.child))
            # one whose parent was rerun since it told its end is to be told again; one that was
            # let go loads anew
            if old is None or (old.settled and not over) or (link.loads and not old.loads):
                loads = link.loads or (old is not None and old.loads)
                any_end = link.any_end if old is None else old.any_end
                settled = old is not None and old.settled and over
                writes.append(
                    self._edges.message(Edge(parent, link.child, loads, any_end, settled))
                )
        if writes and over:
            writes.append(
                (
                    self._edges.records[self._edges.partition(parent)].subjects.of("x", parent),
                    b"1",
                    None,
                )
            )
        return writes

    async def _bump(self, bumped: Mapping[int, Sequence[StoredRecord]]) -> set[str]:
        """Write over the records of parents that were given edges; those that have moved."""
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
