"""A task as Jobbers lists it: `status`, `retry_attempt`, a timestamp per transition."""

from andon.lifecycle.faces.fields import (
    Fields,
    Shown,
    decoded,
    given,
    heartbeat_of,
    iso,
    last_error,
    maybe_iso,
    retries_used,
)
from andon.model.task import Task
from andon.model.words import State


def record(task: Task, state: str, history: list[Fields]) -> Fields:
    """The record as Jobbers' API gives it."""
    d, s = task.definition, task.status
    fields: Fields = {
        "id": d.id,
        "name": d.name,
        "version": d.version,
        "queue": d.queue,
        "parameters": decoded(d.args),
        "results": decoded(task.result) or {},
        "errors": [run.error.message for run in s.runs if run.error is not None],
        "status": state,
        "retry_attempt": retries_used(task),
        "submitted_at": maybe_iso(s.submitted_at),
        "started_at": maybe_iso(s.started_at),
        "retried_at": maybe_iso(s.retried_at),
        "heartbeat_at": maybe_iso(heartbeat_of(task)),
        "completed_at": maybe_iso(s.finished_at),
        "last_error": last_error(task) or None,
    }
    if task.state in (State.SCHEDULED, State.RETRY):
        fields["scheduled_at"] = maybe_iso(s.run_at)
    return fields


def entry_of(entry: Shown) -> Fields:
    """One entry of the history."""
    error = None if entry.error is None else entry.error.message
    return given(status=entry.name, timestamp=iso(entry.at), error=error)


_CONCURRENCY = {"allow": "always", "skip": "skip_if_running"}
"""Its words for the overlap rules that it has."""


def schedule(shown: Fields) -> Fields:
    """A schedule as its API gives a cron entry, of a graph of one task."""
    task = shown["task"]
    return {
        "id": shown["name"],
        "name": shown["name"],
        "cron_expr": "; ".join(shown["cron"]) or None,
        "dag_spec": {"name": task["name"], "queue": task["queue"], "parameters": task["args"]},
        "enabled": shown["paused_at"] is None,
        "concurrency_policy": _CONCURRENCY.get(shown["overlap"], shown["overlap"]),
        "created_at": shown["created_at"],
    }
