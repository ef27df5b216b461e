"""Schedules: made, revised, acted on, their past times submitted. They are read as tasks are."""

from litestar import post
from litestar.params import JSONBody

from andon.engine.http import wire
from andon.engine.http.schedules import Part, Put, ToAct, ToBackfill, ToPut, put_of
from andon.engine.places import in_places
from andon.model.errors import PermissionRefused
from andon.model.task import Task
from andon.service import scheduling
from andon.service.calls import Call
from andon.service.decoding import Items
from andon.service.routes.engine.shared import caller_of, check_few, outcomes_of, unread_of


@post("/put_schedules", status_code=200)
async def put_schedules(request: Call, data: Items[ToPut]) -> list[Put]:
    """Make or revise schedules."""
    caller = caller_of(request)
    check_few(request, data.requests)
    done = await scheduling.put(request.service.engine, caller, data.requests, data.how)
    told = [put_of(one, None if one.error is None else request.told(one.error)) for one in done]
    unread = {
        place: Put("", "refused", outcome.error) for place, outcome in unread_of(request).items()
    }
    return in_places(told, unread)


@post("/act_on_schedules", status_code=200)
async def act_on_schedules(request: Call, data: Items[ToAct]) -> list[wire.Outcome]:
    """Pause, resume, run, cancel, delete or rerun schedules."""
    caller = caller_of(request)
    check_few(request, data.names)
    done = await scheduling.act(request.service.engine, caller, data.names, data.act)
    return outcomes_of(request, done)


@post("/backfill_schedule", status_code=200)
async def backfill_schedule(request: Call, data: JSONBody[ToBackfill]) -> Part:
    """Submit a part of a schedule's past times."""
    caller = caller_of(request)

    def allowed(task: Task) -> None:
        missing = scheduling.lacks_for_backfill(caller, task)
        if missing:
            raise PermissionRefused(missing)

    done, following = await scheduling.backfill(
        request.service.engine,
        data.name,
        data.start,
        data.end,
        yes=data.yes,
        dry_run=data.dry_run,
        allowed=allowed,
    )
    return Part(done, following)
