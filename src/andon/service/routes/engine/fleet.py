"""Queues, policies, task types, workers, and the store itself."""

from typing import Any

import msgspec
from litestar import post
from litestar.params import JSONBody

from andon.contract.isolation import left_out
from andon.engine.http import wire
from andon.engine.waiting import KindWait
from andon.lifecycle.admission import check_name, check_text
from andon.lifecycle.describing import check_type, check_worker
from andon.lifecycle.routing import kind_of
from andon.model.code import Code
from andon.model.errors import InvalidSubmission
from andon.model.fleet import QueueConfig, QueueHistory, QueueStats, StoreInfo, TypeInfo, WorkerInfo
from andon.model.minutes import MinuteHistory
from andon.service.calls import ADMIN_STORAGE, Call
from andon.service.decoding import Items
from andon.service.remote.presences import ADMIN
from andon.service.routes.engine.shared import Nothing, caller_of, check_few


@post("/stats", status_code=200)
async def stats(request: Call, data: JSONBody[Nothing]) -> list[QueueStats]:
    """Counts of the queues that the caller may see."""
    caller = caller_of(request)
    caller.require_some("queues:read:")
    found = await request.service.engine.stats()
    return [one for one in found if caller.may(f"queues:read:{one.queue}")]


@post("/queue_history", status_code=200)
async def queue_history(request: Call, data: JSONBody[wire.OfQueueHistory]) -> list[QueueHistory]:
    """The daily history of a queue, or of those that the caller may see."""
    caller, engine = caller_of(request), request.service.engine
    if data.queue is not None:
        caller.require(f"queues:read:{data.queue}")
        return await engine.queue_history(data.queue, data.days)
    caller.require_some("queues:read:")
    found = await engine.queue_history(days=data.days)
    return [one for one in found if caller.may(f"queues:read:{one.queue}")]


@post("/minutes", status_code=200)
async def minutes(request: Call, data: JSONBody[wire.OfMinutes]) -> MinuteHistory:
    """The last minutes of a queue, or of those that the caller may see; types are not
    restricted."""
    caller, engine = caller_of(request), request.service.engine
    if data.by_type:
        caller.require("queues:read:*")
        return await engine.minutes(data.name, data.minutes, by_type=True)
    if data.name is not None:
        caller.require(f"queues:read:{data.name}")
        return await engine.minutes(data.name, data.minutes)
    caller.require_some("queues:read:")
    found = await engine.minutes(minutes=data.minutes)
    seen = tuple(one for one in found.series if caller.may(f"queues:read:{one.name}"))
    return msgspec.structs.replace(found, series=seen)


@post("/queues", status_code=200)
async def queues(request: Call, data: JSONBody[Nothing]) -> list[QueueConfig]:
    """The queues that the caller may see or claim from."""
    caller = caller_of(request)
    found = await request.service.engine.queues()
    return [
        one
        for one in found
        if caller.may(f"queues:read:{one.name}") or caller.may(f"queues:claim:{one.name}")
    ]


@post("/configure_queue", status_code=200)
async def configure_queue(request: Call, data: JSONBody[wire.OfQueue]) -> QueueConfig:
    """Change a queue's settings."""
    caller_of(request).require(f"queues:manage:{data.name}")
    return await request.service.engine.configure_queue(data.name, data.changes)


@post("/delete_queue", status_code=200)
async def delete_queue(request: Call, data: JSONBody[wire.NamedQueue]) -> None:
    """Forget a queue that has no tasks."""
    caller_of(request).require(f"queues:manage:{data.name}")
    await request.service.engine.delete_queue(data.name)


@post("/policies", status_code=200)
async def policies(request: Call, data: JSONBody[Nothing]) -> dict[str, Any]:
    """The named retry policies."""
    caller_of(request).require("queues:read:*")
    return {**await request.service.engine.policies()}


@post("/put_policy", status_code=200)
async def put_policy(request: Call, data: JSONBody[wire.OfPolicy]) -> dict[str, Any]:
    """Set a named retry policy."""
    caller_of(request).require("queues:manage:*")
    return {**await request.service.engine.put_policy(data.name, data.options)}


@post("/delete_policy", status_code=200)
async def delete_policy(request: Call, data: JSONBody[wire.OfPolicy]) -> bool:
    """Delete a named retry policy."""
    caller_of(request).require("queues:manage:*")
    return await request.service.engine.delete_policy(data.name)


@post("/types", status_code=200)
async def types(request: Call, data: JSONBody[Nothing]) -> list[TypeInfo]:
    """The task types published."""
    caller_of(request)
    return await request.service.engine.types()


@post("/publish_types", status_code=200)
async def publish_types(request: Call, data: Items[wire.OfTypes]) -> None:
    """Publish task types; one that cannot be kept is left out, and the log says so."""
    caller_of(request).require("types:publish")
    check_few(request, data.types)
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
    caller_of(request).require_some("queues:claim:")
    await request.service.runs.code_of("", data)


@post("/waits", status_code=200)
async def waits(request: Call, data: JSONBody[wire.OfWaits]) -> list[KindWait]:
    """What the ready kinds of queues wait for, or one task."""
    caller, engine = caller_of(request), request.service.engine
    check_few(request, data.queues)
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
    return [
        KindWait(
            queue=queue, kind=kind_of(task.definition, task.policy), why=wait.why, text=wait.text
        )
    ]


@post("/workers", status_code=200)
async def workers(request: Call, data: JSONBody[Nothing]) -> list[WorkerInfo]:
    """Workers alive."""
    caller_of(request).require("workers:read")
    return await request.service.engine.workers()


@post("/put_worker", status_code=200)
async def put_worker(request: Call, data: JSONBody[WorkerInfo]) -> None:
    """Record that a worker is alive."""
    caller = caller_of(request)
    caller.require_some("queues:claim:")
    check_worker(data)
    await request.service.presences.put(caller, data)


@post("/remove_worker", status_code=200)
async def remove_worker(request: Call, data: JSONBody[wire.Which]) -> None:
    """Record that a worker has left."""
    caller = caller_of(request)
    if not caller.may(ADMIN):
        caller.require_some("queues:claim:")
    for worker in data.ids[:1]:
        check_text(worker, field="worker")
        await request.service.presences.remove(caller, worker)


@post("/partitions", status_code=200)
async def partitions(request: Call, data: JSONBody[Nothing]) -> int:
    """How many partitions claims go round; asked by every engine that opens, which learns the time
    with it, so nothing is counted for it."""
    caller_of(request)
    return await request.service.engine.partitions()


@post("/info", status_code=200)
async def info(request: Call, data: JSONBody[Nothing]) -> StoreInfo:
    """What the store is; where it is, for administrators only."""
    found = await request.service.engine.info()
    if not caller_of(request).may(ADMIN_STORAGE):
        found = msgspec.structs.replace(found, location="", settings={})
    return found
