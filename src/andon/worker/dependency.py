"""The outcome of a dependency, as its dependent's handler gets it."""

from typing import Any

import msgspec

from andon.model.task import Task, TaskError


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """How a dependency ended.

    Example:
        @app.task(load_dependencies=True)
        async def total(ctx: Context) -> list[str]:
            return [parent.result for parent in ctx.dependencies.values() if parent.error is None]

        parents = await charge.submit_many([charge.draft(order, 990) for order in (7, 8)])
        handle = await total.options(depends_on=parents, requires="all-resolved").submit()
        assert await handle.result(timeout=60) == ["order 7 paid", "order 8 paid"]
    """

    state: str
    """The name of its state, or "deleted" after a deletion by force (docs/rulings.md, R9)."""
    result: Any = None  #: decoded JSON
    error: TaskError | None = None  #: what went wrong in its newest run that failed
    finished_at: int | None = None  #: ms UTC
    headers: dict[str, str] = {}  #: as it was submitted with, a trace's context among them

    @classmethod
    def of(cls, task: Task | None) -> "Dependency":
        """What a dependent sees of a record."""
        if task is None:
            return cls(state="deleted")
        return cls(
            state=task.status.state.value,
            result=None if task.result is None else msgspec.json.decode(task.result),
            error=task.status.last_error,
            finished_at=task.status.finished_at,
            headers=task.definition.headers,
        )
