"""Remembers the ends that this process wrote a moment ago.

*Until when the record is kept.* Whenever an edge is settled or released, its parent may be one
whose deletion was put off for that edge, and then is due at once. Finding that out takes a read of
its record, and mostly it is kept for days. What is remembered is only a hint: if the record is kept
for less by now (another process has started the task again, and it ended otherwise), its deletion
is tried again a minute after it was put off.

*Its edges.* The write of the end was guarded by a record that every edge bumps, so these are all
that its writer has to settle: a process that records another edge afterwards finds the end, and
settles that edge.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence

from andon.stores.nats.known_edges import KnownEdge

_MOST = 10_000
"""How many ends are remembered: as many as one task may wait for."""

_FEW = 20
"""How many edges are remembered of each; most tasks have fewer."""

_YOUNG_S = 5.0
"""How long they are remembered, s: long enough to notify the dependents, on a busy machine too."""

_FOR_EVER = 2**63


class _Ended:
    __slots__ = ("at", "edges", "until")

    def __init__(self, until: int, edges: Sequence[KnownEdge]) -> None:
        self.until = until
        self.edges = edges
        self.at = time.monotonic()


class EndedTasks:
    """Ends of tasks with dependents, the newest of them."""

    def __init__(self) -> None:
        self._ended: OrderedDict[str, _Ended] = OrderedDict()

    def note(self, task_id: str, until: int | None, edges: Sequence[KnownEdge]) -> None:
        """Note that a task has ended, is kept until then (ms UTC; None: for ever), and has these
        edges."""
        self._ended.pop(task_id, None)
        some = edges if len(edges) <= _FEW else ()
        self._ended[task_id] = _Ended(_FOR_EVER if until is None else until, some)
        if len(self._ended) > _MOST:
            self._ended.popitem(last=False)

    def is_known(self, task_id: str) -> bool:
        """Whether its end is remembered."""
        return task_id in self._ended

    def may_be_over(self, task_id: str, now: int) -> bool:
        """Whether its deletion may have been put off already."""
        ended = self._ended.get(task_id)
        return ended is None or ended.until <= now

    def take_edges(self, task_id: str, most: int) -> Sequence[KnownEdge]:
        """All its edges, once, to be settled; none if they are not known or more than `most`."""
        ended = self._ended.get(task_id)
        if ended is None or time.monotonic() - ended.at > _YOUNG_S or len(ended.edges) > most:
            return ()
        edges, ended.edges = ended.edges, ()
        return edges

    def forget_edges(self, task_id: str) -> None:
        """Note that it has got another edge."""
        ended = self._ended.get(task_id)
        if ended is not None:
            ended.edges = ()
