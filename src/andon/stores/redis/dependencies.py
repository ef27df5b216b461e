"""Dependencies: edges in the parent's partition, the count in the child's. All idempotent."""

from collections.abc import Sequence
from typing import Any

from andon.model.words import State
from andon.stores.base import Edge, Ended, Link, Settlement
from andon.stores.redis.partitions import Partitions

LOADS, ANY_END, SETTLED = 1, 2, 4
"""What the scripts add up to the flags of an edge."""


async def link(at: Partitions, links: Sequence[Link]) -> list[Ended]:
    """Record edges to parents that live; report those that have ended or do not exist."""
    asked = [(link.child, *link.parents) for link in links]
    waits = await at.spread("waits", asked, [link.child for link in links])
    wished: list[tuple[Link, str]] = []
    items: list[tuple[Any, ...]] = []
    for link, row in zip(links, waits, strict=True):
        for parent, counted in zip(link.parents, row[1:], strict=False):
            if parent != link.child:  # else it waits only to be scheduled
                wished.append((link, parent))
                items.append((parent, link.child, link.loads, link.any_end, bool(counted)))
    replies = await at.spread("link", items, [parent for _, parent in wished])
    return [
        Ended(link.child, parent, None if end == b"-" else State(end.decode()), link.any_end)
        for (link, parent), end in zip(wished, replies, strict=True)
        if end
    ]


async def settle(at: Partitions, settlements: Sequence[Settlement]) -> list[int]:
    """Count satisfied dependencies off, and mark edges as told; what remains of each child.

    The count first: an edge is told only when its child cannot miss it any more.
    """
    counted = [(s.child, s.parent, s.satisfied) for s in settlements]
    remaining = await at.spread("settle", counted, [s.child for s in settlements])
    told = [(s.parent, s.child) for s in settlements]
    await at.each("tell", told, [s.parent for s in settlements])
    return remaining


async def dependents(at: Partitions, parent: str, after: str, limit: int) -> list[Edge]:
    """Edges of one parent by child."""
    reply = await at.run("dependents", at.of(parent), (parent, after, limit))
    found = zip(reply[1::2], reply[2::2], strict=True)
    return [
        Edge(
            parent,
            child.decode(),
            bool(flags & LOADS),
            bool(flags & ANY_END),
            bool(flags & SETTLED),
        )
        for child, flags in found
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
