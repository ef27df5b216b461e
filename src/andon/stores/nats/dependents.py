"""Reads the edges of a parent in pages, by child.

Edges stand in the stream in the order in which they were written, so a page of a parent's edges
takes a read of all of them. The children found are remembered for the pages that follow.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from andon.contract.edges import Edge
from andon.stores.nats.edges import Edges
from andon.stores.nats.known_edges import KnownEdge
from andon.stores.nats.subjects import is_token

_LISTS = 8
"""Of how many parents of many the children are remembered between the pages."""


class _Listed(NamedTuple):
    """The children of a parent, in order, as of a version of its record: adding an edge writes a
    new version."""

    seq: int
    children: list[str]


class Dependents:
    """Reads the edges of parents in pages."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self._listed: OrderedDict[str, _Listed] = OrderedDict()

    async def to_tell(self, parents: Sequence[tuple[str, str]], limit: int) -> list[list[Edge]]:
        """A page of the edges of each parent, for notifying dependents of the parents' ends: edges
        as they were read when the ends were written are new enough, and some may be settled."""
        pages: dict[tuple[str, str], list[KnownEdge]] = {}
        for parent, after in parents:
            edges = () if after else self._edges.ended.take_edges(parent, limit)
            if edges:
                in_order = sorted(edges, key=lambda known: known.edge.child)
                pages[parent, after] = self._noted(in_order)
        rest = [pair for pair in parents if pair not in pages]
        if rest:
            pages |= zip(rest, await self._pages(rest, limit), strict=True)
        return [[known.edge for known in pages[pair]] for pair in parents]

    async def page(self, parent: str, after: str, limit: int) -> list[Edge]:
        """A page of the edges of a parent by child, after a child."""
        [page] = await self._pages([(parent, after)], limit)
        unsettled = {known.pair for known in await self._edges.unsettled(page)}
        return [replace(k.edge, settled=k.pair not in unsettled) for k in page]

    async def _pages(self, parents: Sequence[tuple[str, str]], limit: int) -> list[list[KnownEdge]]:
        """A page of each parent, as its edges are stored."""
        listed = await self._still_listed([parent for parent, after in parents if after])
        pages = {
            (parent, after): await self._next(listed[parent].children, parent, after, limit)
            for parent, after in parents
            if after and parent in listed
        }
        rest = [(p, after) for p, after in parents if is_token(p) and (p, after) not in pages]
        known = [records.known_upto for records in self._edges.records]
        found = await self._edges.of_each(parent for parent, _ in rest)
        for parent, after in rest:
            children = sorted(child for child in found[parent] if child > after)
            pages[parent, after] = self._noted(found[parent][c] for c in children[:limit])
            if len(children) > limit:
                await self._list(
                    parent, sorted(found[parent]), known[self._edges.partition(parent)]
                )
        return [pages.get(pair, []) for pair in parents]

    async def _next(
        self, children: Sequence[str], parent: str, after: str, limit: int
    ) -> list[KnownEdge]:
        """The next edges of a parent whose children are known; some may be gone."""
        page: list[KnownEdge] = []
        begin = bisect_right(children, after)
        while begin < len(children) and len(page) < limit:
            some = children[begin : begin + limit - len(page)]
            begin += len(some)
            edges = await self._edges.those((parent, child) for child in some)
            page += self._noted(edges[parent, c] for c in some if (parent, c) in edges)
        if begin >= len(children):
            self._listed.pop(parent, None)
        return page

    def _noted(self, page: Iterable[KnownEdge]) -> list[KnownEdge]:
        """A page; its edges are remembered for settling them next."""
        edges = list(page)
        for known in edges:
            self._edges.known.note(known)
        return edges

    async def _list(self, parent: str, children: list[str], upto: int) -> None:
        """Remember the children of a parent between its pages, unless its record was written after
        the position at which the stream ended before they were read."""
        stored = (await self._edges.records_of([parent])).get(parent)
        if stored is not None and stored.seq <= upto:
            self._listed[parent] = _Listed(stored.seq, children)
            self._listed.move_to_end(parent)
            while len(self._listed) > _LISTS:
                self._listed.popitem(last=False)

    async def _still_listed(self, parents: Iterable[str]) -> dict[str, _Listed]:
        """What is remembered of the parents and still holds."""
        listed = {parent: self._listed[parent] for parent in parents if parent in self._listed}
        stored = await self._edges.records_of(listed) if listed else {}
        return {p: one for p, one in listed.items() if p in stored and stored[p].seq == one.seq}
