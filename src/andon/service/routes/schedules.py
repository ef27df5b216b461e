"""Schedules: list, look at one and at its next times, make, change, act on, submit past times."""

import time
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from litestar import Router, delete, get, patch, post, put
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec import UNSET

from andon.contract.queries import Query
from andon.engine.paging import full_page
from andon.engine.schedule_requests import How, ScheduleAct, ScheduleRequest
from andon.engine.schedule_views import (
    changed,
    is_paused,
    next_times,
    queues_of,
    request_of,
    schedule_document,
    schedule_of,
    time_document,
)
from andon.lifecycle.faces import SCHEDULES, schedule_as
from andon.lifecycle.faces.fields import maybe_iso
from andon.model.errors import AndonError, ConfigurationError, InvalidSubmission
from andon.model.recurrence import Recurrence
from andon.model.task import Task
from andon.model.words import State
from andon.service import scheduling
from andon.service.answers import (
    BackfilledPart,
    NextTimes,
    RefusedTask,
    ScheduleActed,
    SchedulePage,
)
from andon.service.bodies import Nothing
from andon.service.calls import As, Call, profile_named
from andon.service.guard import refuse
from andon.service.listing import PAGE, PATIENCE_S
from andon.service.parameters import Cursor, ListLimit, TaskName
from andon.service.problems import invalid
from andon.service.schedule_bodies import (
    Backfilling,
    NewSchedule,
    ScheduleChanges,
    ScheduledTask,
    task_given,
    times_given,
)
from andon.service.submitting import moment_ms

_SHOWN = 5
"""Next times that are shown with a schedule."""

_FIELDS = frozenset({"", "name", *NewSchedule.__struct_fields__})
"""What errors may name, and the request calls so too."""

T = TypeVar("T")


@get("/", summary="List schedules")
async def list_schedules(
    request: Call,
    *,
    name: TaskName = None,
    queue: Annotated[
        str | None, QueryParameter(description="Whose tasks go to this queue.")
    ] = None,
    application: Annotated[
        str | None, QueryParameter(description="Declared by this application.")
    ] = None,
    paused: Annotated[
        bool | None, QueryParameter(description="Only those that are paused, or are not.")
    ] = None,
    limit: ListLimit = None,
    cursor: Cursor = "",
    seen_as: As = None,
) -> SchedulePage:
    """Schedules that go on, in the order in which they were made; `name` is that of their tasks. A
    page may be short; its cursor leads to the next."""
    request.need(f"tasks:read:{queue or '*'}")
    seen = profile_named(seen_as).name

    def keep(task: Task) -> bool:
        schedule = task.status.schedule
        return (
            schedule is not None
            and name in (None, schedule.template.name)
            and queue in (None, schedule.template.queue)
            and application in (None, schedule.application)
            and paused in (None, is_paused(task))
            and not scheduling.lacks(request.caller, ("tasks:read",), queues_of(task))
        )

    most = min(limit or PAGE, request.service.settings.max_page)
    query = Query(states=(State.RECURRING,), limit=most, cursor=cursor)
    ends = time.monotonic() + PATIENCE_S
    try:
        page = await full_page(
            request.service.engine, query, keep=keep, goes_on=lambda _: time.monotonic() < ends
        )
    except ConfigurationError as error:
        raise invalid(str(error), field="cursor") from error
    shown = [schedule_as(seen, schedule_document(task)) for task in page.tasks]
    return SchedulePage(shown, page.cursor)


@get("/{schedule:str}", summary="Get a schedule")
async def get_schedule(
    request: Call, schedule: FromPath[str], *, seen_as: As = None
) -> dict[str, Any]:
    """One schedule, also after its end: what it does, how it stands, and its next times."""
    seen = profile_named(seen_as).name
    task = await _readable(request, schedule)
    engine = request.service.engine
    last_id = schedule_of(task, schedule).last_id
    [last] = await engine.get([last_id]) if last_id else [None]
    if seen in SCHEDULES:
        return schedule_as(seen, schedule_document(task, last))
    times = next_times(task, engine.now(), _SHOWN)
    return schedule_document(task, last) | {"next": [time_document(one) for one in times]}


@get("/{schedule:str}/next", summary="Show the next times of a schedule")
async def next_of(
    request: Call,
    schedule: FromPath[str],
    *,
    count: Annotated[int, QueryParameter(ge=1, le=1_000, description="How many.")] = 20,
    after: Annotated[
        str | None, QueryParameter(description="After this time, ISO 8601; now, if none is given.")
    ] = None,
) -> NextTimes:
    """The times by the clocks of its zone and in UTC, and what changes of the clocks do to them."""
    task = await _readable(request, schedule)
    since = request.service.engine.now() if after is None else moment_ms("after", after)
    return NextTimes([time_document(one) for one in next_times(task, since, count)])


@put("/{schedule:str}", status_code=200, summary="Make a schedule, or replace it")
async def put_schedule(
    request: Call, schedule: FromPath[str], data: JSONBody[NewSchedule]
) -> dict[str, Any]:
    """201 when this request has made it, 200 when it took the place of what the schedule was. How
    far it has come stays; new times count from now on."""
    app, engine = request.service.app, request.service.engine
    submission, _ = _of_task(lambda: task_given(data.task, app.registry, app.queue_elsewhere))
    wanted = ScheduleRequest(
        name=schedule,
        recurrence=Recurrence(**times_given(data)),
        task=submission,
        overlap=data.overlap,
        pause_after=data.pause_after,
    )
    [there] = await engine.get([schedule])
    if there is None:
        shown = await _put(request, wanted, "add")
        request.status = 201
        request.made(f"schedules/{schedule}")
        return shown
    return await _put(request, wanted, "edit")


