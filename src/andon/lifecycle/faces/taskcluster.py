"""A task as Taskcluster's queue answers its status: `runs`, `retriesLeft`, reasons."""

from collections.abc import Callable

from andon.lifecycle.admission import PRIORITY_NAMES
from andon.lifecycle.faces.fields import Fields, Shown, given, iso, maybe_iso, retries_used
from andon.model.task import Run, Task
from andon.model.words import TERMINAL, Reason, State

_WITHOUT_RUN = frozenset({State.BLOCKED, State.SCHEDULED, State.RETRY})

RESOLVED: dict[Reason, str] = {
    Reason.SUCCESS: "completed",
    Reason.LEASE_EXPIRED: "claim-expired",
    Reason.HEARTBEAT_TIMEOUT: "claim-expired",
    Reason.WORKER_SHUTDOWN: "worker-shutdown",
    Reason.RELEASED: "worker-shutdown",
    Reason.INTERMITTENT_TASK: "intermittent-task",
    Reason.SNOOZED: "intermittent-task",
    Reason.MALFORMED_PAYLOAD: "malformed-payload",
    Reason.SIGNATURE_REFUSED: "malformed-payload",
    Reason.RESOURCE_UNAVAILABLE: "resource-unavailable",
    Reason.UNKNOWN_TASK: "resource-unavailable",
    Reason.INTERNAL_ERROR: "internal-error",
    Reason.UNDECODABLE: "internal-error",
    Reason.DEADLINE_EXCEEDED: "deadline-exceeded",
    Reason.QUEUE_TIMEOUT: "deadline-exceeded",
    Reason.CANCEL_REQUESTED: "canceled",
    Reason.CANCEL_FORCED: "canceled",
    Reason.HANDLER_ABANDONED: "canceled",
    Reason.HANDLER_KILLED: "canceled",
    Reason.QUEUE_FULL: "canceled",
    Reason.ARCHIVED_BY_HAND: "canceled",
    Reason.EDITED: "superseded",
    Reason.RESCHEDULED: "superseded",
}
"""Taskcluster's `reasonResolved`; a reason that is missing is an ordinary `failed`."""

_PRIORITIES = {number: name for name, number in PRIORITY_NAMES.items()}
_LOWEST, _HIGHEST = min(_PRIORITIES), max(_PRIORITIES)


def record(task: Task, state: str, history: list[Fields]) -> Fields:
    """The record as the queue's status answer gives it."""
    d, s = task.definition, task.status
    provisioner, slash, worker_type = d.queue.partition("/")
    return {
        "taskId": d.id,
        **({"provisionerId": provisioner, "workerType": worker_type} if slash else {}),
        "taskQueueId": d.queue,
        "taskGroupId": d.group or d.id,
        "priority": priority_name(s.priority),
        **given(
            deadline=maybe_iso(s.deadline),
            expires=maybe_iso(s.expires_at),
        ),
        "retriesLeft": retries_left(task),
        "state": state,
        "runs": runs_of(task, _whole),
    }


def _whole(worker: str) -> Fields:
    """A worker whose name has no parts."""
    return {"workerId": worker}


def priority_name(priority: int) -> str:
    """The name of a priority; of the nearest that has one."""
    return _PRIORITIES[max(_LOWEST, min(priority, _HIGHEST))]


def retries_left(task: Task) -> int:
    """How often it will be tried again at the most."""
    policy, runs = task.policy, task.status.runs
    left = policy.max_retries - retries_used(task)
    if policy.max_runs is not None and runs:
        left = min(left, policy.max_runs - 1 - runs[-1].number)
    return max(left, 0)


def runs_of(task: Task, worker_of: Callable[[str], Fields]) -> list[Fields]:
    """The runs, and the one that Taskcluster has where Andon has none. `worker_of` says how a
    run's worker is shown.

    A delay before a retry is a pending run there, and a task that ends without a run in hand gets
    one to end with. Where the policy does not say that it gets one here (`ends_as_run`), such a run
    is only shown: if the task is rerun, its number is taken anew.
    """
    s = task.status
    runs: list[Fields] = []
    before: Run | None = None
    for run in s.runs:
        runs.append(_run(run, before, task, worker_of))
        before = run
    number = 0 if before is None else before.number + 1
    if before is not None and task.state in (State.RETRY, State.SCHEDULED):
        runs.append(
            {
                "runId": number,
                "state": "pending",
                "reasonCreated": _created(Reason.RETRY, number, before),
                "scheduled": iso(before.resolved_at or s.created_at),
            }
        )
    elif (
        task.state in TERMINAL and task.state is not State.UNREACHABLE and _ended_without_run(task)
    ):
        ended = s.finished_at or s.created_at
        resolution = _resolution(s.reason)
        runs.append(
            {
                "runId": number,
                "state": _run_state(resolution),
                "reasonCreated": "exception",
                "reasonResolved": resolution,
                "scheduled": iso(ended),
                "resolved": iso(ended),
            }
        )
    return runs


def _ended_without_run(task: Task) -> bool:
    s = task.status
    if s.runs and _opened_by_its_end(s.runs[-1]):
        return False
    return not s.runs or (bool(s.events) and s.events[-1].source in _WITHOUT_RUN)


def _opened_by_its_end(run: Run) -> bool:
    """Whether the task got this run only to end with (docs/rulings.md, R42)."""
    return run.claimed_at is None and run.created_reason is run.resolved_reason


def _run(run: Run, before: Run | None, task: Task, worker_of: Callable[[str], Fields]) -> Fields:
    lease, is_by_end = run.lease_until, _opened_by_its_end(run)
    created = "exception" if is_by_end else _created(run.created_reason, run.number, before)
    shown: Fields = {
        "runId": run.number,
        "state": "pending" if run.claimed_at is None else "running",
        "reasonCreated": created,
    }
    if run.resolved_at is not None:
        shown["reasonResolved"] = resolution = _resolution(run.resolved_reason)
        shown["state"] = _run_state(resolution)
    elif task.cell is not None and run.claimed_at is not None:
        lease = task.cell.lease_until
    if run.worker:
        shown |= worker_of(run.worker)
    if lease is not None:
        shown["takenUntil"] = iso(lease)
    shown["scheduled"] = iso(run.scheduled_at)
    if run.claimed_at is not None:
        shown["started"] = iso(run.claimed_at)
    if run.resolved_at is not None:
        shown["resolved"] = iso(run.resolved_at)
    return shown


def _created(reason: Reason, number: int, before: Run | None) -> str:
    if reason is Reason.RERUN:
        return "rerun"
    if number == 0:
        return "scheduled"
    resolution = None if before is None else before.resolved_reason
    return "task-retry" if _resolution(resolution) == "intermittent-task" else "retry"


def _resolution(reason: Reason | None) -> str:
    return "failed" if reason is None else RESOLVED.get(reason, "failed")


def _run_state(resolution: str) -> str:
    return resolution if resolution in ("completed", "failed") else "exception"


def entry_of(entry: Shown) -> Fields:
    """One entry of the history."""
    ended = entry.name in ("completed", "failed", "exception")
    return given(
        state=entry.name,
        time=iso(entry.at),
        runId=entry.run,
        workerId=entry.worker,
        reasonResolved=_resolution(entry.reason) if ended else None,
    )
