"""Dependencies: edges in the parent's partition, the count in the child's. All idempotent."""

from collections.abc import Sequence
from typing import Any, cast

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.contract.isolation import left_out
from andon.contract.refusals import STILL_WAITS
from andon.model.words import State
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.records import damage

LOADS, ANY_END, SETTLED = 1, 2, 4
"""The values that the scripts add up to the flags of an edge."""


async def link(at: Partitions, links: Sequence[Link]) -> list[Ended]:
    """Record edges to parents that have not ended; report those that have ended or do not exist."""
    asked = [(link.child, *link.parents) for link in links]
    waits = await at.spread("waits", asked, [link.child for link in links])
    wished: list[tuple[Link, str]] = []
    items: list[tuple[Any, ...]] = []
    for link, row in zip(links, waits, strict=True):
        for parent, counted in zip(link.parents, row[1:], strict=False):
            if parent != link.child:  # else it waits only to be scheduled
                wished.append((link, parent))
                items.append((parent, link.child, link.loads, link.any_end, bool(counted)))
    replies: list[Any] = await at.spread("link", items, [parent for _, parent in wished])
    ended: list[Ended] = []
    for (link, parent), end in zip(wished, replies, strict=True):
        if isinstance(end, list):
            left_out("The edge", f"{link.child!r} to {parent!r}", damage(cast("bytes", end[1])))
        elif end:
            state = None if end == b"-" else State(end.decode())
            ended.append(Ended(link.child, parent, state, link.any_end))
    return ended


async def link_each(at: Partitions, links: Sequence[Link]) -> list[list[Ended]]:
    """The same, by link."""
    ended = await link(at, links)
    return [[end for end in ended if end.child == one.child] for one in links]


async def settle(at: Partitions, settlements: Sequence[Settlement]) -> list[int]:
    """Count dependencies, and settle edges. Returns the outcome of each for its child.

    The count comes first: an edge is settled only when its child cannot miss the end any more.
    """
    counted = [(s.child, s.parent, s.satisfied) for s in settlements]
    remaining = await at.spread("settle", counted, [s.child for s in settlements])
    edges = [(s.parent, s.child) for s in settlements]
    await _of_edges(at, "settle_edges", "The mark of an edge", edges)
    return [STILL_WAITS if isinstance(left, list) else left for left in remaining]


async def _of_edges(
    at: Partitions,
    name: str,
    what: str,
    edges: Sequence[tuple[str, str]],
    *,
    lets_go: bool = False,
) -> None:
    """Run a script over edges, given by parent and child; a damaged one is named."""
    items = [(parent, child, lets_go) for parent, child in edges]
    replies = await at.spread(name, items, [parent for parent, _ in edges])
    for (parent, child), reply in zip(edges, replies, strict=True):
        if isinstance(reply, list):
            why = damage(cast("bytes", reply[1]))
            left_out(what, f"{child!r} to {parent!r}", why)


async def dependents(
    at: Partitions, parents: Sequence[tuple[str, str]], limit: int
) -> list[list[Edge]]:
    """Edges of each parent by child, after a child."""
    items = [(parent, after, limit) for parent, after in parents]
    replies = await at.spread("dependents", items, [parent for parent, _ in parents])
    return [
        [
            Edge(
                parent,
                child.decode(),
                bool(flags & LOADS),
                bool(flags & ANY_END),
                bool(flags & SETTLED),
            )
            for child, flags in zip(reply[::2], reply[1::2], strict=True)
        ]
        for (parent, _), reply in zip(parents, replies, strict=True)
    ]


async def take_unsettled(at: Partitions, limit: int) -> list[tuple[str, State]]:
    """Ended tasks whose fan-out is not finished."""
    taken: list[tuple[str, State]] = []
    for partition in range(at.count):
        if len(taken) >= limit:
            break
        if not await at.look(partition, b"EXISTS", "fanout"):
            continue
        reply = await at.run("take_unsettled", partition, (limit - len(taken),))
        found = zip(reply[1::2], reply[2::2], strict=True)
        taken += [(parent.decode(), State(state.decode())) for parent, state in found]
    return taken


async def release_edges(at: Partitions, edges: Sequence[tuple[str, str]]) -> list[None]:
    """Release edges, given by parent and child."""
    await _of_edges(at, "settle_edges", "The mark of an edge", edges, lets_go=True)
    return [None] * len(edges)


async def unlink(at: Partitions, edges: Sequence[tuple[str, str]]) -> list[None]:
    """Remove edges, given by parent and child."""
    await _of_edges(at, "unlink", "The removal of an edge", edges)
    return [None] * len(edges)
