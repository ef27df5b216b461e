"""Prepares submissions for a transaction of the user's.

Their dependencies are read on that connection, so those of the same transaction are found
(docs/rulings.md, R34). A refused submission is not written: an error of the server would undo the
user's own work.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import msgspec

from andon.contract.optional import Joined
from andon.contract.outcomes import Created
from andon.engine.base import Submission, Submitted
from andon.engine.graph import Graph
from andon.lifecycle.parents import refuses_missing
from andon.model.task import Task
from andon.model.words import State


class _States(msgspec.Struct, frozen=True):
    """Asks for the states of tasks."""

    ids: list[str]

    def on(self, joined: Joined, connection: Any) -> list[State | None]:
        return joined.states(connection, self.ids)

    async def on_async(self, joined: Joined, connection: Any) -> list[State | None]:
        return await joined.states_async(connection, self.ids)


class _Create(msgspec.Struct, frozen=True):
    """Asks for records to be created."""

    places: list[int]

    def on(self, joined: Joined, connection: Any) -> list[Created]:
        return joined.create(connection, self.places)

    async def on_async(self, joined: Joined, connection: Any) -> list[Created]:
        return await joined.create_async(connection, self.places)


_Steps = Generator[_States | _Create, list[Any], list[Submitted]]


class Join:
    """Submissions ready to join a transaction."""

    def __init__(
        self,
        refused: Sequence[Submitted | None],
        tasks: Sequence[Task],
        joined: Joined | None,
        answer: Callable[[Task, Created], Submitted],
        graph: Graph | None,
    ) -> None:
        self._refused = refused
        self._tasks = tasks
        self._joined = joined
        self._answer = answer
        self._graph = graph  #: None: nothing depends on anything

    def submit(self, connection: Any) -> list[Submitted]:
        joined = self._joined
        if joined is None:
            return self._answers([])
        if self._graph is None:
            return self._answers(joined.create(connection))
        steps = self._steps(self._graph)
        try:
            step = next(steps)
            while True:
                step = steps.send([*step.on(joined, connection)])
        except StopIteration as end:
            return end.value

    async def submit_async(self, connection: Any) -> list[Submitted]:
        joined = self._joined
        if joined is None:
            return self._answers([])
        if self._graph is None:
            return self._answers(await joined.create_async(connection))
        steps = self._steps(self._graph)
        try:
            step = next(steps)
            while True:
                step = steps.send([*await step.on_async(joined, connection)])
        except StopIteration as end:
            return end.value

    def _answers(self, created: Sequence[Created]) -> list[Submitted]:
        made = map(self._answer, self._tasks, created)
        return [outcome or next(made) for outcome in self._refused]

    def _steps(self, graph: Graph) -> _Steps:
        """Submit level by level, as `Submitting` does on its own store. A child is linked soon
        after the commit, by its verify timer."""
        places = {task.id: place for place, task in enumerate(self._tasks)}
        graph.take([one for one in self._refused if one is not None])
        children = [task.id for task in self._tasks if task.definition.dependencies]
        asked = list(dict.fromkeys([*graph.elsewhere(), *children]))
        states = yield _States(asked)
        absent = {i for i, state in zip(asked, states, strict=True) if state is None}
        for level in graph.levels:
            waiting = [s for s in level if s.id in places and s.id not in graph.outcomes]
            for s in waiting:
                problem = graph.problem(s, absent, self._refuses_missing_of(places))
                # else a repeat, which is one (docs/rulings.md, R31)
                if problem is not None and s.id in absent:
                    graph.refuse({s.id: problem})
            ready = [places[s.id] for s in waiting if s.id not in graph.outcomes]
            if ready:
                created = yield _Create(ready)
                tasks = [self._tasks[place] for place in ready]
                graph.take([*map(self._answer, tasks, created)])
        return graph.answers()

    def _refuses_missing_of(self, places: dict[str, int]) -> Callable[[Submission], bool]:
        return lambda s: refuses_missing(self._tasks[places[s.id]].policy)
