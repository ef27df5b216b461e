"""Tasks: create one, and read what was created and where it stands."""

from collections.abc import Callable, Sequence
from typing import Any

from andon.model.errors import AndonError, GroupRefused, TaskConflict
from andon.model.task import Task
from andon.service.taskcluster.answers import status_of
from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.document import (
    at_least,
    check_document,
    document_of,
    is_same,
    shown,
    submission_of,
)
from andon.service.taskcluster.errors import ApiError, conflict, input_error
from andon.service.taskcluster.inputs import NewTask, TaskIds
from andon.service.taskcluster.listing import page_of
from andon.service.taskcluster.needs import Each, every, some
from andon.service.taskcluster.paging import token_for
from andon.service.taskcluster.reading import Found, find, find_some
from andon.service.taskcluster.table import route


@route(
    "createTask",
    "PUT",
    "/task/<taskId>",
    takes=NewTask,
    needs=every(
        Each("scopes", "<each>"),
        Each("routes", "queue:route:<each>"),
        "queue:create-task:project:<projectId>",
        "queue:scheduler-id:<schedulerId>",
        some(Each("priorities", "queue:create-task:<each>:<taskQueueId>")),
    ),
)
async def create_task(asked: Asked, data: NewTask) -> dict[str, Any]:
    """Create a task, or find that this very task was created before."""
    engine, settings = asked.engine, asked.settings
    document = document_of(asked.task_id, data)
    asked.require(
        scopes=document.scopes,
        routes=document.routes,
        projectId=document.project_id,
        schedulerId=document.scheduler_id,
        priorities=at_least(document.priority),
        taskQueueId=document.task_queue_id,
    )
    submission = submission_of(asked.task_id, data, document, settings)
    try:
        check_document(data, document, engine.now(), settings.max_deadline)
        await asked.shared.lifetimes.check(submission)
    except ApiError:
        # What was right when it came first is right when it comes again (docs/rulings.md, R31).
        again = await _repeated(asked, submission.args)
        if again is None:
            raise
        return {"status": again}
    submitted, created = await engine.create(submission)
    if submitted.error is not None:
        again = None
        if isinstance(submitted.error, TaskConflict | GroupRefused):
            again = await _repeated(asked, submission.args)
        if again is None:
            raise _refused(submitted.error)
        return {"status": again}
    asked.shared.lifetimes.note(submission)
    if created is not None:
        return {"status": status_of(created, document)}
    found = await find(engine, asked.task_id)
    return {"status": status_of(*found)}


async def _repeated(asked: Asked, document: bytes) -> dict[str, Any] | None:
    """The status of the task as it was created from this very document; None if it was not."""
    [task] = await asked.engine.get([asked.task_id])
    if task is None or not is_same(task.definition.args, document):
        return None
    found = await find(asked.engine, asked.task_id)
    return status_of(*found)


def _refused(error: AndonError) -> Exception:
    """The engine's error, with the names of the document's fields."""
    if isinstance(error, TaskConflict):
        return conflict(
            f"Task {error.task_id} exists with another definition. Create it under a new id, or "
            "repeat exactly what was sent first."
        )
    if getattr(error, "field", "") == "dependencies":
        return input_error(f"The dependencies cannot be: {error}")
    return error


@route("task", "GET", "/task/<taskId>", needs="queue:get-task:<taskId>")
async def task(asked: Asked, _: None) -> Any:
    """The definition of a task, with every default filled in."""
    found = await find(asked.engine, asked.task_id)
    return shown(found.task)


@route("status", "GET", "/task/<taskId>/status", needs="queue:status:<taskId>")
async def status(asked: Asked, _: None) -> dict[str, Any]:
    """Where a task stands."""
    found = await find(asked.engine, asked.task_id)
    return {"status": status_of(*found)}


@route(
    "tasks",
    "POST",
    "/tasks",
    takes=TaskIds,
    paged=True,
    needs=every(Each("taskIds", "queue:get-task:<each>")),
)
async def tasks(asked: Asked, data: TaskIds) -> dict[str, Any]:
    """The definitions of many tasks; those that are not there are left out."""
    return await _listed(asked, data, "tasks", lambda found: {"task": shown(found.task)})


@route(
    "statuses",
    "POST",
    "/tasks/status",
    takes=TaskIds,
    paged=True,
    needs=every(Each("taskIds", "queue:status:<each>")),
)
async def statuses(asked: Asked, data: TaskIds) -> dict[str, Any]:
    """Where many tasks stand; those that are not there are left out."""
    return await _listed(asked, data, "statuses", lambda found: {"status": status_of(*found)})


async def _listed(
    asked: Asked, data: TaskIds, listed: str, row: Callable[[Found], dict[str, Any]]
) -> dict[str, Any]:
    asked.require(taskIds=data.task_ids)
    ids = list(dict.fromkeys(data.task_ids))
    place, most = asked.place(listed), asked.rows()
    begin = int(place) if place.isdigit() and len(place) < 8 else 0
    found, looked_at = await find_some(asked.engine, ids[begin : begin + most])
    rows = [{"taskId": one.task.id, **row(one)} for one in found]
    answer: dict[str, Any] = {listed: rows}
    after = begin + looked_at
    if await _are_more(asked, ids[after:]):
        answer["continuationToken"] = token_for(listed, str(after))
    return answer


async def _are_more(asked: Asked, ids: list[str]) -> bool:
    """Whether any of these tasks exists: a token without a row behind it would cost an empty
    page."""
    while ids:
        found, looked_at = await find_some(asked.engine, ids[:1])
        if found:
            return True
        ids = ids[looked_at:]
    return False


@route(
    "listDependentTasks",
    "GET",
    "/task/<taskId>/dependents",
    paged=True,
    needs="queue:list-dependent-tasks:<taskId>",
)
async def list_dependent_tasks(asked: Asked, _: None) -> dict[str, Any]:
    """The tasks that name this one as a dependency, also those that do not wait for it any more."""
    found = await find(asked.engine, asked.task_id)

    async def read(place: str, limit: int) -> tuple[Sequence[Task], str]:
        page = await asked.engine.dependents(found.task.id, place, limit)
        return page.tasks, page.cursor

    rows, token = await page_of(f"dependents:{asked.task_id}", asked, read)
    answer: dict[str, Any] = {"taskId": asked.task_id, "tasks": rows}
    if token is not None:
        answer["continuationToken"] = token
    return answer


ROUTES = [list_dependent_tasks, create_task, task, status, tasks, statuses]
