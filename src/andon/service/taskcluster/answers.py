"""What answers say of tasks: their status, and the lists that it stands in."""

from typing import Any

from andon.lifecycle.faces.taskcluster import record
from andon.lifecycle.profiles import TASKCLUSTER
from andon.lifecycle.rendering import state_name
from andon.model.task import Task
from andon.service.taskcluster.document import Document, Kept, kept_of, shown
from andon.service.taskcluster.errors import not_found


def status_of(task: Task, kept: Kept | Document) -> dict[str, Any]:
    """The status of a task, as every route answers it; `kept`: its document, or what answers need
    of that."""
    fields = record(task, state_name(TASKCLUSTER, task), [])
    status: dict[str, Any] = {
        "taskId": fields.pop("taskId"),
        "provisionerId": kept.provisioner_id,
        "workerType": kept.worker_type,
        "taskQueueId": fields.pop("taskQueueId"),
        "schedulerId": kept.scheduler_id,
        "projectId": kept.project_id,
        **fields,
    }
    status["runs"] = [_run(run) for run in status["runs"]]
    return status


def _run(run: dict[str, Any]) -> dict[str, Any]:
    """A run with the two parts of its worker's name."""
    worker = run.pop("workerId", None)
    if worker is None:
        return run
    group, worker_id = parts_of(worker)
    return {**run, "workerGroup": group, "workerId": worker_id}


def parts_of(worker: str) -> tuple[str, str]:
    """Worker group and worker id, of the name under which the engine knows a worker. One that is no
    worker of this face is its own group."""
    group, slash, worker_id = worker.partition("/")
    return (group, worker_id) if slash else (worker, worker)


def absent(task_id: str) -> Exception:
    """What is answered where there is no such task."""
    return not_found(f"Task {task_id} does not exist: it was never created, or has expired since.")


def task_and_status(task: Task) -> dict[str, Any] | None:
    """A row of a list of tasks; None for a record that is no task of this face."""
    kept = kept_of(task)
    return None if kept is None else {"task": shown(task), "status": status_of(task, kept)}
