"""Claims for workers of the face, and the runs that they open."""

import asyncio
import logging
from itertools import count
from typing import TYPE_CHECKING, Any

from andon.contract.isolation import why_of
from andon.contract.requests import ClaimRequest
from andon.engine.writes import new_write_id
from andon.lifecycle.commands import Command, Reject, Release, UnknownTask
from andon.model.code import Code
from andon.model.errors import AndonError
from andon.model.task import Run, Task, TaskError
from andon.service.taskcluster.answers import parts_of, status_of
from andon.service.taskcluster.claim_lines import Claim
from andon.service.taskcluster.document import NAME, kept_of, shown
from andon.service.taskcluster.errors import conflict, not_found
from andon.service.taskcluster.times import written

if TYPE_CHECKING:
    from andon.engine.local import LocalEngine
    from andon.service.taskcluster.trust.authentication import Authentication

log = logging.getLogger("andon.service")

CODE = Code.of([(NAME, 0)])
"""What workers of the face can run: documents. A task of Python code in the same queue is for
others."""

_firsts = count()
"""Where claims begin to look: each at another partition than the one before."""

_UNREADABLE = TaskError(
    message="The stored definition is no task that a Taskcluster worker could read.",
    code="VALIDATION_ERROR",
)


def claim_of(engine: "LocalEngine", queue: str, worker: str, limit: int, lease_s: float) -> Claim:
    """The function that claims up to `limit` tasks for a worker, over every partition of the store.
    Called again, it returns the tasks of an earlier call whose answer was lost (docs/rulings.md,
    R31). A worker in quarantine gets nothing. Claiming workers are noted, for the lists of
    workers."""
    token, partitions = new_write_id(), engine.store.partitions
    first = next(_firsts) % partitions

    async def claim() -> list[Task] | None:
        tasks: list[Task] = []
        for number in range(partitions):
            request = ClaimRequest(
                worker=worker,
                token=token,
                queues=(queue,),
                limit=limit - len(tasks),
                lease_ms=round(lease_s * 1000),
                partition=(first + number) % partitions,
                code=CODE,
                registers=True,
            )
            try:
                tasks += await engine.claim(request)
            except (AndonError, OSError):
                if not tasks:
                    raise
                break  # hand out the tasks claimed so far; the next claim raises the error
            if len(tasks) >= limit:
                break
        if not tasks and await engine.registry.is_quarantined(queue, worker):
            return None
        return tasks

    return claim


async def give_back(engine: "LocalEngine", tasks: list[Task]) -> None:
    """Give back what was claimed for a worker that has gone: it is pending again, at its old
    place."""

    async def one(task: Task) -> None:
        try:
            await engine.report(task, Release())
        except Exception as error:  # its claim runs out
            log.warning("Task %s could not be given back: %s", task.id, why_of(error))

    await asyncio.gather(*map(one, tasks))


async def handed_out(
    engine: "LocalEngine", trust: "Authentication", tasks: list[Task]
) -> list[Any]:
    """The answer to a worker for each task that it has claimed.

    A task of Python code is among them only where its own policy says what becomes of it without
    that code (docs/rulings.md, R32), and ends as that says. A task that cannot be encoded is not
    handed out but ended, as a worker that cannot read it would end it: the others of the claim are
    not affected (docs/rulings.md, R36).
    """
    claims: list[Any] = []
    ends: list[tuple[Task, Command]] = []
    for task in tasks:
        if task.definition.name != NAME:
            ends.append((task, UnknownTask()))
            continue
        try:
            claims.append(claim_document(task, await credentials_of(trust, task)))
        except (AndonError, OSError):
            raise
        except Exception as error:
            log.exception("Task %s is not handed out: %s", task.id, why_of(error))
            ends.append((task, Reject(error=_UNREADABLE)))
    for task, command in ends:
        try:
            await engine.report(task, command)
        except Exception as refused:  # its claim runs out, and the next claim handles it again
            log.warning("The run of task %s could not be ended: %s", task.id, why_of(refused))
    return claims


def claim_document(
    task: Task, credentials: dict[str, str], *, with_task: bool = True
) -> dict[str, Any]:
    """A claim as its worker gets it. Raises `ValueError` for a record that is no task of the
    face."""
    kept = kept_of(task)
    if kept is None:
        raise ValueError("its definition does not decode")
    run = task.status.runs[-1]
    group, worker = parts_of(run.worker)
    return {
        "status": status_of(task, kept),
        "runId": run.number,
        "workerGroup": group,
        "workerId": worker,
        "takenUntil": written(lease_of(task)),
        **({"task": shown(task)} if with_task else {}),
        "credentials": credentials,
    }


async def credentials_of(trust: "Authentication", task: Task) -> dict[str, str]:
    """The credentials of the run that holds a task, for as long as this claim."""
    run = task.status.runs[-1]
    issued = await trust.task_credentials(
        task_id=task.id,
        run_id=run.number,
        worker="/".join(parts_of(run.worker)),
        taken_until=lease_of(task),
        scopes=task.definition.scopes,
    )
    return {
        "clientId": issued.client_id,
        "accessToken": issued.access_token,
        "certificate": issued.certificate,
    }


def lease_of(task: Task) -> int:
    """Until when the run in hand holds its task, ms UTC."""
    return 0 if task.cell is None else task.cell.lease_until


def run_of(task: Task, number: int) -> Run:
    """The run of that number. Raises `ApiError` (404, or 409 for one that is not kept any more)."""
    for run in task.status.runs:
        if run.number == number:
            return run
    if number < task.status.runs_dropped:
        raise conflict(f"Run {number} of task {task.id} ended long ago.")
    raise not_found(f"Task {task.id} has no run {number}.")
