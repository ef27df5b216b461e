"""What `HttpEngine` calls: the engine's own methods, records travelling whole.

Not part of the documented interface: both ends are Andon's, and everybody else has `/api/v1/tasks`
and `/api/v1/runs`. The scopes are the same.
"""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from litestar import Router, post
from litestar.params import JSONBody

from andon.engine.base import Acted, Submission
from andon.engine.definitions import DEFAULT_QUEUE
from andon.engine.http import wire
from andon.engine.http.errors import problem_of
from andon.engine.runs import Mark
from andon.model.errors import (
    AndonError,
    AuthenticationFailed,
    InvalidSubmission,
)
from andon.model.fleet import QueueConfig, QueueStats, StoreInfo, TypeInfo, WorkerInfo
from andon.model.task import Task
from andon.model.words import State
from andon.service.calls import Call
from andon.service.remote import attending
from andon.service.remote.attending import Attending
from andon.service.remote.presences import ADMIN
from andon.service.remote.runs import Signed, Told
from andon.service.submitting import submit_as_given
from andon.service.trust.access import Caller
from andon.stores.base import ClaimRequest, EventPage, History, Page, Query

MOST_ITEMS = 10_000
MOST_PAGE = 1_000


class Nothing(msgspec.Struct, frozen=True):
    """A request without a body of its own."""


def _caller(request: Call) -> Caller:
    request.add_header(wire.TIME_HEADER, str(request.service.engine.now()))
    return cast("Caller", request.caller)


def _few(items: Sequence[object]) -> None:
    if len(items) > MOST_ITEMS:
        raise InvalidSubmission(f"One request takes at most {MOST_ITEMS:,} items.")


# --- submitting and running ---


@post("/submit", status_code=200)
async def submit(request: Call, data: JSONBody[list[Submission]]) -> list[wire.Outcome]:
    """Submit one or many."""
    caller = _caller(request)
    _few(data)
    for queue, scopes in {(s.queue or DEFAULT_QUEUE, s.scopes) for s in data}:
        caller.require_submit(queue, scopes)
    return [wire.outcome_of(done) for done in await submit_as_given(request.service, data)]


@post("/claim", status_code=200)
async def claim(request: Call, data: JSONBody[ClaimRequest]) -> list[wire.Claimed]:
    """Claim what there is, without waiting."""
    caller = _caller(request)
    claimed = await request.service.runs.claim(caller, data)
    return [wire.Claimed(task, token) for task, token in claimed]


@post("/renew", status_code=200)
async def renew(request: Call, data: JSONBody[list[wire.Sign]]) -> list[str]:
    """Say that runs live."""
    _caller(request)
    _few(data)
    runs = request.service.runs
    claims = await runs.claims_of([sign.token for sign in data])
    signed = [
        Signed(
            None if isinstance(one, AuthenticationFailed) else one,
            sign.lease_ms,
            sign.heartbeat,
            sign.progress,
            sign.message,
        )
        for sign, one in zip(data, claims, strict=True)
    ]
    return [verdict.value for verdict in await runs.renew(signed)]


@post("/report", status_code=200)
async def report(request: Call, data: JSONBody[list[wire.Report]]) -> list[wire.Outcome]:
    """Resolve runs."""
    _caller(request)
    _few(data)
    runs = request.service.runs
    claims = await runs.claims_of([one.token for one in data])
    outcomes: list[wire.Outcome | None] = [None] * len(data)
    told: list[Told] = []
    places: list[int] = []
    for place, (one, who) in enumerate(zip(data, claims, strict=True)):
        try:
            if isinstance(who, AuthenticationFailed):
                raise who
            if one.event not in wire.RUN_EVENTS:
                raise InvalidSubmission(f"A run does not report {one.event}.", field="event")
            command = wire.command_of(one.event, one.fields)
        except AndonError as error:
            outcomes[place] = wire.Outcome("", error=problem_of(error))
            continue
        told.append(Told(who, command, Mark(one.progress, one.message, one.heartbeat_at)))
        places.append(place)
    for place, one, done in zip(places, told, await runs.report(told), strict=True):
        outcomes[place] = _reported(one.claims.task, done)
    return [outcome for outcome in outcomes if outcome is not None]


