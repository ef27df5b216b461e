"""Tasks: submit one, look at one."""

from typing import Any

from litestar import Router, get, post
from litestar.params import FromPath, JSONBody

from andon.lifecycle.rendering import as_seen
from andon.model.errors import TaskNotFound
from andon.service.answers import Accepted
from andon.service.bodies import NewTask
from andon.service.calls import As, Call, profile_named
from andon.service.submitting import submission_of


@post("/", status_code=201, summary="Submit a task")
async def submit(request: Call, data: JSONBody[NewTask]) -> Accepted:
    """Store a task. Once this has answered, it reaches an end or waits for something named.

    201 when it was stored by this request, 200 when the same submission was there already.
    """
    service = request.service
    submission = submission_of(data, service.app.registry, service.app.queue)
    request.need(f"tasks:create:{submission.queue}")
    for scope in submission.scopes:
        request.need(scope)
    [outcome] = await service.engine.submit([submission])
    if outcome.error is not None:
        raise outcome.error
    if not outcome.created:
        request.status = 200
    return Accepted(outcome.id, outcome.state, outcome.created)


@get("/{task_id:str}", summary="Get a task")
async def get_task(request: Call, task_id: FromPath[str], seen_as: As = None) -> dict[str, Any]:
    """One task as it stands, in the fields of the profile asked for."""
    profile = profile_named(seen_as)
    [task] = await request.service.engine.get([task_id])
    if task is None:
        raise TaskNotFound(task_id)
    request.need(f"tasks:read:{task.definition.queue}")
    return as_seen(profile, task)


router = Router("/api/v1/tasks", route_handlers=[submit, get_task], tags=["tasks"])
