"""Queues: what waits where, and under which limits."""

from typing import Any

import msgspec
from litestar import Router, get, patch, post
from litestar.params import FromPath, JSONBody

from andon.engine.fleet import known_queues, queue_document
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.model.fleet import QueueConfig, QueueHistory, QueueStats
from andon.service.answers import Pending
from andon.service.bodies import Nothing, QueueChanges
from andon.service.calls import Call
from andon.service.parameters import Days
from andon.service.problems import invalid, not_found


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
async def list_queues(request: Call) -> list[dict[str, Any]]:
    """Every queue with its settings, its number of tasks in each state, and what keeps the kinds of
    tasks from starting that it has ready."""
    request.need("queues:read:*")
    engine = request.service.engine
    waits = await engine.waits()
    return [queue_document(*row, waits) for row in await known_queues(engine)]


@get("/{name:str}", summary="Get a queue")
async def get_queue(request: Call, name: FromPath[str]) -> dict[str, Any]:
    """One queue. A slash in its name is written %2F."""
    request.need(f"queues:read:{name}")
    return await _document(request, name)


@get("/{name:str}/pending", summary="Count what is pending")
async def pending(request: Call, name: FromPath[str]) -> Pending:
    """What an autoscaler wants to know. A queue that nobody has used has nothing pending."""
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


@patch("/{name:str}", summary="Configure a queue")
async def configure(
    request: Call, name: FromPath[str], data: JSONBody[QueueChanges]
) -> dict[str, Any]:
    """Change settings of a queue; make it if there is none. Workers follow within seconds."""
    request.need(f"queues:manage:{name}")
    given = msgspec.structs.asdict(data)
    changes = {key: value for key, value in given.items() if value is not msgspec.UNSET}
    try:
        await request.service.engine.configure_queue(name, changes)
    except InvalidSubmission as error:
        field = "name" if error.field == "queue" else f"policy.{error.field}"
        raise invalid(str(error), field=field) from error
    except ConfigurationError as error:
        at_fault = next((key for key in changes if key in str(error)), "")
        raise invalid(str(error), field=at_fault) from error
    return await _document(request, name)


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
    route_handlers=[list_queues, get_queue, pending, queue_history, configure, pause, resume],
    tags=["queues"],
)
