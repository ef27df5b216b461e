"""Remembers the edges that this process has read or written a moment ago.

Notifying the dependents of an end takes several steps: a page of edges is read, each edge is
settled, and may be released right after. No step needs to read an edge that the step before has
just seen. A write over an edge names the position of the message that the writer knows, so an edge
that another process has written meanwhile is read anew.
"""

import time
from collections import OrderedDict
from typing import NamedTuple

from andon.contract.edges import Edge

_YOUNG_S = 5.0
"""How long an edge is remembered: from one step of notifying dependents to the next, on a busy
machine. An edge that is not written because it seems to be settled already is judged by what is
that old at most."""

_MOST = 8_192
"""The most edges that are remembered at once. One round settles fewer."""

Pair = tuple[str, str]  # parent and child


class KnownEdge(NamedTuple):
    """An edge, and where its message stands in the stream."""

    edge: Edge
    seq: int
    needs_all: bool = False
    """Whether the child is known to need all its dependencies, so that those that fail it are not
    counted."""
    of_many: bool = False
    """Whether the child is known to need all of many, and this one is counted."""

    @property
    def pair(self) -> Pair:
        """Parent and child."""
        return self.edge.parent, self.edge.child

    @property
    def is_settled_by_count(self) -> bool:
        """Whether the edge is not written when it is settled by a parent that satisfies the child,
        or after the child waits no longer. That the child counts the parent, or does not wait, says
        as much, and the edge is kept, and written over, until the child has ended."""
        return self.of_many and self.edge.loads


class KnownEdges:
    """The edges that were seen lately."""

    def __init__(self) -> None:
        self._known: OrderedDict[Pair, tuple[float, KnownEdge]] = OrderedDict()

    def note(self, known: KnownEdge) -> None:
        """Note an edge that was read or written just now."""
        self._known.pop(known.pair, None)
        self._known[known.pair] = time.monotonic(), known
        if len(self._known) > _MOST:
            self._known.popitem(last=False)

    def get(self, pair: Pair) -> KnownEdge | None:
        """What is remembered of an edge, if it is recent."""
        at, known = self._known.get(pair, (0.0, None))
        return known if known is not None and time.monotonic() - at <= _YOUNG_S else None

    def forget(self, pair: Pair) -> None:
        """Forget an edge that has changed or was deleted."""
        self._known.pop(pair, None)
