"""Task groups: the tasks that were created together, sealed, cancelled and moved up as one."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from andon.contract.limits import MAX_BATCH
from andon.contract.queries import Query
from andon.engine.base import ActionResult
from andon.lifecycle.admission import PRIORITY_NAMES
from andon.lifecycle.commands import Reprioritise
from andon.model.errors import GroupNotFound, InvalidTransition, TaskNotFound
from andon.model.groups import GroupRecord
from andon.model.task import Task
from andon.model.words import LIVE
from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.document import kept_of
from andon.service.taskcluster.errors import conflict, not_found
from andon.service.taskcluster.inputs import NewPriority
from andon.service.taskcluster.listing import page_of
from andon.service.taskcluster.table import route
from andon.service.taskcluster.times import written

_LIST = "queue:list-task-group:<taskGroupId>"


@route("getTaskGroup", "GET", "/task-group/<taskGroupId>", needs=_LIST)
async def get_task_group(asked: Asked, _: None) -> dict[str, Any]:
    """What the tasks of a group share."""
    return _shown(asked, await _group(asked))


@route(
    "listTaskGroup",
    "GET",
    "/task-group/<taskGroupId>/list",
    paged=True,
    needs=_LIST,
)
async def list_task_group(asked: Asked, _: None) -> dict[str, Any]:
    """The tasks of a group, in the order in which they were created."""
    name = asked.params["taskGroupId"]
    record = await _group(asked)

    async def read(place: str, limit: int) -> tuple[Sequence[Task], str]:
        page = await asked.engine.find(Query(group=name, cursor=place, limit=limit))
        return page.tasks, page.cursor

    rows, token = await page_of(f"group:{name}", asked, read)
    answer = {**_shown(asked, record), "tasks": rows}
    if token is not None:
        answer["continuationToken"] = token
    return answer


@route(
    "sealTaskGroup",
    "POST",
    "/task-group/<taskGroupId>/seal",
    needs="queue:seal-task-group:<schedulerId>/<taskGroupId>",
)
async def seal_task_group(asked: Asked, _: None) -> dict[str, Any]:
    """Let no task into the group any more, for good."""
    asked.require(schedulerId=(await _group(asked)).owner)
    sealed = await asked.engine.seal_group(asked.params["taskGroupId"])
    asked.shared.feed.changes.tell()
    return _shown(asked, sealed)


@route(
    "cancelTaskGroup",
    "POST",
    "/task-group/<taskGroupId>/cancel",
    needs="queue:cancel-task-group:<schedulerId>/<taskGroupId>",
)
async def cancel_task_group(asked: Asked, _: None) -> dict[str, Any]:
    """Cancel at once every task of a sealed group that has not ended. What another call or a worker
    ends meanwhile is not counted."""
    record = await _group(asked)
    asked.require(schedulerId=record.owner)
    name = asked.params["taskGroupId"]
    if record.sealed_at is None:
        raise conflict(f"Task group {name} is not sealed: tasks may be created in it still.")
    size, cancelled = 0, list[str]()
    now = asked.engine.now()
    async for tasks in _tasks(asked, name):
        size += len(tasks)
        live = [task.id for task in tasks if task.state in LIVE and not _is_over(task, now)]
        acted = await asked.engine.cancel(live, force=True)
        cancelled += _changed(acted)
    return {
        "taskGroupId": name,
        "taskGroupSize": size,
        "cancelledCount": len(cancelled),
        "taskIds": cancelled,
    }


@route(
    "changeTaskGroupPriority",
    "POST",
    "/task-group/<taskGroupId>/priority",
    takes=NewPriority,
    needs="queue:change-task-group-priority:<schedulerId>/<taskGroupId>",
)
async def change_task_group_priority(asked: Asked, data: NewPriority) -> dict[str, Any]:
    """Give every task of a group that was never resolved another priority."""
    record = await _group(asked)
    asked.require(schedulerId=record.owner)
    name, changed = asked.params["taskGroupId"], list[str]()
    priority = PRIORITY_NAMES[data.new_priority]
    async for tasks in _tasks(asked, name):
        others = [
            task.id
            for task in tasks
            if task.state in LIVE
            and not task.status.rerun_by_hand
            and task.status.priority != priority
        ]
        changed += _changed(await asked.engine.act(others, Reprioritise(priority=priority)))
    await asked.engine.tell_reprioritised(name, priority, len(changed))
    asked.shared.feed.changes.tell()
    return {
        "taskGroupId": name,
        "schedulerId": record.owner,
        "newPriority": data.new_priority,
        "tasksAffected": len(changed),
        "taskIds": changed,
    }


async def _group(asked: Asked) -> GroupRecord:
    """The group that the path names. Raises `ApiError` (404)."""
    name = asked.params["taskGroupId"]
    try:
        return await asked.engine.group(name)
    except GroupNotFound:
        raise not_found(f"There is no task group {name}: no task has named it.") from None


def _shown(asked: Asked, record: GroupRecord) -> dict[str, Any]:
    sealed = {} if record.sealed_at is None else {"sealed": written(record.sealed_at)}
    return {
        "taskGroupId": asked.params["taskGroupId"],
        "schedulerId": record.owner,
        "expires": written(record.expires_at),
        **sealed,
    }


async def _tasks(asked: Asked, group: str) -> AsyncIterator[list[Task]]:
    """The tasks of a group, some at a time."""
    place = ""
    while True:
        page = await asked.engine.find(Query(group=group, cursor=place, limit=MAX_BATCH))
        yield [task for task in page.tasks if kept_of(task) is not None]
        place = page.cursor
        if not place:
            return


def _is_over(task: Task, now: int) -> bool:
    return task.status.deadline is not None and task.status.deadline < now


def _changed(acted: Sequence[ActionResult]) -> list[str]:
    """Those that this call has changed. One that has ended or gone meanwhile is none of them, and
    no reason to stop; raises what else went wrong."""
    for one in acted:
        if one.error is not None and not isinstance(one.error, InvalidTransition | TaskNotFound):
            raise one.error
    return [one.id for one in acted if one.changed]


ROUTES = [
    get_task_group,
    list_task_group,
    seal_task_group,
    cancel_task_group,
    change_task_group_priority,
]