def _reported(task_id: str, done: State | AndonError | None) -> wire.Outcome:
    if isinstance(done, AndonError):
        return wire.Outcome(task_id, error=problem_of(done))
    return wire.Outcome(task_id, done, yes=True)


@post("/dependencies", status_code=200)
async def dependencies(request: Call, data: JSONBody[wire.OfRun]) -> dict[str, Task | None]:
    """The dependencies of the task that a run holds."""
    _caller(request)
    runs = request.service.runs
    [claims] = await runs.claims_of([data.token])
    assert not isinstance(claims, AuthenticationFailed)
    return await runs.dependencies(claims)


# --- control ---


async def _allowed(request: Call, ids: Sequence[str], *kinds: str) -> None:
    """Refuse unless the caller may do one of these to every task that there is."""
    caller = _caller(request)
    _few(ids)
    if any(caller.may(f"{kind}*") for kind in kinds):
        return
    for kind in kinds[:1]:
        caller.require_some(kind)
    for task in await request.service.engine.get(ids):
        if task is not None and not any(
            caller.may(f"{kind}{task.definition.queue}") for kind in kinds
        ):
            caller.require(f"{kinds[0]}{task.definition.queue}")


def _acted(done: Sequence[Acted]) -> list[wire.Outcome]:
    return [wire.outcome_of(one) for one in done]


@post("/cancel", status_code=200)
async def cancel(request: Call, data: JSONBody[wire.Which]) -> list[wire.Outcome]:
    """Cancel tasks, or ask their runs to stop."""
    await _allowed(request, data.ids, "tasks:cancel:")
    return _acted(await request.service.engine.cancel(data.ids, force=data.force))


@post("/retry", status_code=200)
async def retry(request: Call, data: JSONBody[wire.Which]) -> list[wire.Outcome]:
    """Run tasks again, or now."""
    await _allowed(request, data.ids, "tasks:change:")
    return _acted(await request.service.engine.retry(data.ids))


@post("/act", status_code=200)
async def act(request: Call, data: JSONBody[wire.Which]) -> list[wire.Outcome]:
    """Any other act of control."""
    await _allowed(request, data.ids, "tasks:change:")
    if data.event is None or data.event not in wire.CONTROL_EVENTS:
        raise InvalidSubmission(f"There is no act {data.event}.", field="event")
    command = wire.command_of(data.event, data.fields)
    return _acted(await request.service.engine.act(data.ids, command, force=data.force))


# --- reading ---


@post("/get", status_code=200)
async def get(request: Call, data: JSONBody[wire.Which]) -> list[Task | None]:
    """Records by their ids."""
    caller = _caller(request)
    _few(data.ids)
    caller.require_some("tasks:read:")
    tasks: list[Task | None] = []
    for start in range(0, len(data.ids), MOST_PAGE):
        tasks += await request.service.engine.get(data.ids[start : start + MOST_PAGE])
    for queue in {task.definition.queue for task in tasks if task is not None}:
        caller.require(f"tasks:read:{queue}")
    return tasks


@post("/history", status_code=200)
async def history(request: Call, data: JSONBody[wire.Which]) -> History:
    """The moves of one task."""
    caller = _caller(request)
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
    _caller(request).require(f"tasks:read:{'*' if data.queue is None else data.queue}")
    if not 1 <= data.limit <= MOST_PAGE:
        raise InvalidSubmission(f"limit is 1 to {MOST_PAGE}.", field="limit")
    return await request.service.engine.find(data)


@post("/events", status_code=200)
async def events(request: Call, data: JSONBody[wire.After]) -> EventPage:
    """Events after a cursor."""
    _caller(request).require("tasks:read:*")
    if not 1 <= data.limit <= MOST_PAGE:
        raise InvalidSubmission(f"limit is 1 to {MOST_PAGE}.", field="limit")
    return await request.service.engine.events(data.cursor, data.limit)


