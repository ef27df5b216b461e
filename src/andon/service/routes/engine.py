"""What `HttpEngine` calls: the engine's own methods, records travelling whole.

Not part of the documented interface: both ends are Andon's, and everybody else has `/api/v1/tasks`
and `/api/v1/runs`. The scopes are the same.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec
from litestar import Router, post
from litestar.params import JSONBody

from andon.contract.isolation import left_out
from andon.contract.limits import in_batches
from andon.contract.outcomes import Verdict
from andon.contract.queries import EventPage, History, Page, Query
from andon.engine.base import Acted, Submission, Submitted
from andon.engine.http import wire
from andon.engine.http.errors import problem_of
from andon.engine.places import in_places
from andon.engine.runs import Mark
from andon.engine.waiting import KindWait
from andon.lifecycle.admission import check_name, check_text
from andon.lifecycle.describing import check_type, check_worker
from andon.lifecycle.repeats import REPORTS
from andon.lifecycle.routing import kind_of
from andon.model.code import Code
from andon.model.errors import (
    AndonError,
    AuthenticationFailed,
    InvalidSubmission,
    PermissionRefused,
)
from andon.model.fleet import (
    QueueConfig,
    QueueHistory,
    QueueStats,
    StoreInfo,
    TypeInfo,
    WorkerInfo,
)
from andon.model.task import Task
from andon.model.words import State
from andon.service.acting import edit_one
from andon.service.calls import ADMIN_STORAGE, Call
from andon.service.decoding import Items
from andon.service.problems import Problem
from andon.service.remote import attending
from andon.service.remote.attending import Attending
from andon.service.remote.presences import ADMIN
from andon.service.remote.runs import Signed, Told
from andon.service.submitting import submit_as_given
from andon.service.trust.access import Caller

MOST_ITEMS = 10_000
MOST_PAGE = 1_000


class Nothing(msgspec.Struct, frozen=True):
    """A request without a body of its own."""


def _caller(request: Call) -> Caller:
    request.add_header(wire.TIME_HEADER, str(request.service.engine.now()))
    return cast("Caller", request.caller)


def _few(request: Call, items: Sequence[object]) -> None:
    if len(items) + len(request.unread) > MOST_ITEMS:
        raise InvalidSubmission(f"One request takes at most {MOST_ITEMS:,} items.")


# --- submitting and running ---


@post("/submit", status_code=200)
async def submit(request: Call, data: Items[list[Submission]]) -> list[wire.Outcome]:
    """Submit one or many."""
    _caller(request)
    _few(request, data)
    return _outcomes(request, await submit_as_given(request, data))


@post("/claim", status_code=200)
async def claim(request: Call, data: JSONBody[wire.Claim]) -> list[wire.Claimed]:
    """Claim what there is, without waiting."""
    caller, runs = _caller(request), request.service.runs
    for queue in data.queues:
        caller.require(f"queues:claim:{queue}")
    code = await runs.code_of(data.digest, data.code)
    claimed = await runs.claim(caller, msgspec.structs.replace(data, code=code))
    return [wire.Claimed(task, token) for task, token in claimed]


@post("/renew", status_code=200)
async def renew(request: Call, data: Items[list[wire.Sign]]) -> list[str]:
    """Say that runs live."""
    _caller(request)
    _few(request, data)
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
    invalid = dict.fromkeys(request.unread, Verdict.INVALID)
    return [verdict.value for verdict in in_places(await runs.renew(signed), invalid)]


@post("/report", status_code=200)
async def report(request: Call, data: Items[list[wire.Report]]) -> list[wire.Outcome]:
    """Resolve runs."""
    _caller(request)
    _few(request, data)
    runs = request.service.runs
    claims = await runs.claims_of([one.token for one in data])
    outcomes: dict[int, wire.Outcome] = {}
    told: list[Told] = []
    for place, (one, who) in enumerate(zip(data, claims, strict=True)):
        try:
            if isinstance(who, AuthenticationFailed):
                raise who
            if one.event not in REPORTS:
                raise InvalidSubmission(f"A run does not report {one.event}.", field="event")
            command = wire.command_of(one.event, one.fields)
        except AndonError as error:
            outcomes[place] = wire.Outcome("", error=problem_of(error))
            continue
        told.append(Told(who, command, Mark(one.progress, one.message, one.heartbeat_at)))
    done = await runs.report(told)
    reported = [_reported(request, *pair) for pair in zip(told, done, strict=True)]
    return in_places(in_places(reported, outcomes), _unread(request))


def _reported(request: Call, one: Told, done: State | AndonError | None) -> wire.Outcome:
    task_id = one.claims.task
    if isinstance(done, AndonError):
        return wire.Outcome(task_id, error=problem_of(request.told(done)))
    return wire.Outcome(task_id, done, yes=True)


def _outcomes(request: Call, done: Sequence[Submitted | Acted]) -> list[wire.Outcome]:
    told = [
        wire.outcome_of(one, None if one.error is None else request.told(one.error)) for one in done
    ]
    return in_places(told, _unread(request))


def _unread(request: Call) -> dict[int, wire.Outcome]:
    """The outcomes of entries that could not be read."""
    return {
        place: wire.Outcome("", error=problem_of(_invalid(problem)))
        for place, problem in request.unread.items()
    }


def _invalid(problem: Problem) -> InvalidSubmission:
    said = problem.document
    return InvalidSubmission(said["detail"], field=said.get("field", ""))


@post("/dependencies", status_code=200)
async def dependencies(request: Call, data: JSONBody[wire.OfRun]) -> dict[str, Task | None]:
    """The dependencies of the task that a run holds."""
    _caller(request)
    runs = request.service.runs
    [claims] = await runs.claims_of([data.token])
    assert not isinstance(claims, AuthenticationFailed)
    return await runs.dependencies(claims)


# --- control ---


async def _each(
    request: Call, ids: Sequence[str], kind: str, do: Callable[[Sequence[str]], Awaitable[Any]]
) -> list[wire.Outcome]:
    """Do it to the tasks that the caller may do this to; the others are refused, each alone."""
    caller = _caller(request)
    _few(request, ids)
    refused: dict[int, Acted] = {}
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
                refused[place] = Acted(task_id, None, changed=False, error=error)
        if len(refused) == len(ids):
            for outcome in refused.values():
                assert outcome.error is not None
                raise outcome.error
    allowed = [task_id for place, task_id in enumerate(ids) if place not in refused]
    done: list[Acted] = await do(allowed) if allowed else []
    return _outcomes(request, in_places(done, refused))


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
    _caller(request)
    done = await edit_one(request, data.id, data.args, data.successor)
    return wire.outcome_of(done, None if done.error is None else request.told(done.error))


# --- reading ---


@post("/get", status_code=200)
async def get(request: Call, data: Items[wire.Which]) -> list[Task | None]:
    """Records by their ids; of a task that the caller may not read there is none."""
    caller = _caller(request)
    _few(request, data.ids)
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


@post("/queue_history", status_code=200)
async def queue_history(request: Call, data: JSONBody[wire.OfQueueHistory]) -> list[QueueHistory]:
    """The daily history of a queue, or of those that the caller may see."""
    caller, engine = _caller(request), request.service.engine
    if data.queue is not None:
        caller.require(f"queues:read:{data.queue}")
        return await engine.queue_history(data.queue, data.days)
    caller.require_some("queues:read:")
    found = await engine.queue_history(days=data.days)
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


@post("/delete_queue", status_code=200)
async def delete_queue(request: Call, data: JSONBody[wire.NamedQueue]) -> None:
    """Forget a queue that has no tasks."""
    _caller(request).require(f"queues:manage:{data.name}")
    await request.service.engine.delete_queue(data.name)


@post("/policies", status_code=200)
async def policies(request: Call, data: JSONBody[Nothing]) -> dict[str, Any]:
    """The named retry policies."""
    _caller(request).require("queues:read:*")
    return {**await request.service.engine.policies()}


@post("/put_policy", status_code=200)
async def put_policy(request: Call, data: JSONBody[wire.OfPolicy]) -> dict[str, Any]:
    """Set a named retry policy."""
    _caller(request).require("queues:manage:*")
    return {**await request.service.engine.put_policy(data.name, data.options)}


@post("/delete_policy", status_code=200)
async def delete_policy(request: Call, data: JSONBody[wire.OfPolicy]) -> bool:
    """Delete a named retry policy."""
    _caller(request).require("queues:manage:*")
    return await request.service.engine.delete_policy(data.name)


@post("/types", status_code=200)
async def types(request: Call, data: JSONBody[Nothing]) -> list[TypeInfo]:
    """The task types published."""
    _caller(request)
    return await request.service.engine.types()


@post("/publish_types", status_code=200)
async def publish_types(request: Call, data: Items[wire.OfTypes]) -> None:
    """Publish task types; one that cannot be kept is left out, and the log says so."""
    _caller(request).require("types:publish")
    _few(request, data.types)
    for problem in request.unread.values():
        left_out("The publishing", problem.document.get("field", ""), problem.document["detail"])
    good: list[TypeInfo] = []
    for info in data.types:
        try:
            check_type(info)
        except InvalidSubmission as error:
            left_out("The publishing", info.name[:140], str(error))
        else:
            good.append(info)
    if good:
        await request.service.engine.store.put_types(good)


@post("/keep_code", status_code=200)
async def keep_code(request: Call, data: JSONBody[Code]) -> None:
    """Keep the list of what a worker has code for."""
    _caller(request).require_some("queues:claim:")
    await request.service.runs.code_of("", data)


@post("/waits", status_code=200)
async def waits(request: Call, data: JSONBody[wire.OfWaits]) -> list[KindWait]:
    """What the ready kinds of queues wait for, or one task."""
    caller, engine = _caller(request), request.service.engine
    _few(request, data.queues)
    for queue in data.queues:
        check_name(queue, field="queue")
    if not data.task:
        caller.require_some("queues:read:")
        found = await engine.waits(data.queues)
        return [one for one in found if caller.may(f"queues:read:{one.queue}")]
    caller.require_some("tasks:read:")
    [task] = await engine.get([data.task])
    if task is None:
        return []
    queue = task.definition.queue
    caller.require(f"tasks:read:{queue}")
    wait = await engine.wait_of(task)
    if wait is None:
        return []
    return [KindWait(queue=queue, kind=kind_of(task), why=wait.why, text=wait.text)]


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
    check_worker(data)
    await request.service.presences.put(caller, data)


@post("/remove_worker", status_code=200)
async def remove_worker(request: Call, data: JSONBody[wire.Which]) -> None:
    """Say that a worker has left."""
    caller = _caller(request)
    if not caller.may(ADMIN):
        caller.require_some("queues:claim:")
    for worker in data.ids[:1]:
        check_text(worker, field="worker")
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
    if not _caller(request).may(ADMIN_STORAGE):
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
    edit,
    get,
    history,
    find,
    events,
    events_end,
    attend,
    stats,
    queue_history,
    queues,
    configure_queue,
    delete_queue,
    policies,
    put_policy,
    delete_policy,
    types,
    publish_types,
    keep_code,
    waits,
    workers,
    put_worker,
    remove_worker,
    partitions,
    info,
]

router = Router("/api/v1/engine", route_handlers=HANDLERS, include_in_schema=False)
