"""Schedules over HTTP: checks scopes, and applies requests.

A schedule submits tasks for the caller that made it. So making or changing one needs the scopes
that a submit of its tasks needs (docs/rulings.md, R29), for every queue that it belongs to.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from andon.engine.base import ActionResult
from andon.engine.places import in_places
from andon.engine.schedule_requests import (
    BACKFILL_ASKS,
    Backfilled,
    How,
    ScheduleAct,
    ScheduleOutcome,
    ScheduleRequest,
)
from andon.engine.schedule_views import queues_of, schedule_of
from andon.model.errors import AndonError, PermissionRefused
from andon.model.scopes import needed_to_submit
from andon.service.problems import not_found
from andon.service.submitting import check_args

if TYPE_CHECKING:
    from andon.engine.local import LocalEngine
    from andon.model.task import Task
    from andon.service.guard import Caller

PART = 1_000
"""Occurrences that one request submits."""

_KINDS: dict[ScheduleAct, tuple[str, ...]] = {
    "pause": ("tasks:change",),
    "resume": ("tasks:change",),
    "run": ("tasks:change",),
    "rerun": ("tasks:change",),
    "cancel": ("tasks:cancel",),
    "delete": ("tasks:change", "tasks:cancel"),
}


def lacks(caller: "Caller", kinds: Iterable[str], queues: Iterable[str]) -> str:
    """The first scope that the caller lacks; empty if none."""
    return _first_lacked(caller, (f"{kind}:{queue}" for kind in kinds for queue in sorted(queues)))


def _first_lacked(caller: "Caller", wanted: Iterable[str]) -> str:
    return next((scope for scope in wanted if not caller.may(scope)), "")


def lacks_for_making(
    engine: "LocalEngine", caller: "Caller", request: ScheduleRequest, there: "Task | None"
) -> str:
    """The first scope that the caller lacks to make this schedule, or to change the one there is
    into it; empty if none."""
    queue = engine.resolver.queue_of(request.task)
    missing = _first_lacked(caller, needed_to_submit(request.task, queue))
    if missing or there is None:
        return missing
    return lacks(caller, ("tasks:change",), queues_of(there))


def lacks_for_acting(caller: "Caller", act: ScheduleAct, task: "Task") -> str:
    """The first scope that the caller lacks to do this to a schedule; empty if none."""
    return lacks(caller, _KINDS[act], queues_of(task))


def lacks_for_backfill(caller: "Caller", task: "Task") -> str:
    """The first scope that the caller lacks to submit tasks of a schedule; empty if none."""
    template = schedule_of(task, task.id).template
    missing = lacks(caller, ("tasks:change",), queues_of(task))
    return missing or _first_lacked(caller, needed_to_submit(template, template.queue))


async def schedule_named(engine: "LocalEngine", name: str) -> "Task":
    """The record of a schedule. Raises `Problem` (404) where there is none of that name."""
    [task] = await engine.get([name])
    if task is None or task.status.schedule is None:
        raise not_found(f"There is no schedule {name[:128]!r}.")
    return task


async def put(
    engine: "LocalEngine", caller: "Caller", requests: Sequence[ScheduleRequest], how: How
) -> list[ScheduleOutcome]:
    """Make or revise schedules, each alone. Raises `PermissionRefused` if the caller may make none
    of them."""
    there = await engine.get([request.name for request in requests])
    refused: dict[int, ScheduleOutcome] = {}
    for place, (request, task) in enumerate(zip(requests, there, strict=True)):
        try:
            missing = lacks_for_making(engine, caller, request, task)
            if missing:
                raise PermissionRefused(missing)
            check_args(request.task.args)
        except AndonError as error:
            refused[place] = ScheduleOutcome(request.name, "refused", error)
    _raise_if_none(len(requests), (one.error for one in refused.values()))
    allowed = [request for place, request in enumerate(requests) if place not in refused]
    return in_places(await engine.schedules.put(allowed, how) if allowed else [], refused)


async def act(
    engine: "LocalEngine", caller: "Caller", names: Sequence[str], act: ScheduleAct
) -> list[ActionResult]:
    """Do the same to schedules, each alone. Raises `PermissionRefused` if the caller may do it to
    none of them."""
    refused: dict[int, ActionResult] = {}
    for place, (name, task) in enumerate(zip(names, await engine.get(names), strict=True)):
        missing = "" if task is None else lacks_for_acting(caller, act, task)
        if missing:
            error = PermissionRefused(missing)
            refused[place] = ActionResult(name, None, changed=False, error=error)
    _raise_if_none(len(names), (one.error for one in refused.values()))
    allowed = [name for place, name in enumerate(names) if place not in refused]
    return in_places(await engine.schedules.act(allowed, act) if allowed else [], refused)


def _raise_if_none(count: int, errors: Iterable[AndonError | None]) -> None:
    forbidden = [error for error in errors if isinstance(error, PermissionRefused)]
    if forbidden and len(forbidden) == count:
        raise forbidden[0]


async def backfill(
    engine: "LocalEngine",
    name: str,
    start: int,
    end: int,
    *,
    yes: bool,
    dry_run: bool,
    allowed: "Callable[[Task], None]",
) -> tuple[Backfilled, int | None]:
    """Submit the first part of a range, and return where the next begins (ms UTC; None: it was the
    last), so that no request takes long. `allowed` raises if the caller may not."""
    from andon.lifecycle.recurrence.occurrences import pieces

    task = await schedule_named(engine, name)
    allowed(task)
    keeper = engine.schedules
    if dry_run or not yes or end <= start:
        would = await keeper.backfill(name, start, end, dry_run=True)
        if dry_run:
            return would, None
        if would.range.count > BACKFILL_ASKS or would.range.more:
            await keeper.backfill(name, start, end)  # which says how many there are
    recurrence = schedule_of(task, name).recurrence
    first, until = next(pieces(recurrence, name, start=start, end=end, most=PART))
    done = await keeper.backfill(name, first, until, yes=True)
    return done, until if until < end else None
