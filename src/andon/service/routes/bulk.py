"""Many at once: submit many tasks, do the same to many."""

from litestar import Router, post

from andon.service.acting import act_on_many, doing, scope_of
from andon.service.answers import ActedOnMany, BulkAccepted
from andon.service.bodies import Act, Bulk
from andon.service.calls import As, Call, profile_named
from andon.service.decoding import Items
from andon.service.idempotency import IdempotencyKey
from andon.service.submitting import submit_many


@post("/bulk", status_code=200, summary="Submit many tasks")
async def submit_bulk(
    request: Call, data: Items[Bulk], *, idempotency_key: IdempotencyKey = None
) -> BulkAccepted:
    """Store many tasks in few round trips; they may depend on one another.

    Each stands alone: some may be refused while the others are accepted. The answer has one entry
    per task, in the order given. With an Idempotency-Key an entry without an `id` is known by its
    place, so that the whole request may be repeated.
    """
    return await submit_many(request, data.tasks, idempotency_key)


@post("/acts", status_code=200, summary="Act on many tasks")
async def act(request: Call, data: Items[Act], seen_as: As = None) -> ActedOnMany:
    """Do the same to many tasks, named by id or by filter.

    Each stands alone. `dry_run` only says which tasks it would be. By filter at most `limit` tasks
    are acted on, and never more than the service allows in one request (10,000 by default):
    repeat until none is found.
    """
    do = doing(request.service.engine, data)
    profile = profile_named(seen_as)
    return await act_on_many(request, data, profile, scope_of(data.action), do)


router = Router("/api/v1", route_handlers=[submit_bulk, act], tags=["tasks"])
