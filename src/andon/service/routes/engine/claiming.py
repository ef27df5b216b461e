"""Workers that are known by their claims alone."""

from litestar import post
from litestar.params import JSONBody

from andon.engine.http import wire
from andon.model.registry import ClaimedQueue, ClaimingWorker
from andon.service.calls import Call
from andon.service.routes.engine.shared import caller_of


@post("/claiming_workers", status_code=200)
async def claiming_workers(
    request: Call, data: JSONBody[wire.OfClaiming]
) -> tuple[list[ClaimingWorker], str]:
    """A page of the workers that claim from a queue."""
    caller_of(request).require(f"queues:read:{data.queue}")
    return await request.service.engine.claiming_workers(
        data.queue, data.cursor, data.limit, in_quarantine=data.in_quarantine
    )


@post("/claiming_worker", status_code=200)
async def claiming_worker(request: Call, data: JSONBody[wire.OfClaiming]) -> ClaimingWorker:
    """One of them."""
    caller_of(request).require(f"queues:read:{data.queue}")
    return await request.service.engine.claiming_worker(data.queue, data.worker)


@post("/claimed_queues", status_code=200)
async def claimed_queues(
    request: Call, data: JSONBody[wire.OfClaiming]
) -> tuple[list[ClaimedQueue], str]:
    """A page of the queues that such workers claim from."""
    caller_of(request).require("queues:read:*")
    return await request.service.engine.claimed_queues(data.cursor, data.limit)


@post("/quarantine_worker", status_code=200)
async def quarantine_worker(request: Call, data: JSONBody[wire.OfClaiming]) -> ClaimingWorker:
    """Give a worker no tasks of a queue for a while."""
    caller_of(request).require(f"queues:manage:{data.queue}")
    return await request.service.engine.quarantine_worker(
        data.queue, data.worker, data.until, by=data.by, info=data.info
    )
