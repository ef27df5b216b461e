"""Tasks: submit, list, look at one, and change one."""

from typing import Annotated, Any

from litestar import Router, delete, get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from andon.client.ids import new_id
from andon.engine.filtering import Filters
from andon.engine.fleet import waits_for
from andon.lifecycle.commands import Archive, Delete, Reschedule, RunNow, Schedule
from andon.lifecycle.rendering import document
from andon.service.acting import act_on_one, edit_one, reprioritise_of, rerun_of
from andon.service.answers import Accepted, ActedOn, Edited, TaskPage
from andon.service.bodies import (
    Cancelling,
    Editing,
    NewTask,
    Nothing,
    Reprioritising,
    Rerunning,
    Rescheduling,
)
from andon.service.calls import As, Call, profile_named
from andon.service.idempotency import REPLAYED, IdempotencyKey
from andon.service.lines import Lines
from andon.service.listing import PAGE, list_tasks, shown_as
from andon.service.parameters import (
    Cursor,
    Group,
    Key,
    ListLimit,
    Order,
    Queue,
    States,
    Tag,
    TaskName,
    Wait,
    WorkerId,
)
from andon.service.selecting import state_names
from andon.service.submitting import moment_ms, submit_one
from andon.service.waiting import readable


@post("/", status_code=201, summary="Submit a task")
async def submit(
    request: Call, data: JSONBody[NewTask], *, idempotency_key: IdempotencyKey = None
) -> Accepted:
    """Store a task. Once this has answered, it reaches an end or waits for something named.

    201 when it was stored by this request, 200 when the same submission was there already. A repeat
    with the same Idempotency-Key is this request: 201 again, with `Idempotent-Replayed: true`.
    """
    outcome = await submit_one(request, data, idempotency_key)
    created = outcome.created
    if not created and idempotency_key is not None:
        request.add_header(REPLAYED, "true")
        created = True
    if created:
        request.made(f"tasks/{outcome.id}")
    else:
        request.status = 200
    return Accepted(outcome.id, outcome.state, created)


@get("/", summary="List tasks")
async def list_all(
    request: Call,
    *,
    states: States = None,
    queue: Queue = None,
    name: TaskName = None,
    tag: Tag = None,
    key: Key = None,
    group: Group = None,
    worker: WorkerId = None,
    newest_first: Order = None,
    limit: ListLimit = None,
    cursor: Cursor = "",
    seen_as: As = None,
) -> TaskPage | Lines:
    """Tasks in the order of their creation; if all states asked for are `scheduled` or `retry`, by
    due time, the soonest first (not those of a key or group). A page may be short; its cursor leads
    to the next.

    With `Accept: application/x-ndjson` all of them, one a line, up to those created just now.
    """
    filters = Filters(
        states=state_names(states),
        queue=queue,
        name=name,
        tag=tag,
        key=key,
        group=group,
        worker=worker,
    )
    return await list_tasks(
        request, filters, seen_as, limit=limit, cursor=cursor, newest_first=newest_first
    )


@get("/{task_id:str}", summary="Get a task")
async def get_task(
    request: Call,
    task_id: FromPath[str],
    wait: Wait = 0.0,
    history: Annotated[
        bool, QueryParameter(description="With all its moves; native shows none otherwise.")
    ] = False,
    seen_as: As = None,
) -> dict[str, Any]:
    """One task as it stands, in the fields of the profile asked for. `waits_for` (native) says what
    keeps a pending task from starting.

    With `wait` it is a long poll: at most as long as the service allows (60 s by default). For 10
    minutes it answers with the end of a task that was discarded with it, too.
    """
    profile = profile_named(seen_as)
    engine = request.service.engine
    task = await readable(request, task_id, wait)
    moves = (await engine.history(task_id)).events or task.status.events if history else ()
    found = document(profile, task, moves, now=engine.now())
    if profile.name == "native":
        found |= waits_for(await engine.wait_of(task))
    return found


@get("/{task_id:str}/dependents", summary="List what depends on a task")
async def dependents(
    request: Call,
    task_id: FromPath[str],
    limit: ListLimit = None,
    cursor: Cursor = "",
    seen_as: As = None,
) -> TaskPage:
    """The tasks that name this one as a dependency, in the order of their ids: those that wait for
    it, those that were released by hand, and those that have ended, as long as their records are
    kept. Tasks in queues that the token may not read are left out."""
    profile, engine = profile_named(seen_as), request.service.engine
    await readable(request, task_id, 0.0)
    most = min(limit or PAGE, request.service.settings.max_page)
    page = await engine.dependents(task_id, cursor, most)
    may, now = request.caller.may, engine.now()
    readables = [task for task in page.tasks if may(f"tasks:read:{task.definition.queue}")]
    return TaskPage([shown_as(profile, task, now) for task in readables], page.cursor)


