"""Records, histories, events, and the stream of hints."""

from litestar import post
from litestar.params import JSONBody

from andon.contract.queries import EventPage, History, Page, Query
from andon.engine.http import wire
from andon.engine.places import in_places
from andon.model.errors import InvalidSubmission, PermissionRefused
from andon.model.groups import GroupRecord
from andon.model.letters import LetterGroups
from andon.model.task import Task
from andon.service.calls import Call
from andon.service.decoding import Items
from andon.service.remote import attending
from andon.service.remote.attending import Attending
from andon.service.routes.engine.shared import MOST_PAGE, Nothing, caller_of, check_few


@post("/get", status_code=200)
async def get(request: Call, data: Items[wire.Which]) -> list[Task | None]:
    """Records by their ids; of a task that the caller may not read there is none."""
    caller = caller_of(request)
    check_few(request, data.ids)
    caller.require_some("tasks:read:")
    tasks: list[Task | None] = []
    for start in range(0, len(data.ids), MOST_PAGE):
        tasks += await request.service.engine.get(data.ids[start : start + MOST_PAGE])
    queues = {task.definition.queue for task in tasks if task is not None}
    forbidden = {queue for queue in queues if not caller.may(f"tasks:read:{queue}")}
    if forbidden:
        readable = [
            None if task is None or task.definition.queue in forbidden else task for task in tasks
        ]
        if all(task is not None for task in tasks) and not any(readable):
            raise PermissionRefused(f"tasks:read:{min(forbidden)}")
        tasks = readable
    return in_places(tasks, dict.fromkeys(request.unread))


@post("/history", status_code=200)
async def history(request: Call, data: JSONBody[wire.Which]) -> History:
    """The moves of one task."""
    caller = caller_of(request)
    if len(data.ids) != 1:
        raise InvalidSubmission("Name one task.", field="ids")
    caller.require_some("tasks:read:")
    engine = request.service.engine
    [task] = await engine.get(data.ids)
    if task is not None:
        caller.require(f"tasks:read:{task.definition.queue}")
    return await engine.history(data.ids[0])


@post("/find", status_code=200)
async def find(request: Call, data: JSONBody[Query]) -> Page:
    """A page of tasks."""
    caller_of(request).require(f"tasks:read:{'*' if data.queue is None else data.queue}")
    if not 1 <= data.limit <= MOST_PAGE:
        raise InvalidSubmission(f"limit is 1 to {MOST_PAGE}.", field="limit")
    return await request.service.engine.find(data)


@post("/dependents", status_code=200)
async def dependents(request: Call, data: JSONBody[wire.OfDependents]) -> Page:
    """A page of the tasks that depend on one; those in queues that the caller may not read are left
    out."""
    caller = caller_of(request)
    caller.require_some("tasks:read:")
    engine = request.service.engine
    [task] = await engine.get([data.id])
    if task is not None:
        caller.require(f"tasks:read:{task.definition.queue}")
    page = await engine.dependents(data.id, data.cursor, data.limit)
    readable = [task for task in page.tasks if caller.may(f"tasks:read:{task.definition.queue}")]
    return Page(tuple(readable), page.cursor)


@post("/group", status_code=200)
async def group(request: Call, data: JSONBody[wire.OfGroup]) -> GroupRecord:
    """The record of a group."""
    caller_of(request).require("tasks:read:*")
    return await request.service.engine.group(data.name)


@post("/seal_group", status_code=200)
async def seal_group(request: Call, data: JSONBody[wire.OfGroup]) -> GroupRecord:
    """Let no more members into a group."""
    caller_of(request).require("tasks:change:*")
    return await request.service.engine.seal_group(data.name)


@post("/letter_groups", status_code=200)
async def letter_groups(request: Call, data: JSONBody[wire.OfLetterGroups]) -> LetterGroups:
    """Dead letters by the fingerprint of their errors."""
    caller_of(request).require(f"tasks:read:{'*' if data.queue is None else data.queue}")
    return await request.service.engine.letter_groups(
        data.queue, data.name, look=data.look, cursor=data.cursor
    )


@post("/events", status_code=200)
async def events(request: Call, data: JSONBody[wire.After]) -> EventPage:
    """Events after a cursor."""
    caller_of(request).require("tasks:read:*")
    if not 1 <= data.limit <= MOST_PAGE:
        raise InvalidSubmission(f"limit is 1 to {MOST_PAGE}.", field="limit")
    return await request.service.engine.events(data.cursor, data.limit)


@post("/events_end", status_code=200)
async def events_end(request: Call, data: JSONBody[Nothing]) -> str:
    """The cursor after the newest event."""
    caller_of(request).require("tasks:read:*")
    return await request.service.engine.events_end()


@post("/attend", status_code=200)
async def attend(request: Call, data: JSONBody[wire.Attention]) -> Attending:
    """Hints, and changes of tasks, as they happen."""
    caller = caller_of(request)
    attending.check(caller, data)
    if data.tasks:
        caller.require_some("tasks:read:")
    service = request.service
    return Attending(service.engine, caller, data, service.stopping)
