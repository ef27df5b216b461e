"""Task queues: how much waits in them and how much runs, and the tasks themselves."""

from collections.abc import Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

from andon.contract.limits import MAX_BATCH
from andon.contract.queries import Query
from andon.model.task import Task
from andon.model.words import State
from andon.service.taskcluster.answers import parts_of
from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.document import NAME, kept_of, shown
from andon.service.taskcluster.errors import input_error
from andon.service.taskcluster.inputs import TaskQueueIds
from andon.service.taskcluster.listing import page_of
from andon.service.taskcluster.needs import Each, every
from andon.service.taskcluster.paging import token_for
from andon.service.taskcluster.reading import find_some
from andon.service.taskcluster.table import route
from andon.service.taskcluster.times import written


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


@route(
    "listPendingTasks",
    "GET",
    "/task-queues/<taskQueueId>/pending",
    paged=True,
    needs="queue:pending-list:<taskQueueId>",
)
async def list_pending_tasks(asked: Asked, _: None) -> dict[str, Any]:
    """The pending tasks of a queue, in the order in which they were created."""
    queue, now = asked.params["taskQueueId"], asked.engine.now()

    async def read(place: str, limit: int) -> tuple[Sequence[Task], str]:
        wanted = Query(queue=queue, states=(State.PENDING,), name=NAME, cursor=place, limit=limit)
        page = await asked.engine.find(wanted)
        return page.tasks, page.cursor

    def row_of(task: Task) -> dict[str, Any] | None:
        deadline = task.status.deadline
        if kept_of(task) is None or (deadline is not None and deadline < now):
            return None
        run = task.status.runs[-1]
        return {
            "taskId": task.id,
            "runId": run.number,
            "task": shown(task),
            "inserted": written(run.scheduled_at),
        }

    rows, token = await page_of(f"pending:{queue}", asked, read, row_of)
    answer: dict[str, Any] = {"tasks": rows}
    if token is not None:
        answer["continuationToken"] = token
    return answer


class _Claimed(NamedTuple):
    """A task that is claimed, in the order in which they are listed."""

    at: int  #: ms UTC
    task_id: str
    run: int
    worker: str

    @property
    def place(self) -> str:
        """Where in the list it is."""
        return f"{self.at}:{self.task_id}"


@route(
    "listClaimedTasks",
    "GET",
    "/task-queues/<taskQueueId>/claimed",
    paged=True,
    needs="queue:claimed-list:<taskQueueId>",
)
async def list_claimed_tasks(asked: Asked, _: None) -> dict[str, Any]:
    """The tasks of a queue that run, those that were claimed first before the others."""
    queue, most = asked.params["taskQueueId"], asked.rows()
    listed = f"claimed:{queue}"
    after = _place_of(asked.place(listed))
    claimed = nsmallest(most + 1, [one for one in await _claimed(asked, queue) if one[:2] > after])
    page = claimed[:most]
    found, looked_at = await find_some(asked.engine, [one.task_id for one in page])
    documents = {one.task.id: shown(one.task) for one in found}
    rows: list[dict[str, Any]] = []
    for one in page[:looked_at]:
        if one.task_id in documents:  # or it was deleted since
            group, worker_id = parts_of(one.worker)
            rows.append(
                {
                    "taskId": one.task_id,
                    "runId": one.run,
                    "workerGroup": group,
                    "workerId": worker_id,
                    "claimed": written(one.at),
                    "task": documents[one.task_id],
                }
            )
    answer: dict[str, Any] = {"tasks": rows}
    if looked_at < len(claimed):
        answer["continuationToken"] = token_for(listed, page[looked_at - 1].place)
    return answer


async def _claimed(asked: Asked, queue: str) -> list[_Claimed]:
    """What runs of a queue: as much as it has workers. Their documents are not kept here."""
    found: list[_Claimed] = []
    place = ""
    while True:
        page = await asked.engine.find(
            Query(queue=queue, states=(State.ACTIVE,), name=NAME, cursor=place, limit=MAX_BATCH)
        )
        for task in page.tasks:
            run = task.status.runs[-1]
            if run.claimed_at is not None and kept_of(task) is not None:
                found.append(_Claimed(run.claimed_at, task.id, run.number, run.worker))
        place = page.cursor
        if not place:
            return found


def _place_of(text: str) -> tuple[int, str]:
    """The place that a token names. Raises `ApiError` (400)."""
    at, _, task_id = text.partition(":")
    if not text:
        return (-1, "")
    if not (at.isascii() and at.isdigit() and len(at) < 20 and task_id):
        raise input_error("continuationToken is none of this list.")
    return (int(at), task_id)


ROUTES = [
    task_queue_counts,
    task_queue_counts_batch,
    pending_tasks,
    list_pending_tasks,
    list_claimed_tasks,
]
