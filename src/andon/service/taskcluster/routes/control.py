"""What is done to tasks from outside: schedule, rerun, cancel, another priority."""

from collections.abc import Callable
from typing import Any

from andon.engine.base import ActionResult
from andon.lifecycle.admission import PRIORITY_NAMES
from andon.lifecycle.commands import Command, Reprioritise, Rerun, Schedule
from andon.model.errors import InvalidTransition
from andon.model.task import Task
from andon.model.words import TERMINAL, State
from andon.service.taskcluster.answers import status_of
from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.errors import conflict
from andon.service.taskcluster.inputs import NewPriority
from andon.service.taskcluster.needs import Needs, every, some
from andon.service.taskcluster.reading import Found, find
from andon.service.taskcluster.table import route

_ATTEMPTS = 5
"""How often an act is decided anew where the task has moved meanwhile."""


def _needs(act: str) -> Needs:
    """What an act on a task needs: the right for this task, for its project, or as it was once."""
    return some(
        f"queue:{act}-task:<schedulerId>/<taskGroupId>/<taskId>",
        f"queue:{act}-task-in-project:<projectId>",
        every(f"queue:{act}-task", "assume:scheduler-id:<schedulerId>/<taskGroupId>"),
    )


@route("scheduleTask", "POST", "/task/<taskId>/schedule", needs=_needs("schedule"))
async def schedule_task(asked: Asked, _: None) -> dict[str, Any]:
    """Release a task that waits for others, whatever they do. Any other is left as it is."""
    return await _act(asked, lambda task: Schedule() if task.state is State.BLOCKED else None)


@route("rerunTask", "POST", "/task/<taskId>/rerun", needs=_needs("rerun"))
async def rerun_task(asked: Asked, _: None) -> dict[str, Any]:
    """Run a task again that has ended, or that waits for others. One that is pending or running is
    left as it is."""

    def choose(task: Task) -> Command | None:
        if task.state in TERMINAL:
            return Rerun()
        return Rerun(blocked=True) if task.state is State.BLOCKED else None

    return await _act(asked, choose)


@route("cancelTask", "POST", "/task/<taskId>/cancel", needs=_needs("cancel"))
async def cancel_task(asked: Asked, _: None) -> dict[str, Any]:
    """Cancel a task at once, also one that runs; its worker learns of it when it asks next. One
    that has ended is left as it is."""
    found = await _found(asked)
    if found.task.state not in TERMINAL:
        [acted] = await asked.engine.cancel([asked.task_id], force=True)
        found = await _after(asked, acted, TERMINAL)
    return {"status": status_of(*found)}


@route(
    "changeTaskPriority",
    "POST",
    "/task/<taskId>/priority",
    takes=NewPriority,
    needs=some(
        "queue:change-task-priority:<taskId>",
        "queue:change-task-priority-in-queue:<taskQueueId>",
    ),
)
async def change_task_priority(asked: Asked, data: NewPriority) -> dict[str, Any]:
    """Give a task another priority, for its next run if it runs. Refused once it has ended, also
    if it was rerun since."""
    found = await find(asked.engine, asked.task_id)
    asked.require(taskQueueId=found.task.definition.queue)
    _check_deadline(asked, found.task)
    if found.task.state in TERMINAL or found.task.status.rerun_by_hand:
        raise conflict(f"Task {asked.task_id} has been resolved; its priority stays.")
    command = Reprioritise(priority=PRIORITY_NAMES[data.new_priority])
    [acted] = await asked.engine.act([asked.task_id], command)
    if acted.error is not None:
        raise acted.error
    return {"status": status_of(*await find(asked.engine, asked.task_id))}


async def _act(asked: Asked, choose: Callable[[Task], Command | None]) -> dict[str, Any]:
    found = await _found(asked)
    for _ in range(_ATTEMPTS):
        command = choose(found.task)
        if command is None:
            break
        [acted] = await asked.engine.act([asked.task_id], command)
        moved = await find(asked.engine, asked.task_id)
        if acted.error is None:
            found = moved
            break
        stands = moved.task.status.revision == found.task.status.revision
        if stands or not isinstance(acted.error, InvalidTransition):
            raise acted.error
        found = moved
    return {"status": status_of(*found)}


async def _found(asked: Asked) -> Found:
    """The task, for a caller who may. Raises `ApiError` (404, 403, or 409 after its deadline)."""
    found = await find(asked.engine, asked.task_id)
    kept = found.kept
    asked.require(
        schedulerId=kept.scheduler_id,
        taskGroupId=kept.task_group_id,
        projectId=kept.project_id,
    )
    _check_deadline(asked, found.task)
    return found


def _check_deadline(asked: Asked, task: Task) -> None:
    deadline = task.status.deadline
    if deadline is not None and deadline < asked.engine.now():
        raise conflict(
            f"The deadline of task {task.id} has passed; nothing can be done to it any more."
        )


async def _after(asked: Asked, acted: ActionResult, fine: frozenset[State]) -> Found:
    """The task after an act, which may have come too late: it then stands as was wanted."""
    found = await find(asked.engine, asked.task_id)
    if acted.error is not None and found.task.state not in fine:
        raise acted.error
    return found


ROUTES = [schedule_task, rerun_task, cancel_task, change_task_priority]
