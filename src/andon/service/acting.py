"""Acts of control as requests name them: one task, many by id, many by filter."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from andon.client.options import to_priority
from andon.engine.base import Acted
from andon.engine.bulk import Act, Tally, act_on_found, act_on_ids
from andon.engine.filtering import Filters
from andon.lifecycle.admission import check_priority
from andon.lifecycle.commands import (
    Command,
    Delete,
    Reprioritise,
    Rerun,
    Reschedule,
    RunNow,
    Schedule,
)
from andon.model.errors import TaskNotFound
from andon.service import bodies
from andon.service.answers import ActedOn, ActedOnMany
from andon.service.problems import Problem, invalid, problem_of
from andon.service.selecting import checked_query
from andon.service.submitting import moment_ms

if TYPE_CHECKING:
    from andon.engine.base import Engine
    from andon.lifecycle.profiles import Profile
    from andon.model.task import Task
    from andon.service.calls import Call


def rerun_of(given: "bodies.Rerunning | bodies.Act") -> Rerun:
    """The command. Raises `InvalidSubmission` for a moment that is none."""
    return Rerun(
        run_at=None if given.run_at is None else moment_ms("run_at", given.run_at),
        deadline=None if given.deadline is None else moment_ms("deadline", given.deadline),
        keep_budget=given.keep_budget,
    )


def reprioritise_of(priority: int | str) -> Reprioritise:
    """The command. Raises `InvalidSubmission` for a priority that is none."""
    number = to_priority("priority", priority)
    check_priority(number)
    return Reprioritise(priority=number)


def doing(engine: "Engine", act: bodies.Act) -> Act:
    """What the body asks for, as something to do to ids. Raises `Problem` where a part lacks."""
    match act.action:
        case "cancel":
            return lambda ids: engine.cancel(ids, force=act.force)
        case "retry":
            return engine.retry
        case "delete":
            return lambda ids: engine.act(ids, Delete(), force=act.force)
        case "rerun":
            command: Command = rerun_of(act)
        case "run-now":
            command = RunNow()
        case "schedule":
            command = Schedule()
        case "reschedule":
            if act.run_at is None:
                raise invalid("To reschedule takes a new start time, run_at.", field="run_at")
            command = Reschedule(run_at=moment_ms("run_at", act.run_at))
        case "reprioritise":
            if act.priority is None:
                raise invalid("To reprioritise takes a priority.", field="priority")
            command = reprioritise_of(act.priority)
    return lambda ids: engine.act(ids, command)


def scope_of(action: str) -> str:
    """The first two parts of the scope that an action needs."""
    return "tasks:cancel" if action == "cancel" else "tasks:change"


async def act_on_one(
    request: "Call", task_id: str, scope: str, do: Callable[[Sequence[str]], Awaitable[list[Acted]]]
) -> ActedOn:
    """Do it to one task, which must exist. Raises what it was refused with."""
    [task] = await request.service.engine.get([task_id])
    if task is None:
        raise TaskNotFound(task_id)
    request.need(f"{scope}:{task.definition.queue}")
    [acted] = await do([task_id])
    if acted.error is not None:
        raise acted.error
    return ActedOn(acted.id, acted.state, acted.changed)


async def act_on_many(
    request: "Call",
    which: bodies.Which,
    profile: "Profile",
    scope: str,
    do: Act,
    *,
    dead_letters: bool = False,
) -> ActedOnMany:
    """Do it to what the body names, each task on its own."""
    service = request.service
    engine, settings = service.engine, service.settings
    filters = _checked(which, settings.max_bulk)
    told: list[ActedOn] = []

    async def tell(tasks: Sequence["Task | None"], acted: Sequence[Acted]) -> None:
        for one in acted[: settings.max_page - len(told)]:
            error = None if one.error is None else problem_of(one.error).document
            told.append(ActedOn(one.id, one.state, one.changed, error))

    if which.ids is not None:
        ids = list(dict.fromkeys(which.ids))
        await _need_for(request, ids, scope)
        tally = await act_on_ids(
            engine, ids, do, dead_letters=dead_letters, dry_run=which.dry_run, progress=tell
        )
    else:
        request.need(f"{scope}:{filters.queue or '*'}")
        try:
            query, keep = await checked_query(engine, filters, profile, dead_letters=dead_letters)
        except Problem as problem:
            at = {"state": "filter.states", "queue": "filter.queue"}
            field = problem.document["field"]
            problem.document["field"] = at.get(field, field)
            raise
        tally = await act_on_found(
            engine,
            query,
            do,
            keep=keep,
            most=min(which.limit or settings.max_bulk, settings.max_bulk),
            dry_run=which.dry_run,
            progress=tell,
        )
    return _summed(tally, told, dry_run=which.dry_run)


def _checked(which: bodies.Which, most: int) -> Filters:
    select = which.filter
    filters = Filters()
    if select is not None:
        filters = Filters(
            states=tuple(select.states),
            queue=select.queue,
            name=select.name,
            tag=select.tag,
            key=select.key,
            group=select.group,
            worker=select.worker,
        )
    if which.ids is not None:
        if which.all or select is not None:
            raise invalid("Give ids, or a filter or all, not both.", field="ids")
        if len(which.ids) > most:
            raise invalid(f"At most {most:,} ids in one request.", field="ids")
    elif not (which.all or filters.any):
        raise invalid("Which tasks? Give ids, a filter, or all: true.", field="filter")
    return filters


async def _need_for(request: "Call", ids: Sequence[str], scope: str) -> None:
    if request.caller.may(f"{scope}:*"):
        return
    for task in await request.service.engine.get(ids):
        if task is not None:
            request.need(f"{scope}:{task.definition.queue}")


def _summed(tally: Tally, told: list[ActedOn], *, dry_run: bool) -> ActedOnMany:
    return ActedOnMany(
        found=tally.found,
        changed=tally.changed,
        unchanged=tally.unchanged,
        refused=tally.refused,
        dry_run=dry_run,
        tasks=told,
    )
