"""Workers of the registry, and the queues that they claim from, in answers."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from andon.model.errors import InvalidSubmission
from andon.model.registry import ClaimedQueue, ClaimingWorker
from andon.service.taskcluster.answers import parts_of
from andon.service.taskcluster.errors import input_error
from andon.service.taskcluster.patterns import is_parameter
from andon.service.taskcluster.times import written

T = TypeVar("T")

_AT_ONCE = 1_000

Read = Callable[[str, int], Awaitable[tuple[Sequence[T], str]]]
"""Reads up to so many after a place: those, and the place after them; empty at the end."""


async def each(read: Read[T], place: str, most: int = _AT_ONCE) -> AsyncIterator[T]:
    """What there is from a place on; `most`: so many are wanted, as far as is known. Raises
    `ApiError` (400) for a place that is none."""
    while True:
        try:
            some, place = await read(place, min(most, _AT_ONCE))
        except InvalidSubmission as error:
            raise input_error(f"continuationToken is none of this list: {error}") from None
        for one in some:
            yield one
        if not place:
            return


async def first(rows: AsyncIterator[T], most: int) -> tuple[list[T], bool]:
    """Up to so many, and whether there is one more."""
    found: list[T] = []
    async for row in rows:
        if len(found) == most:
            return found, True
        found.append(row)
    return found, False


def is_queue(found: ClaimedQueue) -> bool:
    """Whether it can be a queue of the face: workers of Python code may have noted others."""
    return is_parameter("taskQueueId", found.queue)


def is_worker(found: ClaimingWorker) -> bool:
    """Whether it can be a worker of the face."""
    group, slash, worker_id = found.worker.partition("/")
    return (
        bool(slash) and is_parameter("workerGroup", group) and is_parameter("workerId", worker_id)
    )


def life_of(last_active: int, expires_at: int) -> dict[str, Any]:
    """The fixed fields of every queue and provisioner, which cannot be set."""
    return {
        "description": "",
        "stability": "experimental",
        "expires": written(expires_at),
        "lastDateActive": written(last_active),
    }


def queue_document(found: ClaimedQueue) -> dict[str, Any]:
    """A task queue."""
    return {"taskQueueId": found.queue, **life_of(found.last_active, found.expires_at)}


def worker_type_document(found: ClaimedQueue) -> dict[str, Any]:
    """The same by its older name."""
    provisioner, _, worker_type = found.queue.partition("/")
    return {
        "provisionerId": provisioner,
        "workerType": worker_type,
        **queue_document(found),
    }


def worker_row(found: ClaimingWorker) -> dict[str, Any]:
    """A worker as a list has it."""
    group, worker_id = parts_of(found.worker)
    row: dict[str, Any] = {
        "workerGroup": group,
        "workerId": worker_id,
        "firstClaim": written(found.first_claim),
        "lastDateActive": written(found.last_active),
    }
    if found.recent:
        row["latestTask"] = {"taskId": found.recent[-1].task, "runId": found.recent[-1].run}
    return {**row, **_quarantine(found)}


def worker_document(found: ClaimingWorker) -> dict[str, Any]:
    """A worker, with its last claims and its quarantine."""
    provisioner, _, worker_type = found.queue.partition("/")
    row = worker_row(found)
    row.pop("latestTask", None)
    document = {
        "provisionerId": provisioner,
        "workerType": worker_type,
        "taskQueueId": found.queue,
        **row,
        "expires": written(found.expires_at),
        "recentTasks": [{"taskId": run.task, "runId": run.run} for run in found.recent],
    }
    if found.quarantines:
        document["quarantineDetails"] = [
            {
                "clientId": said.by,
                "updatedAt": written(said.at),
                "quarantineUntil": written(said.until),
                "quarantineInfo": said.info,
            }
            for said in found.quarantines
        ]
    return document


def _quarantine(found: ClaimingWorker) -> dict[str, Any]:
    """Until when it was last said to get nothing; also once that has passed, as clients expect."""
    if not found.quarantines:
        return {}
    return {"quarantineUntil": written(found.quarantines[-1].until)}
