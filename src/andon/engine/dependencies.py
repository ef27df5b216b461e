"""Dependencies: records edges, notifies dependents of ends, and finishes by timer what a crash cut
short.

A parent's end and a child's link may cross. Either the end sees the edge, or the link sees the end;
the child's verify timer links again, so any process can finish what a crash cut short
(docs/rulings.md, R8). Notifying a dependent of an end is idempotent.

All is done in batches, whichever way a parent ended; a child or a parent at which something fails
is left out, named, and taken up again later (docs/rulings.md, R36).
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Protocol

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.contract.isolation import each_alone
from andon.contract.limits import MAX_BATCH, in_batches
from andon.contract.optional import SettlesAtOnce, offered
from andon.contract.queries import Page
from andon.contract.requests import Change
from andon.contract.store import Store
from andon.engine.base import ActionResult
from andon.engine.faults import ANYTHING, Culprits
from andon.engine.judging import lacking, unless_void
from andon.engine.notifying import PAGE, DependentNotifier
from andon.engine.rounds import Rounds
from andon.lifecycle.admission import is_id
from andon.lifecycle.commands import Cancel, Command, Unblock, Unreach
from andon.lifecycle.fan_out import fanned_out_by, has_completed
from andon.lifecycle.parents import (
    gives_up,
    gives_up_after,
    goes_by_count,
    goes_by_states,
    once_each,
    spare,
    stands,
    waits_anew,
    waits_for,
)
from andon.model.errors import NotWritable
from andon.model.task import Added, Task
from andon.model.words import TERMINAL, State

_MOST_EDGES = 2_000
"""Edges of one call, unless a single child has more."""

_GATHERS_S = 0.05
"""For how long edges are gathered that no result is needed through any more. Nobody waits for them,
and the links of a chain that end one by one would each write its own, between those that run."""

_UNKNOWN = 1  #: how many dependencies a dependent still waits for, where that could not be written


class Acts(Protocol):
    """How dependents are moved: `Control`."""

    async def act_on(self, tasks: Sequence[Task], command: Command) -> list[ActionResult]:
        """Apply the command to tasks that were just read."""
        ...

    def change_for(self, task: Task, command: Command, now: int) -> Change:
        """The change that the command makes to a task, at this time in ms UTC."""
        ...


class Dependencies:
    """Links children, and notifies them of their parents' ends in the background."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._control: Acts | None = None
        self._moved: Callable[[str], None] = lambda _task_id: None
        self._ends = DependentNotifier(store, self._tell)
        self._loaded: list[tuple[str, str]] = []
        self._releasing = Rounds(self._loaded, self._release_some_edges, gathers_s=_GATHERS_S)
        self._children = Culprits("Telling a dependency's end to task")
        self._edges = Culprits("Letting go an edge of task")

    def acting_through(self, control: Acts) -> None:
        """Set what moves dependents."""
        self._control = control
        settling = offered(self._store, SettlesAtOnce)
        if settling is not None:
            settling.settle_at_once(self._unblocked)

    def on_moved(self, moved: Callable[[str], None]) -> None:
        """Set the callback for each dependent that was moved here, and so need not verify its
        dependencies any more."""
        self._moved = moved

    async def link(self, children: Sequence[tuple[str, tuple[str, ...], bool, str]]) -> None:
        """Link (child, parents, loads results, requires), and count the parents that have ended
        already."""
        links = [
            Link(
                child,
                once_each(tuple(p for p in parents if p != child)),
                loads,
                requires == "all-resolved",
            )
            for child, parents, loads, requires in children
        ]
        for batch in _by_edges(links):
            await self._tell(await self._link(batch))

    async def _link(self, links: Sequence[Link]) -> list[Ended]:
        """What has ended of their parents; nothing of a child at which that fails."""

        async def write(batch: Sequence[Link]) -> list[list[Ended]]:
            ended = await self._store.link(batch)
            return [ended, *([] for _ in batch[1:])]

        def refused(link: Link, why: str) -> list[Ended]:
            self._children.failed(link.child, why)
            return []

        return [end for ends in await each_alone(write, links, refused, ANYTHING) for end in ends]

    async def verify(self, tasks: Sequence[Task]) -> None:
        """Ask again about the dependencies of blocked tasks."""
        definitions = [task.definition for task in tasks]
        await self.link(
            [(d.id, d.dependencies, d.load_dependencies, d.requires) for d in definitions]
            + [
                (
                    task.id,
                    tuple(t for one in task.status.added for t in one.tasks),
                    True,
                    d.requires,
                )
                for task, d in zip(tasks, definitions, strict=True)
                if task.status.added
            ]
        )

    async def join(self, added: Mapping[str, Sequence[str]]) -> None:
        """Link blocked tasks, by their ids, to the dependencies that were added to them and are
        stored by now. The records of these are kept until the tasks have ended: a store counts only
        dependencies that the definition names, so the others have to be read."""
        joins = await self._blocked(list(added))
        await self.link([(j.id, tuple(added[j.id]), True, j.definition.requires) for j in joins])

    async def verify_each(self, ids: Sequence[str]) -> None:
        """`verify`, of those that are blocked."""
        await self.verify(await self._blocked(ids))

    def ended(self, task: Task, state: State | None, *, has_dependents: bool) -> None:
        """Note that a task has ended: notify its dependents, and release the results it has
        loaded."""
        if has_dependents and state is not None and state in TERMINAL:
            self._ends.note(task.id, state)
        if state is not None and state in TERMINAL and (edges := _loaded(task)):
            self._loaded += edges
            self._releasing.start()

    async def released(self, task: Task) -> None:
        """Note that a blocked task was released by hand: its edges stay readable, and keep no
        result (docs/rulings.md, R42)."""
        if edges := _loaded(task):
            await self._store.release_edges(edges)

    def resume(self, ends: Sequence[tuple[str, State]]) -> None:
        """Finish the fan-outs that a crash of another process cut short."""
        self._ends.resume(ends)

    @property
    def are_being_told(self) -> bool:
        """Whether this process is notifying dependents of ends."""
        return self._ends.is_busy

    async def told(self) -> None:
        """Wait until this process has no end left to notify dependents of."""
        await self._ends.drain()

    async def drain(self) -> None:
        """Wait until the dependents of every end noted so far have been notified."""
        await self.told()
        await self._releasing.drain()

    async def _release_some_edges(self) -> None:
        edges = self._loaded[:PAGE]
        del self._loaded[:PAGE]

        async def write(batch: Sequence[tuple[str, str]]) -> list[None]:
            await self._store.release_edges(batch)
            return [None] * len(batch)

        def refused(edge: tuple[str, str], why: str) -> None:
            self._edges.failed(edge[1], why)

        await each_alone(write, edges, refused, ANYTHING)

    async def _tell(self, ends: Sequence[Ended]) -> None:
        """Settle each edge; unblock the children that are satisfied by it, and end those that can
        never run."""
        anew: dict[str, Task] = {}
        for batch in in_batches(ends):
            remaining = await each_alone(self._settle, batch, self._unsettled, ANYTHING)
            told = list(zip(batch, remaining, strict=True))
            free = [end.child for end, left in told if satisfies(end) and left <= 0]
            if free:
                blocked = await self._blocked(list(dict.fromkeys(free)))
                anew.update((child.id, child) for child in blocked if goes_by_states(child))
                await self._release([child for child in blocked if not goes_by_states(child)])
            failing = [end for end, left in told if not satisfies(end) and left < 0]
            if failing:
                await each_alone(self._give_up, failing, self._not_given_up, ANYTHING)
        await self._release([c for c in anew.values() if await self._is_ready(c)])

    def _unblocked(self, child: Task, now: int) -> Change | None:
        """What unblocks a task whose dependencies have been counted off in the step that writes the
        end of the last of them; None if more is to be read first. Called in any thread."""
        return self._acts.change_for(child, Unblock(), now) if goes_by_count(child) else None

    async def _release(self, ready: Sequence[Task]) -> None:
        """Unblock those that wait for nothing more, unless they were fanned out by a run that did
        not complete, or have been added to since they were looked at."""
        superseded = await self._of_superseded_runs([c for c in ready if not waits_anew(c)])
        await self._move(superseded, Cancel(superseded_run=True))
        left_behind = {child.id for child in superseded}
        by_added: dict[tuple[Added, ...], list[Task]] = {}
        for child in ready:
            if child.id not in left_behind:
                by_added.setdefault(child.status.added, []).append(child)
        for added, children in by_added.items():
            await self._move(children, Unblock(added=added))

    async def _blocked(self, ids: Sequence[str]) -> list[Task]:
        """The tasks that are blocked, of these."""
        found = await self._store.get(ids)
        return [task for task in found if task is not None and task.state is State.BLOCKED]

    async def _of_superseded_runs(self, ready: Sequence[Task]) -> list[Task]:
        """Those of them that a run fanned out which is not the one that completed."""
        completed = await self._runs_completed(ready)
        return [child for child in ready if not completed.get(child.id, True)]

    async def _unless_run_completed(
        self, waiting: list[tuple[Ended, Task]]
    ) -> list[tuple[Ended, Task]]:
        """The same without those that a run fanned out which did complete, before its task was
        rerun and ended otherwise: they are notified of that end."""
        fanned = [
            (end, child)
            for end, child in waiting
            if (by := fanned_out_by(child.definition.headers)) and by[0] == end.parent
        ]
        completed = await self._runs_completed([child for _, child in fanned])
        told = {
            (end.child, end.parent): Ended(end.child, end.parent, State.COMPLETED, end.any_end)
            for end, child in fanned
            if completed.get(child.id)
        }
        if not told:
            return waiting
        await self._tell(list(told.values()))
        return [pair for pair in waiting if (pair[0].child, pair[0].parent) not in told]

    async def _runs_completed(self, children: Sequence[Task]) -> dict[str, bool]:
        """Of those that a run fanned out, whether that run completed."""
        fanned = [
            (child, by) for child in children if (by := fanned_out_by(child.definition.headers))
        ]
        if not fanned:
            return {}
        ids = list({bearer: None for _, (bearer, _) in fanned if is_id(bearer)})
        bearers = dict(zip(ids, await self._store.get(ids), strict=True))
        gone = [bearer for bearer, record in bearers.items() if record is None]
        left = dict(zip(gone, await self._store.tombstones(gone), strict=True)) if gone else {}
        return {
            child.id: has_completed(run, bearers.get(bearer), left.get(bearer))
            for child, (bearer, run) in fanned
        }

    async def _is_ready(self, child: Task) -> bool:
        """Whether as many dependencies of a task that waits anew, or for more than at its submit,
        stand now as it needs. A store counts from the submit on, so this goes by their states; in
        an order drawn at random, by which many that have not ended are not looked through again
        and again."""
        parents = [p for p in waits_for(child) if p != child.id]
        if len(parents) > MAX_BATCH:
            parents = Random(self._store.now()).sample(parents, len(parents))
        any_end = child.definition.requires == "all-resolved"
        most = spare(child.definition) or 0
        for some in in_batches(parents):
            states = dict(zip(some, await self._store.states(some), strict=True))
            lack = {p: s for p, s in states.items() if not stands(s, any_end=any_end)}
            most -= len(await lacking(self._store, child, lack) if child.status.added else lack)
            if most < 0:
                return False
        return True

    async def _settle(self, ends: Sequence[Ended]) -> list[int]:
        return await self._store.settle(
            [Settlement(end.child, end.parent, satisfies(end)) for end in ends]
        )

    def _unsettled(self, end: Ended, why: str) -> int:
        self._children.failed(end.child, why)
        return _UNKNOWN

    def _not_given_up(self, end: Ended, why: str) -> None:
        self._children.failed(end.child, why)

    @property
    def _acts(self) -> Acts:
        assert self._control is not None
        return self._control

    async def _move(self, tasks: Sequence[Task], command: Command) -> None:
        for acted in await self._acts.act_on(tasks, command) if tasks else ():
            if acted.changed:
                self._moved(acted.id)
            if isinstance(acted.error, NotWritable):
                self._children.failed(acted.id, acted.error.why)

    async def _give_up(self, ends: Sequence[Ended]) -> list[None]:
        """End the children that can never run now, once each."""
        # Once each: ten thousand may fail one that names them all.
        ids = list(dict.fromkeys(end.child for end in ends))
        children = dict(zip(ids, await self._store.get(ids), strict=True))
        over: list[tuple[str, str]] = []
        waiting: list[tuple[Ended, Task]] = []
        for end in ends:
            child = children[end.child]
            if child is None or child.state is not State.BLOCKED:
                over.append((end.parent, end.child))
            elif gives_up(child.policy, missing=end.state is None):
                waiting.append((end, child))
        if over:
            await self._store.release_edges(over)
        waiting = await unless_void(self._store, waiting)
        waiting = await self._unless_run_completed(waiting)
        unmet = await self._unmet(waiting) if waiting else set[tuple[str, str]]()
        by_command: dict[Command, dict[str, Task]] = {}
        seen: set[str] = set()
        for end, child in waiting:
            if (end.child, end.parent) in unmet and child.id not in seen:
                seen.add(child.id)
                state = end.state.value if end.state else ""
                command = Unreach(parent=end.parent, missing=end.state is None, parent_state=state)
                by_command.setdefault(command, {})[child.id] = child
        for command, given_up in by_command.items():
            await self._move(list(given_up.values()), command)
        return [None] * len(ends)

    async def _unmet(self, waiting: Sequence[tuple[Ended, Task]]) -> set[tuple[str, str]]:
        """The (child, parent) whose dependency does not stand all the same: it may have satisfied
        the child before it was rerun (once is for good, docs/rulings.md, R8), or been rerun since
        it failed. For a child that needs only some of its dependencies, all are read: it is listed
        if too many have failed."""
        links: dict[tuple[str, str], Link] = {}
        for end, child in waiting:
            d = child.definition
            parents, key = (end.parent,), (child.id, end.parent)
            if d.needs is not None:
                parents, key = d.dependencies, (child.id, "")
            links[key] = Link(child.id, parents, d.load_dependencies, end.any_end)
        unmet: dict[str, set[str]] = {}
        for batch in _by_edges(list(links.values())):
            for ended in await self._store.link(batch):
                if not satisfies(ended):
                    unmet.setdefault(ended.child, set()).add(ended.parent)
        return {
            (child.id, end.parent)
            for end, child in waiting
            if end.parent in (failing := unmet.get(child.id, set()))
            and gives_up_after(child.definition, len(failing))
        }


