"""Task groups: the tasks that were created together."""

from typing import Any

from andon.contract.queries import Query
from andon.model.errors import ConfigurationError
from andon.model.task import Task
from andon.service.taskcluster.answers import task_and_status
from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.document import kept_of
from andon.service.taskcluster.errors import input_error, not_found
from andon.service.taskcluster.paging import token_for
from andon.service.taskcluster.reading import MOST_BYTES
from andon.service.taskcluster.table import route
from andon.service.taskcluster.times import written

_AT_ONCE = 100
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
    listed = f"group:{group}"
    place, most = asked.place(listed), asked.rows()
    rows: list[dict[str, Any]] = []
    size, first = 0, None
    while True:
        limit = min(_AT_ONCE, most - len(rows))
        tasks, place = await _page(asked, group, place, limit)
        for task in tasks:
            row = task_and_status(task)
            if row is not None:
                rows.append(row)
                size += len(task.definition.args)
                first = first or task
        if not place or len(rows) >= most or size >= MOST_BYTES:
            break
    if first is None:
        raise not_found(f"There is no task group {group}: no task has named it.")
    kept = kept_of(first)
    answer: dict[str, Any] = {
        "taskGroupId": group,
        "schedulerId": "-" if kept is None else kept.scheduler_id,
        "expires": written((first.status.expires_at or 0) + _HOUR_MS),
        "tasks": rows,
    }
    if place and await _is_more(asked, group, place):
        answer["continuationToken"] = token_for(listed, place)
    return answer


async def _page(asked: Asked, group: str, place: str, limit: int) -> tuple[tuple[Task, ...], str]:
    try:
        page = await asked.engine.find(Query(group=group, cursor=place, limit=limit))
    except ConfigurationError as error:
        raise input_error(f"continuationToken is none of this list: {error}") from None
    return page.tasks, page.cursor


async def _is_more(asked: Asked, group: str, place: str) -> bool:
    while place:
        tasks, place = await _page(asked, group, place, 1)
        if any(kept_of(task) is not None for task in tasks):
            return True
    return False


ROUTES = [list_task_group]
