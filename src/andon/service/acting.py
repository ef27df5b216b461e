"""Acts of control as requests name them: one task, many by id, many by filter."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from andon.client.options import to_priority
from andon.contract.limits import in_batches
from andon.engine.base import ActionResult, Submitted
from andon.engine.bulk import Act, Tally, act_on_found, act_on_ids
from andon.engine.filtering import Filters
from andon.engine.places import in_places
from andon.lifecycle.admission import check_priority
from andon.lifecycle.commands import (
    Archive,
    Command,
    Delete,
    Reprioritise,
    Rerun,
    Reschedule,
    RunNow,
    Schedule,
)
from andon.model.errors import AndonError, TaskNotFound
from andon.service import bodies
from andon.service.answers import ActedOn, ActedOnMany
from andon.service.guard import refuse
from andon.service.problems import Problem, invalid, problem_of
from andon.service.selecting import checked_query
from andon.service.submitting import check_args, moment_ms

if TYPE_CHECKING:
    from andon.engine.base import Engine
    from andon.lifecycle.profiles import Profile
    from andon.model.task import Task
    from andon.service.calls import Call


def rerun_of(given: "bodies.Rerunning | bodies.Act") -> Rerun:
    """The command. Raises `InvalidSubmission` for a text that is no time."""
    return Rerun(
        run_at=None if given.run_at is None else moment_ms("run_at", given.run_at),
        deadline=None if given.deadline is None else moment_ms("deadline", given.deadline),
        keep_budget=given.keep_budget,
        blocked=given.blocked,
    )


def reprioritise_of(priority: int | str) -> Reprioritise:
    """The command. Raises `InvalidSubmission` for an invalid priority."""
    number = to_priority("priority", priority)
    check_priority(number)
    return Reprioritise(priority=number)


def doing(engine: "Engine", act: bodies.Act) -> Act:
    """The act that the body asks for, as a function of ids. Raises `Problem` where a part is
    missing."""
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
        case "archive":
            command = Archive()
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
    request: "Call",
    task_id: str,
    scope: str,
    do: Callable[[Sequence[str]], Awaitable[list[ActionResult]]],
) -> ActedOn:
    """Do it to one task, which must exist. Raises the error of a refusal."""
    [task] = await request.service.engine.get([task_id])
    if task is None:
        raise TaskNotFound(task_id)
    request.need(f"{scope}:{task.definition.queue}")
    [acted] = await do([task_id])
    if acted.error is not None:
        raise acted.error
    return ActedOn(acted.id, acted.state, acted.changed)


async def edit_one(request: "Call", task_id: str, args: bytes, successor: str) -> Submitted:
    """Edit one task, which must exist. An edit submits the task's successor, so the caller must be
    allowed to submit a task with its scopes (docs/rulings.md, R29)."""
    check_args(args)
    [task] = await request.service.engine.get([task_id])
    if task is None:
        raise TaskNotFound(task_id)
    request.need(f"tasks:change:{task.definition.queue}")
    request.need_to_submit(task.definition)
    return await request.service.engine.edit(task_id, args, successor)


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
    filters = _checked(which, settings.max_bulk, len(request.unread))
    told: list[ActedOn] = []

    async def tell(tasks: Sequence["Task | None"], acted: Sequence[ActionResult]) -> None:
        for one in acted if which.ids is not None else acted[: settings.max_page - len(told)]:
            error = None if one.error is None else request.told(one.error)
            told.append(_shown(one.id, one, error))

    if which.ids is not None:
        # Each id alone: one that is invalid, or on which the caller may not act, is refused in its
        # place.
        ids = list(dict.fromkeys(which.ids))
        forbidden = await _forbidden(request, ids, scope)
        others = [task_id for task_id in ids if task_id not in forbidden]
        if forbidden and not others:
            raise forbidden[ids[0]]
        tally = await act_on_ids(
            engine, others, do, dead_letters=dead_letters, dry_run=which.dry_run, progress=tell
        )
        refused = {place: _refused("", problem) for place, problem in request.unread.items()}
        tally.found += len(forbidden) + len(refused)
        tally.refused += len(forbidden) + len(refused)
        places = {i: _refused(one, forbidden[one]) for i, one in enumerate(ids) if one in forbidden}
        told = in_places(in_places(told, places), refused)[: settings.max_page]
    else:
        request.need(f"{scope}:{filters.queue or '*'}")
        try:
            query, keep = await checked_query(engine, filters, profile, dead_letters=dead_letters)
        except Problem as problem:
            at = {"state": "filter.states"}
            field = problem.document.get("field", "")
            problem.document["field"] = at.get(field, f"filter.{field}")
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


def _checked(which: bodies.Which, most: int, unread: int) -> Filters:
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
            fingerprint=select.fingerprint,
        )
    if which.ids is not None:
        if which.all or select is not None:
            raise invalid("Give ids, or a filter or all, not both.", field="ids")
        if len(which.ids) + unread > most:
            raise invalid(f"At most {most:,} ids in one request.", field="ids")
        if not which.ids and not unread:
            raise invalid("Which tasks? ids names none.", field="ids")
    elif not (which.all or filters.any):
        raise invalid("Which tasks? Give ids, a filter, or all: true.", field="filter")
    return filters


async def _forbidden(request: "Call", ids: Sequence[str], scope: str) -> dict[str, Problem]:
    """The tasks on which the caller may not act, and the missing scope of each."""
    caller = request.caller
    if caller.may(f"{scope}:*"):
        return {}
    missing: dict[str, Problem] = {}
    for batch in in_batches(ids):
        for task in await request.service.engine.get(batch):
            needed = "" if task is None else f"{scope}:{task.definition.queue}"
            if task is not None and not caller.may(needed):
                missing[task.id] = refuse(needed)
    return missing


def _refused(task_id: str, problem: Problem) -> ActedOn:
    return ActedOn(task_id, None, changed=False, error=problem.document)


def _shown(task_id: str, one: ActionResult, error: AndonError | None) -> ActedOn:
    problem = None if error is None else problem_of(error).document
    return ActedOn(task_id, one.state, one.changed, problem)


def _summed(tally: Tally, told: list[ActedOn], *, dry_run: bool) -> ActedOnMany:
    return ActedOnMany(
        found=tally.found,
        changed=tally.changed,
        unchanged=tally.unchanged,
        refused=tally.refused,
        dry_run=dry_run,
        tasks=told,
    )
