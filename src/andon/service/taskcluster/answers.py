"""Tasks in answers: their status, and rows of lists."""

from typing import Any

from andon.lifecycle.faces.taskcluster import priority_name, retries_left, runs_of
from andon.lifecycle.profiles import TASKCLUSTER
from andon.lifecycle.rendering import state_name
from andon.model.task import Task
from andon.service.taskcluster.document import Document, Kept, kept_of, shown
from andon.service.taskcluster.errors import not_found
from andon.service.taskcluster.times import written


def status_of(task: Task, kept: Kept | Document) -> dict[str, Any]:
    """The status of a task, as every route answers it; `kept`: its document, or the parts of it
    that answers need."""
    d, s = task.definition, task.status
    status: dict[str, Any] = {
        "taskId": d.id,
        "provisionerId": kept.provisioner_id,
        "workerType": kept.worker_type,
        "taskQueueId": d.queue,
        "schedulerId": kept.scheduler_id,
        "projectId": kept.project_id,
        "taskGroupId": d.group or d.id,
        "priority": priority_name(s.priority),
    }
    if s.deadline is not None:
        status["deadline"] = written(s.deadline)
    if s.expires_at is not None:
        status["expires"] = written(s.expires_at)
    status["retriesLeft"] = retries_left(task)
    status["state"] = state_name(TASKCLUSTER, task)
    status["runs"] = runs_of(task, _worker)
    return status


def _worker(name: str) -> dict[str, str]:
    """A worker by the two parts of its name."""
    group, worker_id = parts_of(name)
    return {"workerGroup": group, "workerId": worker_id}


def parts_of(worker: str) -> tuple[str, str]:
    """Worker group and worker id, of the name under which the engine knows a worker. One that is no
    worker of this face is its own group."""
    group, slash, worker_id = worker.partition("/")
    return (group, worker_id) if slash else (worker, worker)


def absent(task_id: str) -> Exception:
    """The error where there is no such task."""
    return not_found(f"Task {task_id} does not exist: it was never created, or has expired since.")


def task_and_status(task: Task) -> dict[str, Any] | None:
    """A row of a list of tasks; None for a record that is no task of this face."""
    kept = kept_of(task)
    return None if kept is None else {"task": shown(task), "status": status_of(task, kept)}