@delete("/{task_id:str}", status_code=200, summary="Delete a task")
async def delete_task(
    request: Call,
    task_id: FromPath[str],
    force: Annotated[
        bool, QueryParameter(description="Even if others still need its result.")
    ] = False,
) -> ActedOn:
    """Remove the record of a task that has ended. A live one is refused: cancel it first."""
    engine = request.service.engine
    return await act_on_one(
        request, task_id, "tasks:change", lambda ids: engine.act(ids, Delete(), force=force)
    )


@post("/{task_id:str}/cancel", status_code=200, summary="Cancel a task")
async def cancel(request: Call, task_id: FromPath[str], data: JSONBody[Cancelling]) -> ActedOn:
    """Cancel a waiting task, ask a running one to stop, or with `force` cancel that at once."""
    engine = request.service.engine
    return await act_on_one(
        request, task_id, "tasks:cancel", lambda ids: engine.cancel(ids, force=data.force)
    )


@post("/{task_id:str}/retry", status_code=200, summary="Retry a task")
async def retry(request: Call, task_id: FromPath[str], data: JSONBody[Nothing]) -> ActedOn:
    """Rerun what has ended, run now what waits; a pending task needs nothing."""
    return await act_on_one(request, task_id, "tasks:change", request.service.engine.retry)


@post("/{task_id:str}/rerun", status_code=200, summary="Rerun a task")
async def rerun(request: Call, task_id: FromPath[str], data: JSONBody[Rerunning]) -> ActedOn:
    """Run a task again that has ended, with a new budget of tries."""
    engine, command = request.service.engine, rerun_of(data)
    return await act_on_one(request, task_id, "tasks:change", lambda ids: engine.act(ids, command))


@post("/{task_id:str}/run-now", status_code=200, summary="Run a task now")
async def run_now(request: Call, task_id: FromPath[str], data: JSONBody[Nothing]) -> ActedOn:
    """Start a waiting task without its wait; a blocked one drops its dependencies."""
    engine = request.service.engine
    return await act_on_one(request, task_id, "tasks:change", lambda ids: engine.act(ids, RunNow()))


@post("/{task_id:str}/schedule", status_code=200, summary="Release a blocked task")
async def schedule(request: Call, task_id: FromPath[str], data: JSONBody[Nothing]) -> ActedOn:
    """Release a blocked task by hand, whatever it waits for."""
    engine = request.service.engine
    return await act_on_one(
        request, task_id, "tasks:change", lambda ids: engine.act(ids, Schedule())
    )


@post("/{task_id:str}/reschedule", status_code=200, summary="Reschedule a task")
async def reschedule(
    request: Call, task_id: FromPath[str], data: JSONBody[Rescheduling]
) -> ActedOn:
    """Give a waiting task another start time."""
    engine = request.service.engine
    command = Reschedule(run_at=moment_ms("run_at", data.run_at))
    return await act_on_one(request, task_id, "tasks:change", lambda ids: engine.act(ids, command))


@post("/{task_id:str}/reprioritise", status_code=200, summary="Reprioritise a task")
async def reprioritise(
    request: Call, task_id: FromPath[str], data: JSONBody[Reprioritising]
) -> ActedOn:
    """Give a task another priority; of one that runs, it counts from its next run on."""
    engine, command = request.service.engine, reprioritise_of(data.priority)
    return await act_on_one(request, task_id, "tasks:change", lambda ids: engine.act(ids, command))


@post("/{task_id:str}/archive", status_code=200, summary="Archive a task")
async def archive(request: Call, task_id: FromPath[str], data: JSONBody[Nothing]) -> ActedOn:
    """Give up a waiting task: it becomes a dead letter, reason `archived-by-hand`."""
    engine = request.service.engine
    return await act_on_one(
        request, task_id, "tasks:change", lambda ids: engine.act(ids, Archive())
    )


@post("/{task_id:str}/edit", status_code=200, summary="Edit a task's arguments")
async def edit(request: Call, task_id: FromPath[str], data: JSONBody[Editing]) -> Edited:
    """Give a task that has not begun other arguments: it is cancelled, and a successor submitted
    that is the same in all else, at the end of its line.

    Refused for a task that has begun or ended, or that others depend on: they would not follow.
    """
    successor = data.id or new_id()
    done = await edit_one(request, task_id, bytes(data.args), successor)
    if done.error is not None:
        raise done.error
    return Edited(task_id, done.id, done.state, done.created)


router = Router(
    "/api/v1/tasks",
    route_handlers=[
        submit,
        list_all,
        get_task,
        dependents,
        delete_task,
        cancel,
        retry,
        rerun,
        run_now,
        schedule,
        reschedule,
        reprioritise,
        archive,
        edit,
    ],
    tags=["tasks"],
)
