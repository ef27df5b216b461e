"""A task as asynq's inspector lists it: `retried`, `last_err`, `next_process_at`."""

from andon.lifecycle.faces.fields import (
    Fields,
    Shown,
    decoded,
    given,
    iso,
    json_of,
    last_error,
    max_retries_in,
    maybe_iso,
    retries_used,
    robfig,
    time_in,
)
from andon.model.task import Task
from andon.model.words import State


def record(task: Task, state: str, history: list[Fields]) -> Fields:
    """The record as asynq's inspector gives it."""
    d, s, policy = task.definition, task.status, task.policy
    failures = [run.resolved_at for run in s.runs if run.error is not None]
    waits = task.state in (State.BLOCKED, State.SCHEDULED, State.RETRY)
    next_at = s.run_at if waits else None
    timeout = policy.timeout
    if timeout is None and s.deadline is None:
        timeout = policy.default_timeout
    return {
        "id": d.id,
        "queue": d.queue,
        "type": d.name,
        "payload": decoded(d.args),
        "headers": dict(d.headers),
        "state": state,
        "max_retry": policy.max_retries,
        "retried": retries_used(task),
        "last_err": last_error(task),
        "last_failed_at": maybe_iso(failures[-1]) if failures else None,
        "timeout": timeout,
        "deadline": maybe_iso(s.deadline),
        "group": d.group or "",
        "next_process_at": maybe_iso(s.submitted_at if task.state is State.PENDING else next_at),
        "retention": policy.retention.completed,
        "completed_at": maybe_iso(s.finished_at) if task.state is State.COMPLETED else None,
        "result": decoded(task.result),
    }


def entry_of(entry: Shown) -> Fields:
    """One entry of the history."""
    error = None if entry.error is None else entry.error.message
    return given(state=entry.name, at=iso(entry.at), last_err=error)


def schedule(shown: Fields) -> Fields:
    """A schedule as its inspector gives an entry of its scheduler."""
    task = shown["task"]
    return {
        "id": shown["name"],
        "spec": robfig(shown),
        "task_type": task["name"],
        "task_payload": task["args"],
        "enqueue_options": [
            f"Queue({json_of(task['queue'])})",
            f"MaxRetry({max_retries_in(task)})",
        ],
        "next_enqueue_at": shown["next_at"],
        "prev_enqueue_at": time_in(shown["last_id"]),
    }
