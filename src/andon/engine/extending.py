"""Adds a run's follow-ups to the dependencies of blocked tasks, before its report
(docs/decisions/members-added.md).

A blocked task that is to wait for these follow-ups, too, has to name them before that run
completes: then it may be unblocked. So the report of such a run costs a read of these tasks and a
write on each; no other report does.
"""

from collections.abc import Sequence

from andon.contract.limits import MAX_BATCH
from andon.contract.store import Store
from andon.engine.control import Control
from andon.lifecycle.admission import check_id
from andon.lifecycle.births import FIELD
from andon.lifecycle.commands import Command, Complete, Extend
from andon.lifecycle.joins import join_of
from andon.lifecycle.parents import waits_for
from andon.model.errors import InvalidSubmission, InvalidTransition
from andon.model.task import Added, Definition, Task
from andon.model.words import State

_MOST_LOOKED_AT = 10_000
"""How many blocked tasks the search for a circle reads."""


def adds_to_joins(command: Command) -> bool:
    """Whether a report has follow-ups that blocked tasks are to wait for."""
    return isinstance(command, Complete) and any(_join(d) is not None for d in command.births)


class Extending:
    """Adds to the tasks of one store."""

    def __init__(self, store: Store, control: Control) -> None:
        self._store = store
        self._control = control

    async def extend(self, task: Task, command: Command) -> None:
        """Make blocked tasks wait for the follow-ups of this report. Idempotent. Raises
        `InvalidSubmission`, naming the first task that cannot; others may have been extended by
        then, which has no effect unless the run completes."""
        births = command.births if isinstance(command, Complete) else ()
        by_join: dict[str, list[Definition]] = {}
        for d in births:
            if (join := _join(d)) is not None:
                by_join.setdefault(join, []).append(d)
        joins = await self._joins(list(by_join))
        await self._refuse_circles(births, by_join)
        acts: list[tuple[Task, Command]] = []
        for join in joins:
            ids = tuple(d.id for d in by_join[join.id])
            added = Added(task.id, task.status.run, task.status.fence, ids)
            if added not in join.status.added or join.state is not State.BLOCKED:
                acts.append((join, Extend(added=added)))
        for acted in await self._control.act_each(acts) if acts else ():
            if isinstance(acted.error, InvalidTransition):
                raise _refused(by_join[acted.id][0], acted.id, str(acted.error))
            if acted.error is not None:
                raise acted.error

    async def _joins(self, ids: Sequence[str]) -> list[Task]:
        for join in ids:
            check_id(join)
        joins: list[Task] = []
        for join, task in zip(ids, await self._store.get(ids), strict=True):
            if task is None:
                raise InvalidSubmission(
                    f"A follow-up names {join!r} as the task that is to wait for it, and there is "
                    "no such task.",
                    field=FIELD,
                )
            joins.append(task)
        return joins

    async def _refuse_circles(
        self, births: Sequence[Definition], by_join: dict[str, list[Definition]]
    ) -> None:
        """Refuse a follow-up that depends, directly or through others, on the task that is to wait
        for it. Only blocked tasks can be on that path."""
        borne = {d.id: d for d in births}
        blocked: dict[str, tuple[str, ...]] = {}
        asked = {p for d in births for p in d.dependencies if p not in borne}
        line = list(asked)
        while line:
            some, line = line[:MAX_BATCH], line[MAX_BATCH:]
            for task in await self._store.get(some):
                if task is None or task.state is not State.BLOCKED:
                    continue
                blocked[task.id] = parents = waits_for(task)
                fresh = [p for p in parents if p not in asked]
                asked.update(fresh)
                line += fresh
            if len(asked) > _MOST_LOOKED_AT:
                raise InvalidSubmission(
                    f"The follow-ups depend on more than {_MOST_LOOKED_AT:,} tasks that are "
                    "blocked themselves, too many to see whether they wait for one another.",
                    field=FIELD,
                )
        parents_of = {**blocked, **{d.id: d.dependencies for d in births}}
        for join, added in by_join.items():
            for d in added:
                if _leads_to(join, d.id, parents_of):
                    raise InvalidSubmission(
                        f"Follow-up {d.id!r} depends on {join!r}, which is to wait for it: they "
                        "would wait for each other.",
                        field=FIELD,
                    )


def _leads_to(join: str, start: str, parents_of: dict[str, tuple[str, ...]]) -> bool:
    seen, line = {start}, [start]
    while line:
        for parent in parents_of.get(line.pop(), ()):
            if parent == join:
                return True
            if parent not in seen:
                seen.add(parent)
                line.append(parent)
    return False


def _join(d: Definition) -> str | None:
    return join_of(d.headers)


def _refused(first: Definition, join: str, why: str) -> InvalidSubmission:
    return InvalidSubmission(
        f"Follow-up {first.id[:80]!r} ({first.name[:80]}) cannot be waited for by {join!r}: {why}",
        field=FIELD,
    )
