"""A job as cbintel's API answers it, history included: its times are whole seconds."""

from andon.lifecycle.faces.fields import (
    Fields,
    Shown,
    cause_of,
    decoded,
    given,
    iso_seconds,
    newest_claim,
    progress_of,
    retries_used,
    words,
)
from andon.model.task import Task, TaskError
from andon.model.words import Reason

_END_FIELDS = {"COMPLETED": "completed_at", "FAILED": "failed_at", "CANCELLED": "cancelled_at"}


def record(task: Task, state: str, history: list[Fields]) -> Fields:
    """The record as cbintel's API answers it."""
    s, started = task.status, newest_claim(task)
    progress, message = progress_of(task)
    fields: Fields = {
        "job_id": task.id,
        "status": state,
        "progress": progress,
        "attempts": retries_used(task),
        "max_retries": task.policy.max_retries,
        "history": history,
        **given(message=message, started_at=started and iso_seconds(started)),
    }
    end, ended = _END_FIELDS.get(state), s.finished_at
    if end is not None and ended is not None:
        fields[end] = iso_seconds(ended)
        if started is not None:
            fields["duration_seconds"] = (ended - started) // 1000
    if state == "COMPLETED":
        fields["result"] = decoded(task.result)
    elif state == "FAILED":
        error = s.events[-1].error if s.events else s.last_error
        fields["error"] = _error(error, cause_of(task))
    return fields


def _error(error: TaskError | None, reason: Reason | None) -> str:
    if reason is Reason.TIMEOUT:
        return "Job execution timed out"
    return words(reason) if error is None else error.message


def entry_of(entry: Shown) -> Fields:
    """One entry of the history."""
    failed = entry.name == "FAILED"
    return given(
        status=entry.name,
        timestamp=iso_seconds(entry.at),
        worker=entry.worker,
        error=_error(entry.error, entry.reason) if failed else None,
        attempt=entry.attempt,
    )
