"""Task groups: the tasks that were created together."""

from collections.abc import Sequence
from typing import Any

from andon.contract.queries import Query
from andon.model.task import Task
from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.document import kept_of
from andon.service.taskcluster.errors import not_found
from andon.service.taskcluster.listing import page_of
from andon.service.taskcluster.table import route
from andon.service.taskcluster.times import written

_HOUR_MS = 3_600_000


@route(
    "listTaskGroup",
    "GET",
    "/task-group/<taskGroupId>/list",
    paged=True,
    needs="queue:list-task-group:<taskGroupId>",
)
async def list_task_group(asked: Asked, _: None) -> dict[str, Any]:
    """The tasks of a group, in the order in which they were created."""
    group = asked.params["taskGroupId"]

    async def read(place: str, limit: int) -> tuple[Sequence[Task], str]:
        page = await asked.engine.find(Query(group=group, cursor=place, limit=limit))
        return page.tasks, page.cursor

    first = next((task for task in (await read("", 1))[0] if kept_of(task)), None)
    kept = None if first is None else kept_of(first)
    if first is None or kept is None:
        raise not_found(f"There is no task group {group}: no task has named it.")
    rows, token = await page_of(f"group:{group}", asked, read)
    answer: dict[str, Any] = {
        "taskGroupId": group,
        "schedulerId": kept.scheduler_id,
        "expires": written((first.status.expires_at or 0) + _HOUR_MS),
        "tasks": rows,
    }
    if token is not None:
        answer["continuationToken"] = token
    return answer


ROUTES = [list_task_group]
