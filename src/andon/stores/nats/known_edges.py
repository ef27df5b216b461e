"""What a process has read or written of edges a moment ago.

The end of a task is told in steps: a page of its edges is read, each is marked as told, and may be
let go right after. None of these needs to read an edge that the step before has just seen. Who
writes over one names the position of the message that it knows, so an edge that somebody else has
written meanwhile is read anew.
"""

import time
from collections import OrderedDict
from typing import NamedTuple

from andon.contract.edges import Edge

_YOUNG_S = 5.0
"""How long it is known: from one step of telling an end to the next, on a machine that is busy.
What is not written, as it seems to be told already, is decided on what is that old at most."""

_MOST = 8_192
"""Most edges that are known at once. One round tells fewer."""

Pair = tuple[str, str]  # parent and child


class KnownEdge(NamedTuple):
    """An edge, and where its message stands in the stream."""

    edge: Edge
    seq: int
    needs_all: bool = False
    """The child is known to need all its dependencies, so that none is counted which fails it."""

    @property
    def pair(self) -> Pair:
        """Parent and child."""
        return self.edge.parent, self.edge.child


class KnownEdges:
    """The edges that were seen lately."""

    def __init__(self) -> None:
        self._known: OrderedDict[Pair, tuple[float, KnownEdge]] = OrderedDict()

    def note(self, known: KnownEdge) -> None:
        """It was read or written just now."""
        self._known.pop(known.pair, None)
        self._known[known.pair] = time.monotonic(), known
        if len(self._known) > _MOST:
            self._known.popitem(last=False)

    def get(self, pair: Pair) -> KnownEdge | None:
        """What is known of an edge, if that is young."""
        at, known = self._known.get(pair, (0.0, None))
        return known if known is not None and time.monotonic() - at <= _YOUNG_S else None

    def forget(self, pair: Pair) -> None:
        """It is something else now, or gone."""
        self._known.pop(pair, None)
