"""Notifies the dependents of ended tasks, many in each call.

If one task waits for ten thousand, these end one by one, and each end has one edge; if ten thousand
wait for one task, its end has as many edges. So the first edges of all tasks that have ended since
are settled together, and the further edges of a task in pages beside that: no end waits for the
fan-out of another.

An end that fails alone is logged, and left to the next look for fan-outs that were cut short
(docs/rulings.md, R36). Settling an edge twice does no harm.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice

from andon.contract.edges import Ended
from andon.contract.isolation import each_alone
from andon.contract.limits import MAX_BATCH
from andon.contract.store import Store
from andon.engine.faults import ANYTHING, Culprits
from andon.engine.rounds import Rounds
from andon.model.words import State

FIRST = 20
"""How many edges of a task are settled at first, with those of the others: most have fewer."""

PAGE = 1_000
"""How many edges of a task with more are settled in each call from then on."""

_PAGES_AT_ONCE = 4

_End = tuple[str, State]  # a task that has ended, and how


class DependentNotifier:
    """The ends of which this process has not notified all dependents."""

    def __init__(self, store: Store, tell: Callable[[Sequence[Ended]], Awaitable[None]]) -> None:
        """`tell` is called with the ends of some tasks, each with one of its dependents."""
        self._store = store
        self._tell = tell
        self._fresh: dict[_End, str] = {}
        self._further: dict[_End, str] = {}  #: by end, the child after which it goes on
        self._under_way: set[_End] = set()
        self._culprits = Culprits("Telling the end of task")
        self._first = Rounds(self._fresh, lambda: self._round(self._fresh, MAX_BATCH, FIRST))
        self._pages = Rounds(
            self._further, lambda: self._round(self._further, _PAGES_AT_ONCE, PAGE)
        )

    def note(self, parent: str, state: State) -> None:
        """Note that a task has ended: its dependents are to be notified, from the first on."""
        self._fresh[parent, state] = ""
        self._first.start()

    def resume(self, ends: Sequence[_End]) -> None:
        """Finish fan-outs that a crash cut short; not those that are under way, nor those that
        failed a short while ago."""
        for end in ends:
            known = end in self._further or end in self._under_way
            if not known and not self._culprits.is_left_alone(end[0]):
                self.note(*end)

    @property
    def is_busy(self) -> bool:
        """Whether dependents are being notified."""
        return self._first.are_running or self._pages.are_running

    async def drain(self) -> None:
        """Wait until the dependents of every end noted so far have been notified."""
        while self.is_busy:
            await self._first.drain()
            await self._pages.drain()

    async def _round(self, line: dict[_End, str], most: int, edges: int) -> None:
        """Settle some of the ends in a list, up to so many edges of each. Those at which the store
        fails are dropped: `take_unsettled` finds them."""
        parts = [(end, line.pop(end)) for end in list(islice(line, most))]
        ends = [end for end, _ in parts]
        self._under_way.update(ends)

        async def told(parts: Sequence[tuple[_End, str]]) -> list[str]:
            return await self._told(parts, edges)

        try:
            reached = await each_alone(told, parts, self._failed, ANYTHING)
        finally:
            self._under_way.difference_update(ends)
        for end, after in zip(ends, reached, strict=True):
            if after:
                # One that ended anew meanwhile, after a rerun, goes on from the earlier place.
                self._further[end] = min(after, self._further.get(end, after))
        self._pages.start()

    async def _told(self, parts: Sequence[tuple[_End, str]], edges: int) -> list[str]:
        """Settle edges of ended tasks, each after a child. Returns where each goes on, "" at its
        end."""
        asked = [(parent, after) for (parent, _), after in parts]
        pages = await self._store.dependents_of_each(asked, edges)
        states = [state for (_, state), _ in parts]
        ends = [
            Ended(edge.child, edge.parent, state, edge.any_end)
            for state, page in zip(states, pages, strict=True)
            for edge in page
        ]
        if ends:
            await self._tell(ends)
        for parent, _ in asked:
            self._culprits.succeeded(parent)
        return [page[-1].child if len(page) >= edges else "" for page in pages]

    def _failed(self, part: tuple[_End, str], why: str) -> str:
        (parent, _), _ = part
        self._culprits.failed(parent, why)
        return ""
