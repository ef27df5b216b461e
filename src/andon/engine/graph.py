"""Submissions of one call that depend on one another: put in order, or refused.

Parents come before their children, a child of a refused parent is refused, and so is a circle
(docs/rulings.md, R8). Each is refused by itself: what does not depend on it is stored
(docs/rulings.md, R36).
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from andon.contract.limits import in_batches
from andon.engine.base import Submission, Submitted
from andon.lifecycle.admission import is_id
from andon.lifecycle.parents import missing_parent, refused_parent
from andon.model.errors import AndonError, InvalidSubmission

_MOST_SHOWN = 10
"""How many tasks of a circle its error names."""

_SLICE = 1_000
"""Submissions that are put in order before other coroutines get their turn: 3 ms."""


class Graph:
    """The submissions of one call, in levels, and what became of them so far."""

    def __init__(self, submissions: Sequence[Submission]) -> None:
        self._submissions = submissions
        self._here = {s.id: s for s in submissions}
        self._why: dict[str, AndonError] = {}  #: of what was refused with a parent: the parent's
        self.outcomes: dict[str, Submitted] = {}
        self.levels: list[list[Submission]] = []  #: parents first; those in a circle are left out

    @classmethod
    async def of(cls, submissions: Sequence[Submission]) -> "Graph":
        """The submissions put in order; those in a circle, or behind one, are refused."""
        graph = cls(submissions)
        await graph._put_in_order()
        return graph

    def elsewhere(self) -> list[str]:
        """The dependencies that are not submitted here."""
        here = self._here
        return sorted(
            {
                parent
                for s in self._submissions
                for parent in s.dependencies
                if parent not in here and is_id(parent)
            }
        )

    def problem(
        self, s: Submission, missing: set[str], refuses_missing: Callable[[Submission], bool]
    ) -> AndonError | None:
        """Why the submission cannot be stored, given its parents' outcomes; None if they allow
        it."""
        for parent in s.dependencies:
            if parent == s.id:
                continue
            if parent in missing and refuses_missing(s):
                return missing_parent(s.id, parent)
            outcome = self.outcomes.get(parent)
            if outcome is not None and outcome.error is not None:
                return self._refused_with(s.id, parent, outcome.error)
        return None

    def refuse(self, problems: Mapping[str, AndonError]) -> None:
        """Refuse some, by id."""
        self.take([Submitted(i, None, created=False, error=e) for i, e in problems.items()])

    def take(self, outcomes: Sequence[Submitted]) -> None:
        """Note the outcomes of some."""
        self.outcomes.update((one.id, one) for one in outcomes)

    def answers(self) -> list[Submitted]:
        """The outcomes, in the order given."""
        return [self.outcomes[s.id] for s in self._submissions]

    def _refused_with(self, task_id: str, parent: str, error: AndonError) -> InvalidSubmission:
        """The child's error says why its first refused ancestor was refused, not the whole
        chain."""
        why = self._why[task_id] = self._why.get(parent, error)
        return refused_parent(task_id, parent, str(why))

    async def _put_in_order(self) -> None:
        here, submissions = self._here, self._submissions
        graph: dict[str, set[str]] = {}
        for some in in_batches(submissions, _SLICE):
            for s in some:
                graph[s.id] = {p for p in s.dependencies if p in here and p != s.id}
            await asyncio.sleep(0)
        sorter = TopologicalSorter[str]()
        for some in in_batches(list(graph.items()), _SLICE):
            for task_id, parents in some:
                sorter.add(task_id, *parents)
            await asyncio.sleep(0)
        with contextlib.suppress(CycleError):  # what is in no circle is handed out all the same
            sorter.prepare()
        done = 0
        while sorter.is_active():
            ids = sorter.get_ready()
            self.levels.append([here[i] for i in ids])
            for some in in_batches(ids, _SLICE):
                sorter.done(*some)
                done += len(some)
                if done >= _SLICE:
                    done = 0
                    await asyncio.sleep(0)
        left = graph.keys() - {s.id for level in self.levels for s in level}
        self._refuse_circles({i: next(p for p in graph[i] if p in left) for i in left})

    def _refuse_circles(self, parents: dict[str, str]) -> None:
        """Refuse tasks that wait for a circle or are in one. Each has a parent of which the same is
        true, so going from parent to parent leads round the circle."""
        outcomes = self.outcomes
        for start in parents:
            path: list[str] = []
            places: dict[str, int] = {}
            task_id = start
            while task_id not in outcomes and task_id not in places:
                places[task_id] = len(path)
                path.append(task_id)
                task_id = parents[task_id]
            circle = path[places.get(task_id, len(path)) :]
            if circle:
                error = _circular(circle)
                self.refuse(dict.fromkeys(circle, error))
            for one in reversed(path[: len(path) - len(circle)]):
                parent = parents[one]
                because = self.outcomes[parent].error
                assert because is not None
                self.refuse({one: self._refused_with(one, parent, because)})


def _circular(circle: list[str]) -> InvalidSubmission:
    shown = circle[_MOST_SHOWN - 1 :: -1]  # parents first
    whole = len(circle) <= _MOST_SHOWN
    told = " -> ".join([*shown, shown[0]] if whole else ["…", *shown])
    return InvalidSubmission(
        f"These tasks depend on each other in a circle: {told}.", field="dependencies"
    )