def _by_edges(links: Sequence[Link]) -> Iterator[list[Link]]:
    """The links in batches of a bounded number of edges, each link whole."""
    batch: list[Link] = []
    edges = 0
    for link in links:
        if batch and (len(batch) == MAX_BATCH or edges + len(link.parents) > _MOST_EDGES):
            yield batch
            batch, edges = [], 0
        batch.append(link)
        edges += len(link.parents)
    if batch:
        yield batch


async def pages(store: Store, parent: str) -> AsyncIterator[list[Edge]]:
    """All edges of a parent, in pages."""
    after = ""
    while edges := await store.dependents(parent, after, PAGE):
        yield edges
        if len(edges) < PAGE:
            return
        after = edges[-1].child


async def dependents_of(store: Store, parent: str, after: str, limit: int) -> Page:
    """A page of the tasks that name `parent` as a dependency, in the order of their ids; the cursor
    of a page is the id of its last task, and empty if there are no more."""
    found: list[Task] = []
    while len(found) <= limit:
        edges = await store.dependents(parent, after, limit + 1 - len(found))
        # An edge may outlive its child for a moment, where they are kept in different partitions.
        found += [task for task in await store.get([e.child for e in edges]) if task is not None]
        if not edges:
            break
        after = edges[-1].child
    page = found[:limit]
    return Page(tuple(page), page[-1].id if len(found) > limit else "")


def _loaded(task: Task) -> list[tuple[str, str]]:
    """The edges by which a task keeps the results of its dependencies. Other edges delay nothing
    once they are settled, or once the task waits no longer."""
    d = task.definition
    if d.load_dependencies:
        return [(parent, d.id) for parent in waits_for(task) if parent != d.id]
    return [(parent, d.id) for one in task.status.added for parent in one.tasks]


def satisfies(end: Ended) -> bool:
    """Whether this end of a dependency is what its dependent waits for."""
    return stands(end.state, any_end=end.any_end)
