"""Jobs as cbintel's API describes them, over the same engine.

A job is a task. Options that a submitter leaves out have the page's defaults, whatever profile the
application runs under, unless the task type or its queue sets them.
"""

import secrets
from typing import TYPE_CHECKING, Any

from andon.engine.base import Submission
from andon.lifecycle.profiles import CBINTEL
from andon.lifecycle.rendering import as_seen, state_name
from andon.model.errors import AndonError, InvalidSubmission, InvalidTransition, TaskNotFound
from andon.model.headers import SIGNATURE_HEADER
from andon.model.task import Task
from andon.model.words import TERMINAL, State
from andon.service.bodies import NewJob
from andon.service.submitting import check_args
from andon.service.waiting import still_allowed, unless, until_refused
from andon.worker.calls import MalformedPayload

if TYPE_CHECKING:
    from andon.engine.local import LocalEngine
    from andon.service.calls import Call
    from andon.service.service import Service

_TOLD_S = 1.0
"""How much longer than its `cancel_grace` a run may take to be reported cancelled."""


def new_job_id() -> str:
    """An id as the page has them (docs/rulings.md, R27)."""
    return f"job_{secrets.token_hex(12)}"


def submission_of(service: "Service", job: NewJob) -> Submission:
    """The submission of a job; arguments that do not fit are recorded, not refused
    (docs/rulings.md, R25)."""
    known = service.app.registry.get(job.type)
    params = bytes(job.params)
    check_args(params)
    invalid = ""
    if not params.lstrip().startswith(b"{"):
        invalid = "params must be an object."
    elif known is not None:
        try:
            known.codec.decode(params)
        except MalformedPayload as error:
            invalid = str(error)
    named = service.app.queue_elsewhere if known is None else known.queue
    queue = named or service.engine.resolver.queue_of(Submission(id="", name=job.type))
    if job.queue not in (None, queue):
        raise InvalidSubmission(
            f"Jobs of type {job.type!r} go to queue {queue!r} here, not to {job.queue!r}. "
            "Sign that queue, or leave it out.",
            field="queue",
        )
    return Submission(
        id=new_job_id() if job.job_id is None else job.job_id,
        name=job.type,
        queue=named if job.signature is None else queue,
        args=params,
        headers={} if job.signature is None else {SIGNATURE_HEADER: job.signature},
        invalid=invalid,
        options=_options(service, job, queue),
    )


def check_signed(job: NewJob) -> None:
    """Raise `InvalidSubmission` for a signature of a job whose id the service would choose."""
    if job.signature is not None and job.job_id is None:
        raise InvalidSubmission(
            "A job is signed with its id: send the job_id that was signed.", field="job_id"
        )


_SENT_AS = {"task": "type", "id": "job_id", "args": "params"}
"""Fields that the page calls otherwise than submissions do."""


def as_sent(error: AndonError) -> AndonError:
    """The error, with its field as the page calls it."""
    if isinstance(error, InvalidSubmission):
        error.field = _SENT_AS.get(error.field, error.field)
    return error


def _options(service: "Service", job: NewJob, queue: str) -> dict[str, Any]:
    resolver = service.engine.resolver
    options: dict[str, Any] = {} if resolver.profile is CBINTEL else dict(CBINTEL.defaults)
    options |= service.job_settings.options
    stronger = (resolver.type_layer(job.type, 0) or {}).keys() | resolver.queue(queue).policy.keys()
    options = {name: value for name, value in options.items() if name not in stronger}
    if job.max_retries is not None:
        options["max_retries"] = job.max_retries
    if job.retry_on is not None:
        options["retry_on"] = tuple(job.retry_on)
    if job.no_retry_on is not None:
        options["no_retry_on"] = tuple(job.no_retry_on)
    return options


async def job_of(engine: "LocalEngine", task: Task) -> dict[str, Any]:
    """The job as the page shows it, with its whole history."""
    events = (await engine.history(task.id)).events
    return as_seen(CBINTEL, task, events or None)


async def cancel_job(request: "Call", job_id: str) -> dict[str, Any]:
    """Cancel a job and wait until it is: at most its `cancel_grace`, then by force
    (docs/rulings.md, R7).

    Raises `InvalidTransition` when it has ended otherwise, also while it was being cancelled, and
    `AuthenticationFailed` when the caller's token goes bad before force was needed.
    """
    engine = request.service.engine
    [task] = await engine.get([job_id])
    if task is None:
        raise TaskNotFound(job_id)
    [acted] = await engine.cancel([job_id])
    if acted.error is not None:
        raise acted.error
    ended = await _ended(request, task)
    if ended is None:
        [acted] = await engine.cancel([job_id], force=True)
        if acted.error is not None:
            raise acted.error
        ended = await _ended(request, task)
    if ended is None:
        raise TaskNotFound(job_id)
    if ended.state is not State.CANCELLED:
        status = state_name(CBINTEL, ended)
        raise InvalidTransition(job_id, "cancel", status, "It ended before it could be cancelled.")
    shown = as_seen(CBINTEL, ended)
    return {name: shown[name] for name in ("job_id", "status", "cancelled_at")}


async def _ended(request: "Call", task: Task) -> Task | None:
    engine = request.service.engine
    [now] = await engine.get([task.id])
    if now is not None and now.state in TERMINAL:
        return now
    patience = task.policy.cancel_grace + _TOLD_S
    ended = await unless(engine.wait_end(task.id), until_refused(request), timeout=patience)
    await still_allowed(request)
    return ended
