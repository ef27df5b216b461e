"""What a process knows of the ends that it wrote a moment ago.

*Until when the record is kept.* Whenever an edge is told or let go, its parent may be one whose
deletion was put off for that, and then is due at once. To find that out takes its record; mostly it
is kept for days. This is only a hint: should the record be kept for less by now (another process
has started the task again, and it ended otherwise), its deletion is tried again a minute after it
was put off.

*Its edges.* The write of the end was guarded by a record that every edge bumps, so these are all
that its writer has to tell: who records another one since finds the end, and tells it.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence

from andon.stores.nats.known_edges import KnownEdge

_MOST = 10_000
"""Ends of which it is known: as many as one task may wait for."""

_FEW = 20
"""Edges that are known of each; most tasks have fewer."""

_YOUNG_S = 5.0
"""How long they are known, s: long enough to tell the end, on a busy machine too."""

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
        """A task has ended, is kept until then (ms UTC; None is for ever), and has these edges."""
        self._ended.pop(task_id, None)
        some = edges if len(edges) <= _FEW else ()
        self._ended[task_id] = _Ended(_FOR_EVER if until is None else until, some)
        if len(self._ended) > _MOST:
            self._ended.popitem(last=False)

    def may_be_over(self, task_id: str, now: int) -> bool:
        """Whether its deletion may have been put off already."""
        ended = self._ended.get(task_id)
        return ended is None or ended.until <= now

    def take_edges(self, task_id: str, most: int) -> Sequence[KnownEdge]:
        """All its edges, once, to be told; none if they are not known or more than `most`."""
        ended = self._ended.get(task_id)
        if ended is None or time.monotonic() - ended.at > _YOUNG_S or len(ended.edges) > most:
            return ()
        edges, ended.edges = ended.edges, ()
        return edges

    def forget_edges(self, task_id: str) -> None:
        """It has got another one."""
        ended = self._ended.get(task_id)
        if ended is not None:
            ended.edges = ()