@patch("/{schedule:str}", status_code=200, summary="Change a schedule")
async def edit_schedule(
    request: Call, schedule: FromPath[str], data: JSONBody[ScheduleChanges]
) -> dict[str, Any]:
    """Change what is given; all else stays as it is. What code declares holds again as soon as the
    code says something new. 409 if the same part of it is changed by another request at this
    moment: its times, its task, `overlap` or `pause_after`."""
    app = request.service.app
    there = await _readable(request, schedule)
    before = request_of(there)
    fields = times_given(data)
    if data.task is not UNSET:
        task = data.task
        _, said = _of_task(lambda: task_given(task, app.registry, app.queue_elsewhere, before.task))
        fields |= said
    for name in ("overlap", "pause_after"):
        if getattr(data, name) is not UNSET:
            fields[name] = getattr(data, name)
    return await _put(request, changed(there, fields), "edit")


async def _put(request: Call, wanted: ScheduleRequest, how: How) -> dict[str, Any]:
    engine = request.service.engine
    [outcome] = await scheduling.put(engine, request.caller, [wanted], how)
    if outcome.error is not None:
        raise _as_sent(outcome.error)
    return schedule_document(await scheduling.schedule_named(engine, wanted.name))


@post("/{schedule:str}/pause", status_code=200, summary="Pause a schedule")
async def pause(request: Call, schedule: FromPath[str], data: JSONBody[Nothing]) -> ScheduleActed:
    """Let it fire no more until it is resumed; what it has submitted goes on."""
    return await _act(request, schedule, "pause")


@post("/{schedule:str}/resume", status_code=200, summary="Resume a schedule")
async def resume(request: Call, schedule: FromPath[str], data: JSONBody[Nothing]) -> ScheduleActed:
    """Let it fire again. What fell into the pause is not made up for: backfill it."""
    return await _act(request, schedule, "resume")


@post("/{schedule:str}/run", status_code=200, summary="Run a schedule now")
async def run(request: Call, schedule: FromPath[str], data: JSONBody[Nothing]) -> ScheduleActed:
    """Submit one task now; its times go on as they are."""
    return await _act(request, schedule, "run")


@delete("/{schedule:str}", status_code=200, summary="Delete a schedule")
async def delete_schedule(request: Call, schedule: FromPath[str]) -> ScheduleActed:
    """End it and remove its record; what it has submitted stays."""
    return await _act(request, schedule, "delete")


@post("/{schedule:str}/backfill", status_code=200, summary="Submit past times of a schedule")
async def backfill(
    request: Call, schedule: FromPath[str], data: JSONBody[Backfilling]
) -> BackfilledPart:
    """Submit the tasks of past times, at most 1,000 in one request: repeat it with `start` at
    `next` until that is null. What has run is not run again, as long as its record is kept."""

    def allowed(task: Task) -> None:
        _need(request, scheduling.lacks_for_backfill(request.caller, task))

    done, following = await scheduling.backfill(
        request.service.engine,
        schedule,
        moment_ms("start", data.start),
        moment_ms("end", data.end),
        yes=data.yes,
        dry_run=data.dry_run,
        allowed=allowed,
    )
    found = done.range
    return BackfilledPart(
        count=found.count,
        more=found.more,
        first=maybe_iso(None if found.first is None else found.first.at),
        last=maybe_iso(None if found.last is None else found.last.at),
        created=done.created,
        existed=done.existed,
        refused=len(done.refused) + done.more_refused,
        errors=[RefusedTask(*one) for one in done.refused],
        dry_run=data.dry_run,
        next=maybe_iso(following),
    )


async def _act(request: Call, name: str, act: ScheduleAct) -> ScheduleActed:
    engine = request.service.engine
    await scheduling.schedule_named(engine, name)
    [acted] = await scheduling.act(engine, request.caller, [name], act)
    if acted.error is not None:
        raise acted.error
    borne = None
    if act == "run":
        task = await scheduling.schedule_named(engine, name)
        borne = schedule_of(task, name).last_id
    return ScheduleActed(acted.id, acted.state, acted.changed, borne)


async def _readable(request: Call, name: str) -> Task:
    task = await scheduling.schedule_named(request.service.engine, name)
    _need(request, scheduling.lacks(request.caller, ("tasks:read",), queues_of(task)))
    return task


def _need(request: Call, missing: str) -> None:
    if missing:
        raise refuse(missing)


def _of_task(make: Callable[[], T]) -> T:
    """What is made of the task of a request; its errors name the field at fault within that."""
    try:
        return make()
    except InvalidSubmission as error:
        error.field = f"task.{error.field}" if error.field else "task"
        raise


def _as_sent(error: AndonError) -> AndonError:
    """The error, with its field as the request calls it."""
    if isinstance(error, InvalidSubmission) and error.field not in _FIELDS:
        of_task = error.field in ScheduledTask.__struct_fields__
        error.field = f"task.{error.field}" if of_task else f"task.options.{error.field}"
    return error


router = Router(
    "/api/v1/schedules",
    route_handlers=[
        list_schedules,
        get_schedule,
        next_of,
        put_schedule,
        edit_schedule,
        pause,
        resume,
        run,
        delete_schedule,
        backfill,
    ],
    tags=["schedules"],
)
