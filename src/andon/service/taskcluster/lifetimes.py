"""Checks that the records of a task's dependencies are kept beyond its deadline.

The engine checks that a dependency exists; only its `expires` is checked here. A graph mostly names
tasks that were created a moment ago, so those are cached and not read.
"""

from collections import OrderedDict

from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.service.taskcluster.errors import input_error
from andon.service.taskcluster.times import written

_MOST_REMEMBERED = 50_000
_AT_ONCE = 100


class Lifetimes:
    """A cache of when tasks expire."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._known: OrderedDict[str, int] = OrderedDict()

    def note(self, created: Submission) -> None:
        """Remember a task that was created."""
        if created.expires_at is not None:
            self._remember(created.id, created.expires_at)

    async def check(self, submission: Submission) -> None:
        """Raise `ApiError` (400) if a dependency expires before the deadline."""
        deadline = submission.deadline or 0
        others = [one for one in submission.dependencies if one != submission.id]
        unknown = [one for one in others if one not in self._known]
        for start in range(0, len(unknown), _AT_ONCE):
            for task in await self._engine.get(unknown[start : start + _AT_ONCE]):
                if task is not None and task.status.expires_at is not None:
                    self._remember(task.id, task.status.expires_at)
        for one in others:
            expires = self._known.get(one)
            if expires is not None and expires < deadline:
                raise input_error(
                    f"Dependency {one} expires at {written(expires)}, before the deadline of the "
                    "task that waits for it."
                )

    def _remember(self, task_id: str, expires: int) -> None:
        self._known[task_id] = expires
        if len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)
