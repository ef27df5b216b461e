"""Dependencies: edges recorded, ends told to dependents, crashes in between finished by timers.

A parent's end and a child's link may cross. Either the end sees the edge, or the link sees the
end; the child's verify timer links again, so a crash in between is finished by whoever comes
next (R8). Telling an end is idempotent, so it may be told twice.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from andon.engine.base import Acted
from andon.lifecycle.commands import Command, Unblock, Unreach
from andon.model.errors import AndonError
from andon.model.task import Task
from andon.model.words import TERMINAL, State
from andon.stores.base import MAX_BATCH, Ended, Link, Settlement, Store

_PAGE = 1_000


class Act(Protocol):
    """How a dependent is moved: `Control.act`."""

    async def __call__(self, ids: Sequence[str], command: Command) -> list[Acted]:
        """Apply the command to each task."""
        ...


class Dependencies:
    """Links children, and tells the ends of parents in the background."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._act: Act | None = None
        self._ends: list[tuple[str, State]] = []
        self._unlinks: list[tuple[str, str]] = []
        self._telling: asyncio.Task[None] | None = None

    def acting_through(self, act: Act) -> None:
        """Say how dependents are moved."""
        self._act = act

    async def link(self, children: Sequence[tuple[str, tuple[str, ...], bool, str]]) -> None:
        """Link (child, parents, loads results, requires); tell what has ended already."""
        links = [
            Link(child, tuple(p for p in parents if p != child), loads, requires == "all-resolved")
            for child, parents, loads, requires in children
        ]
        for start in range(0, len(links), MAX_BATCH):
            ended = await self._store.link(links[start : start + MAX_BATCH])
            await self._tell(ended)

    async def verify(self, task: Task) -> None:
        """Ask again about a blocked task's dependencies."""
        d = task.definition
        await self.link([(task.id, d.dependencies, d.load_dependencies, d.requires)])

    def ended(self, task: Task, state: State | None, *, has_dependents: bool) -> None:
        """Take note that a task has ended: tell its dependents, let go of its parents."""
        if has_dependents and state is not None and state in TERMINAL:
            self._ends.append((task.id, state))
        if task.definition.dependencies and (state is None or state in TERMINAL):
            self._unlinks.extend((parent, task.id) for parent in task.definition.dependencies)
        self._start()

    def resume(self, ends: Sequence[tuple[str, State]]) -> None:
        """Finish the fan-outs that somebody else's crash cut short."""
        self._ends.extend(ends)
        self._start()

    async def drain(self) -> None:
        """Wait until every end noted so far has been told."""
        while self._telling is not None:
            await asyncio.wait([self._telling])

    def _start(self) -> None:
        if (self._ends or self._unlinks) and self._telling is None:
            self._telling = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            while self._ends or self._unlinks:
                ends, self._ends = self._ends, []
                unlinks, self._unlinks = self._unlinks, []
                for start in range(0, len(unlinks), _PAGE):
                    await self._store.unlink(unlinks[start : start + _PAGE])
                await asyncio.gather(*(self._fan_out(parent, state) for parent, state in ends))
        except AndonError:
            # The store keeps unsettled edges in its fan-out index and every blocked task has a
            # verify timer: what was not told now is told by the next timekeeper.
            return
        finally:
            self._telling = None

    async def _fan_out(self, parent: str, state: State) -> None:
        after = ""
        while True:
            edges = await self._store.dependents(parent, after, _PAGE)
            await self._tell([Ended(e.child, parent, state, e.any_end) for e in edges])
            if len(edges) < _PAGE:
                return
            after = edges[-1].child

    async def _tell(self, ends: Sequence[Ended]) -> None:
        """Settle each edge; unblock or give up the children for which that decides it."""
        assert self._act is not None
        for start in range(0, len(ends), MAX_BATCH):
            batch = ends[start : start + MAX_BATCH]
            settlements = [Settlement(e.child, e.parent, satisfies(e)) for e in batch]
            remaining = await self._store.settle(settlements)
            free = [
                e.child
                for e, left, s in zip(batch, remaining, settlements, strict=True)
                if s.satisfied and left == 0
            ]
            if free:
                await self._act(list(dict.fromkeys(free)), Unblock())
            for e, s in zip(batch, settlements, strict=True):
                if not s.satisfied:
                    await self._give_up(e)

    async def _give_up(self, end: Ended) -> None:
        assert self._act is not None
        (child,) = await self._store.get([end.child])
        if child is None or child.state is not State.BLOCKED:
            await self._store.unlink([(end.parent, end.child)])
            return
        if child.policy.on_dependency_failure == "wait" or await self._holds(child, end):
            return
        missing = end.state is None
        command = Unreach(
            parent=end.parent, missing=missing, parent_state=end.state.value if end.state else ""
        )
        await self._act([end.child], command)

    async def _holds(self, child: Task, end: Ended) -> bool:
        """Whether the dependency stands all the same: it satisfied the child before it was rerun
        (once is for good, R8), or it has been rerun since it failed."""
        loads = child.definition.load_dependencies
        again = await self._store.link([Link(child.id, (end.parent,), loads, end.any_end)])
        return all(satisfies(ended) for ended in again)


def satisfies(end: Ended) -> bool:
    """Whether this end of a dependency is what its dependent waits for."""
    if end.state is None:
        return False
    return end.any_end or end.state is State.COMPLETED
