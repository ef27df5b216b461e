"""Queues: what waits where, and under which limits."""

from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from litestar import Router, delete, get, patch, post
from litestar.params import FromPath, JSONBody, QueryParameter

from andon.engine.emptying import Emptied, delete_queue, purge_queue
from andon.engine.fleet import known_queues, queue_document, settings_of
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.model.fleet import QueueConfig, QueueHistory, QueueStats
from andon.service.answers import Pending, QueueEmptied
from andon.service.bodies import NewQueue, Nothing, Purging, QueueChanges
from andon.service.calls import Call
from andon.service.lines import Lines, listed
from andon.service.parameters import Days
from andon.service.problems import Problem, invalid, not_found


async def _known(request: Call, name: str) -> tuple[QueueConfig, QueueStats]:
    for config, stats in await known_queues(request.service.engine):
        if config.name == name:
            return config, stats
    raise not_found(
        f"There is no queue {name[:128]!r}. "
        "A queue is made by its first task, or by configuring it."
    )


async def _document(request: Call, name: str) -> dict[str, Any]:
    known = await _known(request, name)
    return queue_document(*known, await request.service.engine.waits([name]))


@get("/", summary="List queues")
async def list_queues(request: Call) -> list[dict[str, Any]] | Lines:
    """Every queue with its settings, its number of tasks in each state, and what keeps the kinds of
    tasks from starting that it has ready. With `Accept: application/x-ndjson` one a line."""
    request.need("queues:read:*")
    engine = request.service.engine
    waits = await engine.waits()
    rows = await known_queues(engine)
    return listed(request, [queue_document(*row, waits) for row in rows])


@get("/{name:str}", summary="Get a queue")
async def get_queue(request: Call, name: FromPath[str]) -> dict[str, Any]:
    """One queue. A slash in its name is written %2F."""
    request.need(f"queues:read:{name}")
    return await _document(request, name)


@get("/{name:str}/pending", summary="Count what is pending")
async def pending(request: Call, name: FromPath[str]) -> Pending:
    """The figures for an autoscaler. A queue that was never used has nothing pending."""
    request.need(f"queues:read:{name}")
    engine = request.service.engine
    rows = {config.name: (config, stats) for config, stats in await known_queues(engine)}
    config, stats = rows.get(name) or (QueueConfig(name=name), QueueStats(queue=name, counts={}))
    oldest = stats.oldest_pending_at
    return Pending(
        queue=name,
        pending=stats.counts.get("pending", 0),
        active=stats.counts.get("active", 0),
        parked=stats.parked,
        oldest_age=0.0 if oldest is None else max(engine.now() - oldest, 0) / 1000,
        paused=config.paused,
    )


@get("/{name:str}/history", summary="Get the daily history of a queue")
async def queue_history(request: Call, name: FromPath[str], days: Days = 7) -> QueueHistory:
    """What was submitted, processed and failed on each of the last days: UTC days, the newest
    first, none left out, today among them. Counted as it happens, and kept for 90 days."""
    request.need(f"queues:read:{name}")
    await _known(request, name)
    [found] = await request.service.engine.queue_history(name, days)
    return found


@post("/", status_code=201, summary="Make a queue")
async def create(request: Call, data: JSONBody[NewQueue]) -> dict[str, Any]:
    """Make a queue, with its settings. 200 when there is one with just these settings; 409 when
    there is another of that name. A queue is also made by its first task."""
    name = data.name
    request.need(f"queues:manage:{name}")
    changes = _changes(data)
    del changes["name"]
    engine = request.service.engine
    known = {config.name: config for config, _ in await known_queues(engine)}
    there = known.get(name)
    if there is not None:
        settings = settings_of(there)
        if any(settings[key] != value for key, value in changes.items()):
            raise Problem(
                409,
                "queue-exists",
                "Queue exists",
                f"There is a queue {name!r} with other settings. Change them with "
                f"PATCH /api/v1/queues/{quote(name, safe='')}.",
                field="name",
            )
        request.status = 200
        return await _document(request, name)
    await _configure(request, name, changes)
    request.made(f"queues/{quote(name, safe='')}")
    return await _document(request, name)


