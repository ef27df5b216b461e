"""What is done to tasks from outside: cancel, retry, any act, edit."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from litestar import post
from litestar.params import JSONBody

from andon.contract.limits import in_batches
from andon.engine.base import ActionResult
from andon.engine.http import wire
from andon.engine.places import in_places
from andon.model.audit import AuditRecord
from andon.model.errors import InvalidSubmission, PermissionRefused
from andon.service.acting import edit_one
from andon.service.calls import Call
from andon.service.decoding import Items
from andon.service.remote.presences import ADMIN
from andon.service.routes.audit import MOST_LISTED, SCOPE
from andon.service.routes.engine.shared import caller_of, check_few, outcomes_of


async def _each(
    request: Call, ids: Sequence[str], kind: str, do: Callable[[Sequence[str]], Awaitable[Any]]
) -> list[wire.Outcome]:
    """Do it to the tasks that the caller may do this to; the others are refused, each alone."""
    caller = caller_of(request)
    check_few(request, ids)
    refused: dict[int, ActionResult] = {}
    if not caller.may(f"{kind}*"):
        caller.require_some(kind)
        queues = {
            task.id: task.definition.queue
            for batch in in_batches(ids)
            for task in await request.service.engine.get(batch)
            if task is not None
        }
        for place, task_id in enumerate(ids):
            scope = f"{kind}{queues.get(task_id)}"
            if task_id in queues and not caller.may(scope):
                error = PermissionRefused(scope)
                refused[place] = ActionResult(task_id, None, changed=False, error=error)
        if len(refused) == len(ids):
            for outcome in refused.values():
                assert outcome.error is not None
                raise outcome.error
    allowed = [task_id for place, task_id in enumerate(ids) if place not in refused]
    done: list[ActionResult] = await do(allowed) if allowed else []
    return outcomes_of(request, in_places(done, refused))


@post("/cancel", status_code=200)
async def cancel(request: Call, data: Items[wire.Which]) -> list[wire.Outcome]:
    """Cancel tasks, or ask their runs to stop."""
    engine = request.service.engine
    return await _each(
        request, data.ids, "tasks:cancel:", lambda ids: engine.cancel(ids, force=data.force)
    )


@post("/retry", status_code=200)
async def retry(request: Call, data: Items[wire.Which]) -> list[wire.Outcome]:
    """Run tasks again, or now."""
    return await _each(request, data.ids, "tasks:change:", request.service.engine.retry)


@post("/end_runs", status_code=200)
async def end_runs(request: Call, data: Items[wire.OfRuns]) -> list[wire.Outcome]:
    """End the runs that a worker has, because it is gone for good."""
    caller_of(request).require(ADMIN)
    engine = request.service.engine
    return await _each(
        request, data.ids, "tasks:change:", lambda ids: engine.end_runs(data.worker, ids)
    )


@post("/act", status_code=200)
async def act(request: Call, data: Items[wire.Which]) -> list[wire.Outcome]:
    """Any other act of control."""
    if data.event is None or data.event not in wire.CONTROL_EVENTS:
        raise InvalidSubmission(f"There is no act {data.event}.", field="event")
    command = wire.command_of(data.event, data.fields)
    engine = request.service.engine
    return await _each(
        request,
        data.ids,
        "tasks:change:",
        lambda ids: engine.act(ids, command, force=data.force),
    )


@post("/edit", status_code=200)
async def edit(request: Call, data: JSONBody[wire.OfEdit]) -> wire.Outcome:
    """Give a task that has not begun other arguments."""
    caller_of(request)
    done = await edit_one(request, data.id, data.args, data.successor)
    return wire.outcome_of(done, None if done.error is None else request.told(done.error))


@post("/acts", status_code=200)
async def acts(request: Call, data: JSONBody[wire.OfAudit]) -> list[AuditRecord]:
    """What was done by hand, newest first."""
    caller_of(request).require(SCOPE)
    if not 1 <= data.limit <= MOST_LISTED:
        raise InvalidSubmission(f"limit is 1 to {MOST_LISTED}.", field="limit")
    return await request.service.engine.acts(data.actor, data.limit)
