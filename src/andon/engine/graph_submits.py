"""Submissions that depend on one another: parents are created before their children, or in the same
step.

A child of a refused parent is refused, and so is a cycle (docs/rulings.md, R8). So what depends on
one another is created level by level, unless the store can create several levels together, all of
them or none (`CreatesTogether`): a chain of a thousand would be two thousand calls.
"""

from collections.abc import Awaitable, Iterator, Sequence
from itertools import chain
from typing import Protocol

from andon.contract.isolation import AT_FAULT
from andon.contract.limits import MAX_BATCH
from andon.contract.optional import CreatesTogether, offered
from andon.contract.store import Store
from andon.engine.base import Submission, Submitted
from andon.engine.dependencies import Dependencies
from andon.engine.graph import Graph
from andon.engine.policy_resolver import PolicyResolver
from andon.engine.reading import absent
from andon.engine.submit_answers import accepted
from andon.lifecycle.parents import refuses_missing
from andon.model.task import Task
from andon.model.words import State

Level = Sequence[Submission]


class Creating(Protocol):
    """What creates submissions that do not depend on one another: `Submitting`."""

    def submit_flat(self, submissions: Sequence[Submission]) -> Awaitable[list[Submitted]]:
        """Create them; outcomes in the order given."""
        ...

    async def records(
        self, submissions: Sequence[Submission]
    ) -> tuple[list[Submitted | None], list[Task]]:
        """The outcomes of those refused, None for the others, and the records of these."""
        ...


class GraphSubmits:
    """Submits what depends on one another."""

    def __init__(
        self,
        store: Store,
        resolver: PolicyResolver,
        dependencies: Dependencies,
        creating: Creating,
    ) -> None:
        self._store = store
        self._resolver = resolver
        self._dependencies = dependencies
        self._creating = creating
        self._together = offered(store, CreatesTogether)

    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        """Outcomes in the order given."""
        graph = await Graph.of(submissions)
        missing = await absent(self._store, graph.elsewhere())
        for levels in _in_windows(graph.levels):
            if len(levels) == 1 or not await self._created_together(graph, levels, missing):
                for level in levels:
                    await self._create(graph, level, missing)
        return graph.answers()

    async def _create(self, graph: Graph, level: Level, missing: set[str]) -> None:
        problems = {s.id: graph.problem(s, missing, self._refuses_missing) for s in level}
        odd = [task_id for task_id, problem in problems.items() if problem is not None]
        # what is stored was accepted once, and a repeat is a repeat (docs/rulings.md, R31)
        if odd:
            new = await absent(self._store, odd)
            graph.refuse({i: e for i, e in problems.items() if e is not None and i in new})
        ready = [s for s in level if s.id not in graph.outcomes]
        graph.take(await self._creating.submit_flat(ready))
        await self._link(ready, graph.outcomes)

    async def _created_together(
        self, graph: Graph, levels: Sequence[Level], missing: set[str]
    ) -> bool:
        """Create all of these levels in one step; False, and none is, if anything but that they
        are new could become of one of them: then they are for `_create`, which decides of each."""
        if self._together is None:
            return False
        submissions = list(chain.from_iterable(levels))
        if any(graph.problem(s, missing, self._refuses_missing) for s in submissions):
            return False
        refused, tasks = await self._creating.records(submissions)
        answers = [accepted(task) for task in tasks]
        if len(tasks) < len(refused) or any(one.error is not None for one in answers):
            return False
        try:
            if not await self._together.create_together(tasks):
                return False
        except AT_FAULT:
            return False
        graph.take(answers)
        await self._link(submissions, graph.outcomes)
        return True

    def _refuses_missing(self, s: Submission) -> bool:
        try:
            queue = self._resolver.queue_of(s)
            resolved = self._resolver.policy(queue, s.name, s.version, s.options, s.profile)
            return refuses_missing(resolved.policy)
        except Exception:
            return False  # it is refused all the same, for what is wrong with its policy

    async def _link(self, ready: Sequence[Submission], outcomes: dict[str, Submitted]) -> None:
        blocked = [s for s in ready if outcomes[s.id].state is State.BLOCKED]
        if blocked:
            await self._dependencies.link(
                [(s.id, s.dependencies, s.load_dependencies, s.requires) for s in blocked]
            )


def _in_windows(levels: Sequence[Level]) -> Iterator[Sequence[Level]]:
    """Levels that follow upon one another and are one batch together; a larger one by itself."""
    window: list[Level] = []
    size = 0
    for level in levels:
        if window and size + len(level) > MAX_BATCH:
            yield window
            window, size = [], 0
        window.append(level)
        size += len(level)
    if window:
        yield window
