"""Jobs, exactly as cbintel's page shows its API."""

from typing import Any

from litestar import Router, delete, get, post
from litestar.params import FromPath, JSONBody

from andon.model.errors import InvalidSubmission, TaskConflict, TaskNotFound
from andon.service.bodies import NewJob
from andon.service.calls import Call
from andon.service.idempotency import REPLAYED, IdempotencyKey, id_of, not_both, reused
from andon.service.jobs import as_sent, cancel_job, check_signed, job_of, submission_of
from andon.service.parameters import Wait
from andon.service.waiting import readable


@post("/", status_code=201, summary="Submit a job")
async def submit(
    request: Call, data: JSONBody[NewJob], *, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    """Store a job.

    One whose params its handler cannot take is recorded as FAILED and answered with 422 and the
    job, and so is a repeat of it. 200 when the same job was there already, by its own `job_id`; a
    repeat with the same Idempotency-Key is answered 201 again, with `Idempotent-Replayed: true`.
    """
    service = request.service
    check_signed(data)
    if idempotency_key is not None:
        if data.job_id is not None:
            raise not_both()
        data.job_id = f"job_{id_of(request, 'jobs', idempotency_key)}"
    try:
        submission = submission_of(service, data)
    except InvalidSubmission as error:
        raise as_sent(error) from None
    request.need_to_submit(submission)
    [outcome] = await service.engine.submit([submission])
    if outcome.error is not None and not outcome.is_recorded:
        if idempotency_key is not None and isinstance(outcome.error, TaskConflict):
            raise reused()
        raise as_sent(outcome.error)
    if outcome.error is not None:
        request.status = 422
        if not outcome.created and idempotency_key is not None:
            request.add_header(REPLAYED, "true")
    elif outcome.created or idempotency_key is not None:
        request.made(f"jobs/{outcome.id}")
        if not outcome.created:
            request.add_header(REPLAYED, "true")
    else:
        request.status = 200
    [task] = await service.engine.get([outcome.id])
    if task is None:
        raise as_sent(outcome.error or TaskNotFound(outcome.id))
    return await job_of(service.engine, task)


@get("/{job_id:str}", summary="Get a job")
async def get_job(
    request: Call,
    job_id: FromPath[str],
    wait: Wait = 0.0,
) -> dict[str, Any]:
    """A job with its status, progress, result or error, and history."""
    engine = request.service.engine
    task = await readable(request, job_id, wait)
    return await job_of(engine, task)


@delete("/{job_id:str}", status_code=200, summary="Cancel a job")
async def cancel(request: Call, job_id: FromPath[str]) -> dict[str, Any]:
    """Cancel a job and say so once it is: a running one has 10 s to stop, then it is forced.

    409 when it has ended otherwise.
    """
    engine = request.service.engine
    [task] = await engine.get([job_id])
    if task is None:
        raise TaskNotFound(job_id)
    request.need(f"tasks:cancel:{task.definition.queue}")
    return await cancel_job(request, job_id)


router = Router("/api/v1/jobs", route_handlers=[submit, get_job, cancel], tags=["jobs"])
