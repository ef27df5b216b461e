"""Dependencies: edges between tasks, settled as their parents end."""

from collections.abc import Sequence
from functools import partial
from itertools import chain

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.contract.isolation import each_alone
from andon.contract.refusals import edge_refused, link_refused, settlement_refused
from andon.contract.topics import TIMER_TOPIC
from andon.model.words import State
from andon.stores.postgres.server import Server


class Edges:
    """The store's operations on edges."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def link(self, links: Sequence[Link]) -> list[Ended]:
        """Add edges; those whose parents have ended already."""
        told = await each_alone(self._link, links, link_refused) if links else []
        return list(chain.from_iterable(told))

    async def _link(self, links: Sequence[Link]) -> list[list[Ended]]:
        rows = await self._server.write(
            self._server.calls.link,
            self._server.clock.argument(),
            [link.child for link in links],
            [len(link.parents) for link in links],
            [parent for link in links for parent in link.parents],
            [link.loads for link in links],
            [link.any_end for link in links],
        )
        told: list[list[Ended]] = [[] for _ in links]
        place: int
        for place, parent, state in rows:
            told[place - 1].append(_ended(links[place - 1], parent, state))
        return told

    async def settle(self, settlements: Sequence[Settlement]) -> list[int]:
        """Settle edges. Returns how many parents each child still waits for."""
        if not settlements:
            return []
        return await each_alone(self._settle, settlements, settlement_refused)

    async def _settle(self, settlements: Sequence[Settlement]) -> list[int]:
        ((remaining, due),) = await self._server.write(
            self._server.calls.settle,
            self._server.clock.argument(),
            [s.child for s in settlements],
            [s.parent for s in settlements],
            [s.satisfied for s in settlements],
        )
        self._hint(due)
        return list(remaining)

    async def dependents(self, parents: Sequence[tuple[str, str]], limit: int) -> list[list[Edge]]:
        """Edges of each parent by child, after a child."""
        asked = ([parent for parent, _ in parents], [after for _, after in parents])
        rows = await self._server.run(self._server.sql.dependents, *asked, limit)
        found: list[list[Edge]] = [[] for _ in parents]
        place: int
        for place, *edge in rows:
            found[place - 1].append(Edge(*edge))
        return found

    async def release_edges(self, edges: Sequence[tuple[str, str]]) -> None:
        """Edges, given as parent and child, no longer keep a parent from being deleted."""
        if edges:
            call = self._server.calls.release_edges
            await each_alone(partial(self._of_edges, call), edges, edge_refused)

    async def unlink(self, edges: Sequence[tuple[str, str]]) -> None:
        """Remove edges, given as parent and child."""
        if edges:
            call = self._server.calls.unlink
            await each_alone(partial(self._of_edges, call), edges, edge_refused)

    async def _of_edges(self, call: str, edges: Sequence[tuple[str, str]]) -> list[None]:
        parents, children = (list(column) for column in zip(*edges, strict=True))
        ((due,),) = await self._server.write(call, self._server.clock.argument(), parents, children)
        self._hint(due)
        return [None] * len(edges)

    async def take_unsettled(self, limit: int) -> list[tuple[str, State]]:
        """Ended parents of which not all edges are settled."""
        rows = await self._server.run(self._server.sql.unsettled, limit)
        return [(parent, State(state)) for parent, state in rows]

    def _hint(self, due: bool) -> None:
        if due:
            self._server.wake.tell({TIMER_TOPIC}, ["timer"])


def _ended(link: Link, parent: str, state: str | None) -> Ended:
    return Ended(link.child, parent, None if state is None else State(state), link.any_end)
