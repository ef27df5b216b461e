"""Submissions that depend on one another: parents are created before their children.

A child of a refused parent is refused, and so is a cycle (docs/rulings.md, R8).
"""

from collections.abc import Awaitable, Callable, Sequence

from andon.contract.store import Store
from andon.engine.base import Submission, Submitted
from andon.engine.dependencies import Dependencies
from andon.engine.graph import Graph
from andon.engine.policy_resolver import PolicyResolver
from andon.engine.reading import absent
from andon.lifecycle.parents import refuses_missing
from andon.model.words import State


class GraphSubmits:
    """Submits level by level. `submit` creates those of one level."""

    def __init__(
        self,
        store: Store,
        resolver: PolicyResolver,
        dependencies: Dependencies,
        submit: Callable[[Sequence[Submission]], Awaitable[list[Submitted]]],
    ) -> None:
        self._store = store
        self._resolver = resolver
        self._dependencies = dependencies
        self._submit = submit

    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        """Outcomes in the order given."""
        graph = await Graph.of(submissions)
        missing = await absent(self._store, graph.elsewhere())
        for level in graph.levels:
            problems = {s.id: graph.problem(s, missing, self._refuses_missing) for s in level}
            odd = [task_id for task_id, problem in problems.items() if problem is not None]
            # what is stored was accepted once, and a repeat is a repeat (docs/rulings.md, R31)
            if odd:
                new = await absent(self._store, odd)
                graph.refuse({i: e for i, e in problems.items() if e is not None and i in new})
            ready = [s for s in level if s.id not in graph.outcomes]
            graph.take(await self._submit(ready))
            await self._link(ready, graph.outcomes)
        return graph.answers()

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
