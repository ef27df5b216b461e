"""Task queues that workers claim from, and the same by their older names: a provisioner is what
the ids of some queues begin with, a worker type one of its queues."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from andon.model.registry import ClaimedQueue
from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.errors import not_found
from andon.service.taskcluster.paging import token_for
from andon.service.taskcluster.registered import (
    each,
    first,
    is_queue,
    life_of,
    queue_document,
    worker_type_document,
)
from andon.service.taskcluster.table import route

_AFTER_SLASH = "0"
"""The character after the slash: what begins with `p` and it sorts after every queue of `p`."""


@route("listTaskQueues", "GET", "/task-queues", paged=True, needs="queue:list-task-queues")
async def list_task_queues(asked: Asked, _: None) -> dict[str, Any]:
    """The queues that workers have claimed from within five days, by id."""
    listed, most = "queues", asked.rows()
    found, more = await first(_queues(asked, asked.place(listed), most + 1), most)
    answer: dict[str, Any] = {"taskQueues": [queue_document(one) for one in found]}
    if more:
        answer["continuationToken"] = token_for(listed, found[-1].queue)
    return answer


@route(
    "getTaskQueue",
    "GET",
    "/task-queues/<taskQueueId>",
    needs="queue:get-task-queue:<taskQueueId>",
)
async def get_task_queue(asked: Asked, _: None) -> dict[str, Any]:
    """One of them."""
    return queue_document(await _queue(asked, asked.params["taskQueueId"]))


@route("listProvisioners", "GET", "/provisioners", paged=True, needs="queue:list-provisioners")
async def list_provisioners(asked: Asked, _: None) -> dict[str, Any]:
    """What the ids of those queues begin with."""
    listed, most = "provisioners", asked.rows()
    place = asked.place(listed)
    begin = f"{place}{_AFTER_SLASH}" if place else ""
    found, more = await first(_provisioners(asked, begin), most)
    answer: dict[str, Any] = {"provisioners": [one.document() for one in found]}
    if more:
        answer["continuationToken"] = token_for(listed, found[-1].name)
    return answer


@route(
    "getProvisioner",
    "GET",
    "/provisioners/<provisionerId>",
    needs="queue:get-provisioner:<provisionerId>",
)
async def get_provisioner(asked: Asked, _: None) -> dict[str, Any]:
    """One of them."""
    name = asked.params["provisionerId"]
    async for found in _provisioners(asked, f"{name}/"):
        if found.name == name:
            return found.document()
        break
    raise not_found(f"There is no provisioner {name}: no worker has claimed from a queue of it.")


@route(
    "listWorkerTypes",
    "GET",
    "/provisioners/<provisionerId>/worker-types",
    paged=True,
    needs="queue:list-worker-types:<provisionerId>",
)
async def list_worker_types(asked: Asked, _: None) -> dict[str, Any]:
    """The queues of a provisioner, by id."""
    start, most = f"{asked.params['provisionerId']}/", asked.rows()
    listed = f"worker types {start}"
    place = asked.place(listed)
    found, more = await first(_beginning(asked, start, start + place, most + 1), most)
    answer: dict[str, Any] = {"workerTypes": [worker_type_document(one) for one in found]}
    if more:
        answer["continuationToken"] = token_for(listed, found[-1].queue.removeprefix(start))
    return answer


@route(
    "getWorkerType",
    "GET",
    "/provisioners/<provisionerId>/worker-types/<workerType>",
    needs="queue:get-worker-type:<provisionerId>/<workerType>",
)
async def get_worker_type(asked: Asked, _: None) -> dict[str, Any]:
    """One of them."""
    queue = "{provisionerId}/{workerType}".format_map(asked.params)
    return worker_type_document(await _queue(asked, queue))


async def _queue(asked: Asked, name: str) -> ClaimedQueue:
    found = await asked.engine.registry.queue(name)
    if found is None:
        raise not_found(f"There is no task queue {name}: no worker has claimed from it lately.")
    return found


async def _queues(asked: Asked, place: str, most: int = 1_000) -> AsyncIterator[ClaimedQueue]:
    """The queues of the face after a place, by id."""
    async for found in each(asked.engine.claimed_queues, place, most):
        if is_queue(found):
            yield found


async def _beginning(
    asked: Asked, start: str, place: str, most: int
) -> AsyncIterator[ClaimedQueue]:
    """Those whose id begins so."""
    async for found in _queues(asked, place, most):
        if not found.queue.startswith(start):
            return
        yield found


class _Provisioner(NamedTuple):
    """What is known of a provisioner from its queues. Times are ms UTC."""

    name: str
    last_active: int
    expires_at: int

    def document(self) -> dict[str, Any]:
        """As answers have it."""
        return {
            "provisionerId": self.name,
            **life_of(self.last_active, self.expires_at),
        }

    def joined(self, queue: ClaimedQueue) -> "_Provisioner":
        """With one more of its queues."""
        return _Provisioner(
            self.name,
            max(self.last_active, queue.last_active),
            max(self.expires_at, queue.expires_at),
        )


async def _provisioners(asked: Asked, place: str) -> AsyncIterator[_Provisioner]:
    """The provisioners of the queues after a place: queues of one stand together, by id."""
    current: _Provisioner | None = None
    async for queue in _queues(asked, place):
        name = queue.queue.partition("/")[0]
        if current is not None and current.name != name:
            yield current
            current = None
        if current is None:
            current = _Provisioner(name, queue.last_active, queue.expires_at)
        current = current.joined(queue)
    if current is not None:
        yield current


ROUTES = [
    list_task_queues,
    get_task_queue,
    list_provisioners,
    get_provisioner,
    list_worker_types,
    get_worker_type,
]