@post("/events_end", status_code=200)
async def events_end(request: Call, data: JSONBody[Nothing]) -> str:
    """The cursor after the newest event."""
    _caller(request).require("tasks:read:*")
    return await request.service.engine.events_end()


@post("/attend", status_code=200)
async def attend(request: Call, data: JSONBody[wire.Attention]) -> Attending:
    """Hints, and changes of tasks, as they happen."""
    caller = _caller(request)
    attending.check(caller, data)
    if data.tasks:
        caller.require_some("tasks:read:")
    service = request.service
    return Attending(service.engine, caller, data, service.stopping)


# --- the fleet ---


@post("/stats", status_code=200)
async def stats(request: Call, data: JSONBody[Nothing]) -> list[QueueStats]:
    """Counts of the queues that the caller may see."""
    caller = _caller(request)
    caller.require_some("queues:read:")
    found = await request.service.engine.stats()
    return [one for one in found if caller.may(f"queues:read:{one.queue}")]


@post("/queues", status_code=200)
async def queues(request: Call, data: JSONBody[Nothing]) -> list[QueueConfig]:
    """The queues that the caller may see or claim from."""
    caller = _caller(request)
    found = await request.service.engine.queues()
    return [
        one
        for one in found
        if caller.may(f"queues:read:{one.name}") or caller.may(f"queues:claim:{one.name}")
    ]


@post("/configure_queue", status_code=200)
async def configure_queue(request: Call, data: JSONBody[wire.OfQueue]) -> QueueConfig:
    """Change a queue's settings."""
    _caller(request).require(f"queues:manage:{data.name}")
    return await request.service.engine.configure_queue(data.name, data.changes)


@post("/types", status_code=200)
async def types(request: Call, data: JSONBody[Nothing]) -> list[TypeInfo]:
    """The task types published."""
    _caller(request)
    return await request.service.engine.types()


@post("/publish_types", status_code=200)
async def publish_types(request: Call, data: JSONBody[wire.OfTypes]) -> None:
    """Publish task types."""
    _caller(request).require("types:publish")
    _few(data.types)
    await request.service.engine.store.put_types(data.types)


@post("/workers", status_code=200)
async def workers(request: Call, data: JSONBody[Nothing]) -> list[WorkerInfo]:
    """Workers alive."""
    _caller(request).require("workers:read")
    return await request.service.engine.workers()


@post("/put_worker", status_code=200)
async def put_worker(request: Call, data: JSONBody[WorkerInfo]) -> None:
    """Say that a worker lives."""
    caller = _caller(request)
    caller.require_some("queues:claim:")
    await request.service.presences.put(caller, data)


@post("/remove_worker", status_code=200)
async def remove_worker(request: Call, data: JSONBody[wire.Which]) -> None:
    """Say that a worker has left."""
    caller = _caller(request)
    if not caller.may(ADMIN):
        caller.require_some("queues:claim:")
    for worker in data.ids[:1]:
        await request.service.presences.remove(caller, worker)


@post("/partitions", status_code=200)
async def partitions(request: Call, data: JSONBody[Nothing]) -> int:
    """How many partitions claims go round; asked by every engine that opens, which learns the time
    with it, so nothing is counted for it."""
    _caller(request)
    return await request.service.engine.partitions()


@post("/info", status_code=200)
async def info(request: Call, data: JSONBody[Nothing]) -> StoreInfo:
    """What the store is; where it is, for administrators only."""
    found = await request.service.engine.info()
    if not _caller(request).may("admin:storage"):
        found = msgspec.structs.replace(found, location="", settings={})
    return found


HANDLERS: list[Any] = [
    submit,
    claim,
    renew,
    report,
    dependencies,
    cancel,
    retry,
    act,
    get,
    history,
    find,
    events,
    events_end,
    attend,
    stats,
    queues,
    configure_queue,
    types,
    publish_types,
    workers,
    put_worker,
    remove_worker,
    partitions,
    info,
]

router = Router("/api/v1/engine", route_handlers=HANDLERS, include_in_schema=False)