@patch("/{name:str}", summary="Configure a queue")
async def configure(
    request: Call, name: FromPath[str], data: JSONBody[QueueChanges]
) -> dict[str, Any]:
    """Change settings of a queue; make it if there is none. Workers follow within seconds."""
    request.need(f"queues:manage:{name}")
    await _configure(request, name, _changes(data))
    return await _document(request, name)


def _changes(data: QueueChanges) -> dict[str, Any]:
    given = msgspec.structs.asdict(data)
    return {key: value for key, value in given.items() if value is not msgspec.UNSET}


async def _configure(request: Call, name: str, changes: dict[str, Any]) -> None:
    try:
        await request.service.engine.configure_queue(name, changes)
    except InvalidSubmission as error:
        field = "name" if error.field == "queue" else f"policy.{error.field}"
        raise invalid(str(error), field=field) from error
    except ConfigurationError as error:
        at_fault = next((key for key in changes if key in str(error)), "")
        raise invalid(str(error), field=at_fault) from error


@post("/{name:str}/purge", status_code=200, summary="Purge a queue")
async def purge(request: Call, name: FromPath[str], data: JSONBody[Purging]) -> QueueEmptied:
    """Cancel and remove the tasks that wait in it. The queue, its settings and what has ended stay,
    and so does what runs, unless `force` is given.

    At most as many as one request may change (10,000 by default): repeat while `more` is true.
    """
    await _may_empty(request, name, cancels=True)
    service = request.service
    emptied = await purge_queue(
        service.engine, name, force=data.force, most=service.settings.max_bulk
    )
    return _told(name, emptied, deleted=False)


@delete("/{name:str}", status_code=200, summary="Delete a queue")
async def delete_one(
    request: Call,
    name: FromPath[str],
    force: Annotated[
        bool, QueryParameter(description="Its live tasks too: they are cancelled and removed.")
    ] = False,
) -> QueueEmptied:
    """Delete a queue: its settings, and the records of what has ended in it.

    409 while it has live tasks, or more tasks than one request may remove (10,000 by default; those
    are gone then, so repeat it). A task that enters it later makes it a queue again.
    """
    request.need(f"queues:manage:{name}")
    await _may_empty(request, name, cancels=force)
    service = request.service
    emptied = await delete_queue(service.engine, name, force=force, most=service.settings.max_bulk)
    return _told(name, emptied, deleted=True)


async def _may_empty(request: Call, name: str, *, cancels: bool) -> None:
    """Raise unless there is such a queue, and the caller may remove its tasks."""
    request.need(f"tasks:change:{name}")
    if cancels:
        request.need(f"tasks:cancel:{name}")
    await _known(request, name)


def _told(name: str, emptied: Emptied, *, deleted: bool) -> QueueEmptied:
    return QueueEmptied(name, emptied.removed, emptied.refused, emptied.more, deleted)


@post("/{name:str}/pause", status_code=200, summary="Pause a queue")
async def pause(request: Call, name: FromPath[str], data: JSONBody[Nothing]) -> dict[str, Any]:
    """Claim nothing from it; what runs goes on, and timers too."""
    return await _set_paused(request, name, paused=True)


@post("/{name:str}/resume", status_code=200, summary="Resume a queue")
async def resume(request: Call, name: FromPath[str], data: JSONBody[Nothing]) -> dict[str, Any]:
    """Claim from it again."""
    return await _set_paused(request, name, paused=False)


async def _set_paused(request: Call, name: str, *, paused: bool) -> dict[str, Any]:
    request.need(f"queues:manage:{name}")
    await _known(request, name)
    await request.service.engine.configure_queue(name, {"paused": paused})
    return await _document(request, name)


router = Router(
    "/api/v1/queues",
    route_handlers=[
        list_queues,
        create,
        get_queue,
        pending,
        queue_history,
        configure,
        pause,
        resume,
        purge,
        delete_one,
    ],
    tags=["queues"],
)
