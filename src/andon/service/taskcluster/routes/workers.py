"""Workers, known by their claims or because a client declared them, and their quarantine."""

from typing import Any

from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.errors import ApiError
from andon.service.taskcluster.inputs import Declared, QuarantineUntil
from andon.service.taskcluster.paging import token_for
from andon.service.taskcluster.registered import (
    each,
    first,
    is_worker,
    worker_document,
    worker_row,
)
from andon.service.taskcluster.table import route

_TYPE = "/provisioners/<provisionerId>/worker-types/<workerType>"
_WORKER = f"{_TYPE}/workers/<workerGroup>/<workerId>"
_NAME = "<provisionerId>/<workerType>/<workerGroup>/<workerId>"
_QUARANTINED = {None: None, "true": True, "false": False}


@route(
    "listWorkers",
    "GET",
    f"{_TYPE}/workers",
    paged=True,
    query=("quarantined",),
    needs="queue:list-workers:<provisionerId>/<workerType>",
)
async def list_workers(asked: Asked, _: None) -> dict[str, Any]:
    """The workers of a queue by name; only those in quarantine, or only the others, if asked."""
    said = asked.query.get("quarantined")
    if said not in _QUARANTINED:
        raise ApiError(
            "InvalidRequestArguments", f"quarantined is true or false, not {str(said)[:100]!r}."
        )
    queue, most = _queue(asked), asked.rows()
    listed = f"workers {said} {queue}"

    async def read(place: str, limit: int) -> Any:
        return await asked.engine.claiming_workers(
            queue, place, limit, in_quarantine=_QUARANTINED[said]
        )

    workers = (one async for one in each(read, asked.place(listed), most + 1) if is_worker(one))
    found, more = await first(workers, most)
    answer: dict[str, Any] = {"workers": [worker_row(one) for one in found]}
    if more:
        answer["continuationToken"] = token_for(listed, found[-1].worker)
    return answer


@route("getWorker", "GET", _WORKER, needs=f"queue:get-worker:{_NAME}")
async def get_worker(asked: Asked, _: None) -> dict[str, Any]:
    """One worker, and the last 20 runs that it has claimed."""
    return worker_document(await asked.engine.claiming_worker(_queue(asked), _worker(asked)))


@route(
    "quarantineWorker",
    "PUT",
    _WORKER,
    takes=QuarantineUntil,
    needs=f"queue:quarantine-worker:{_NAME}",
)
async def quarantine_worker(asked: Asked, data: QuarantineUntil) -> dict[str, Any]:
    """Give a worker nothing until that time; one that has passed lifts the quarantine."""
    held = await asked.engine.quarantine_worker(
        _queue(asked),
        _worker(asked),
        data.quarantine_until.ms,
        by=asked.caller.client_id,
        info=data.quarantine_info,
    )
    return worker_document(held)


@route(
    "declareWorker",
    "PUT",
    f"{_TYPE}/<workerGroup>/<workerId>",
    takes=Declared,
    needs=f"queue:declare-worker:{_NAME}#expires",
)
async def declare_worker(asked: Asked, data: Declared) -> dict[str, Any]:
    """Say that there is such a worker, before it claims; its queue is there with it."""
    registry = asked.engine.registry
    return worker_document(await registry.declare(_queue(asked), _worker(asked), data.expires.ms))


def _queue(asked: Asked) -> str:
    return "{provisionerId}/{workerType}".format_map(asked.params)


def _worker(asked: Asked) -> str:
    return "{workerGroup}/{workerId}".format_map(asked.params)


ROUTES = [list_workers, get_worker, quarantine_worker, declare_worker]
