"""Workers: who they are, and taking leave of one that is gone for good."""

from collections.abc import Awaitable, Sequence
from typing import Any

import msgspec
from litestar import Router, get, post
from litestar.params import JSONBody

from andon.engine.base import ActionResult
from andon.lifecycle.describing import check_worker_id
from andon.lifecycle.profiles import PROFILES
from andon.service.acting import act_on_many
from andon.service.answers import ActedOnMany
from andon.service.bodies import RemovedWorker, Select, Which
from andon.service.calls import Call
from andon.service.lines import Lines, listed
from andon.service.remote.presences import ADMIN


@get("/", summary="List workers")
async def list_workers(request: Call) -> list[dict[str, Any]] | Lines:
    """Workers heard of within the last minute. With `Accept: application/x-ndjson` one a line."""
    request.need("workers:read")
    workers = await request.service.engine.workers()
    return listed(request, [msgspec.structs.asdict(worker) for worker in workers])


@post("/remove", status_code=200, summary="Remove a worker")
async def remove(request: Call, data: JSONBody[RemovedWorker]) -> ActedOnMany:
    """End the runs of a worker that is gone for good, without waiting until their leases run out.

    Each run ends as `worker-shutdown`, and its task is tried again while its budget lasts. The
    worker is listed no more. One that still lives can write nothing of these runs, goes on
    claiming, and is listed again. In one request at most as many runs end as the service allows
    (10,000 by default): repeat until none is found.
    """
    request.need(ADMIN)
    check_worker_id(data.worker)
    engine = request.service.engine
    which = Which(filter=Select(worker=data.worker), dry_run=data.dry_run)

    def end(ids: Sequence[str]) -> Awaitable[list[ActionResult]]:
        return engine.end_runs(data.worker, ids)

    done = await act_on_many(request, which, PROFILES["native"], "tasks:change", end)
    if not (data.dry_run or done.refused):
        await engine.remove_worker(data.worker)
    return done


router = Router("/api/v1/workers", route_handlers=[list_workers, remove], tags=["workers"])
