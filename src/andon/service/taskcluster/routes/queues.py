"""Task queues: how much waits in them, and how much runs."""

from collections.abc import Sequence
from typing import Any

from andon.model.words import State
from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.inputs import TaskQueueIds
from andon.service.taskcluster.needs import Each, every
from andon.service.taskcluster.table import route


@route(
    "taskQueueCounts",
    "GET",
    "/task-queues/<taskQueueId>/counts",
    needs=every("queue:pending-count:<taskQueueId>", "queue:claimed-count:<taskQueueId>"),
)
async def task_queue_counts(asked: Asked, _: None) -> dict[str, Any]:
    """How many tasks of a queue are pending, and how many are claimed."""
    [counts] = await _counts(asked, [asked.params["taskQueueId"]])
    return counts


@route(
    "taskQueueCountsBatch",
    "POST",
    "/task-queues/counts",
    takes=TaskQueueIds,
    needs=every(
        Each("taskQueueIds", "queue:pending-count:<each>"),
        Each("taskQueueIds", "queue:claimed-count:<each>"),
    ),
)
async def task_queue_counts_batch(asked: Asked, data: TaskQueueIds) -> dict[str, Any]:
    """The same of many queues, from one look at the store."""
    asked.require(taskQueueIds=data.task_queue_ids)
    return {"taskQueueCounts": await _counts(asked, data.task_queue_ids)}


@route(
    "pendingTasks",
    "GET",
    "/pending/<taskQueueId*>",
    needs="queue:pending-count:<taskQueueId>",
)
async def pending_tasks(asked: Asked, _: None) -> dict[str, Any]:
    """How many tasks of a queue are pending; what provisioners ask that came before the counts."""
    [counts] = await _counts(asked, [asked.params["taskQueueId"]])
    del counts["claimedTasks"]
    return counts


async def _counts(asked: Asked, queues: Sequence[str]) -> list[dict[str, Any]]:
    by_queue = {stats.queue: stats.counts for stats in await asked.engine.stats()}
    answers: list[dict[str, Any]] = []
    for queue in queues:
        provisioner, _, worker_type = queue.partition("/")
        counts = by_queue.get(queue, {})
        answers.append(
            {
                "taskQueueId": queue,
                "provisionerId": provisioner,
                "workerType": worker_type,
                "pendingTasks": counts.get(State.PENDING, 0),
                "claimedTasks": counts.get(State.ACTIVE, 0),
            }
        )
    return answers


ROUTES = [task_queue_counts, task_queue_counts_batch, pending_tasks]
