"""Makes the messages about a move of a task, in their order. Pure.

A move makes the messages that the original sends: two for a task that is pending as soon as it is
defined, one for a retry (docs/rulings.md, R12).
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from andon.artifacts.base import Artifact
from andon.lifecycle.faces.fields import iso
from andon.lifecycle.faces.taskcluster import priority_name
from andon.lifecycle.profiles import TASKCLUSTER
from andon.lifecycle.rendering import state_name
from andon.model.groups import GroupNews
from andon.model.task import Task, TaskEvent
from andon.model.words import TERMINAL, State
from andon.service.taskcluster.answers import status_of
from andon.service.taskcluster.artifact_info import info_of
from andon.service.taskcluster.document import Kept
from andon.service.taskcluster.messages.as_of import as_of, before_its_first_run
from andon.service.taskcluster.messages.exchanges import (
    Exchange,
    Message,
    group_key,
    id_of,
    route_key,
    task_key,
)
from andon.service.taskcluster.patterns import is_identifier, is_slugid

_VERSION = 1
_ENDS = {
    "completed": Exchange.TASK_COMPLETED,
    "failed": Exchange.TASK_FAILED,
    "exception": Exchange.TASK_EXCEPTION,
}


class Subject(msgspec.Struct, frozen=True):
    """A task of the face, as far as messages need it."""

    task: Task
    kept: Kept
    routes: tuple[str, ...] = ()


class Group(msgspec.Struct, frozen=True):
    """The group in a message."""

    name: str
    scheduler_id: str
    expires_at: int | None  #: ms UTC
    sealed_at: int | None = None  #: ms UTC


def is_of(event: TaskEvent, task: Task) -> bool:
    """Whether the move is one of this record: an id may have been used again since."""
    return event.task == task.id and event.at >= task.status.created_at


def ends(event: TaskEvent) -> bool:
    """Whether the move ends its task."""
    return event.target in TERMINAL and event.source not in TERMINAL


def run_resolved_by(event: TaskEvent) -> int | None:
    """Number of the run, once claimed, that the move resolves; None if it resolves none."""
    if event.source is not State.ACTIVE or event.target in (State.ACTIVE, None):
        return None
    if event.run is None:
        return None
    return event.run - 1 if event.target is State.PENDING else event.run


def messages_of(
    event: TaskEvent, subject: Subject, *, retries_as_exceptions: bool = False
) -> list[Message]:
    """The messages about the move. With `retries_as_exceptions` a run that ended as an exception
    makes a message also if another run follows by itself."""
    source, target = event.source, event.target
    if event.priority is not None:
        return _priority_changed(event, subject)
    if target is None or source is target:
        return []
    told = _Told(event, subject)
    made: list[Message] = []
    if source is None:
        made.append(told.message(Exchange.TASK_DEFINED, before_its_first_run(subject.task, event)))
    task = as_of(subject.task, event)
    if target is State.PENDING:
        resolved = run_resolved_by(event)
        if retries_as_exceptions and resolved is not None:
            made.append(told.message(Exchange.TASK_EXCEPTION, task, resolved))
        made.append(told.message(Exchange.TASK_PENDING, task, event.run or 0))
    elif target is State.ACTIVE:
        made.append(told.message(Exchange.TASK_RUNNING, task, event.run))
    elif target in TERMINAL:
        exchange = _ENDS.get(state_name(TASKCLUSTER, task))
        if exchange is not None:
            made.append(told.message(exchange, task, event.run))
    return made


def artifact_messages(
    event: TaskEvent, subject: Subject, artifacts: Sequence[Artifact]
) -> list[Message]:
    """The messages about the artifacts of the run that the move resolves, except files. (The
    original sends none for files either: they are registered before their bytes come.)"""
    run = run_resolved_by(event)
    told = _Told(event, subject)
    task = as_of(subject.task, event)
    return [
        told.message(Exchange.ARTIFACT_CREATED, task, run, artifact)
        for artifact in artifacts
        if artifact.kind != "file"
    ]


def _priority_changed(event: TaskEvent, subject: Subject) -> list[Message]:
    """The messages about a changed priority; none if its name is the same."""
    assert event.priority is not None
    old, new = map(priority_name, event.priority)
    if old == new:
        return []
    changed = {"oldPriority": old, "newPriority": new}
    task = as_of(subject.task, event)
    told = _Told(event, subject)
    return [told.message(Exchange.TASK_PRIORITY_CHANGED, task, beside=changed)]


def group_resolved(event: TaskEvent, group: Group) -> Message:
    """The messages when the move has ended the last task of a group."""
    return Message(
        exchange=Exchange.TASK_GROUP_RESOLVED,
        id=id_of(Exchange.TASK_GROUP_RESOLVED, group.name, event.task, event.revision, event.at),
        at=event.at,
        # In order with the end that it follows.
        lane=event.task,
        routing_key=group_key(group.name, group.scheduler_id),
        document=_about_group(group),
    )


def group_message(news: GroupNews) -> Message | None:
    """The message about what happened to a group as a whole; None if the face has no such group."""
    group = Group(news.group, news.owner, news.expires_at, news.sealed_at)
    if not is_slugid(group.name) or not is_identifier(group.scheduler_id):
        return None
    happening = news.happening
    if happening.what == "sealed":
        exchange, document = Exchange.TASK_GROUP_SEALED, _about_group(group)
    else:
        exchange = Exchange.TASK_GROUP_PRIORITY_CHANGED
        document = {
            "version": _VERSION,
            "taskGroupId": group.name,
            "schedulerId": group.scheduler_id,
            "newPriority": priority_name(happening.priority),
            "tasksAffected": happening.changed,
        }
    return Message(
        exchange=exchange,
        id=id_of(exchange, group.name, happening.at, happening.priority, happening.changed),
        at=happening.at,
        lane=group.name,
        routing_key=group_key(group.name, group.scheduler_id),
        document=document,
    )


def _about_group(group: Group) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "taskGroupId": group.name,
        "schedulerId": group.scheduler_id,
        **({} if group.expires_at is None else {"expires": iso(group.expires_at)}),
        **({} if group.sealed_at is None else {"sealed": iso(group.sealed_at)}),
    }


class _Told:
    """The messages about one move."""

    def __init__(self, event: TaskEvent, subject: Subject) -> None:
        self._event = event
        self._subject = subject

    def message(
        self,
        exchange: Exchange,
        task: Task,
        number: int | None = None,
        artifact: Artifact | None = None,
        beside: dict[str, Any] | None = None,
    ) -> Message:
        """One about the task as it was, and a run of it; `beside`: the fields in place of the
        task's tags."""
        event, kept = self._event, self._subject.kept
        status = status_of(task, kept)
        runs: list[dict[str, Any]] = status["runs"]
        run = next((one for one in runs if one["runId"] == number), None)
        worker = _worker(run)
        document: dict[str, Any] = {"version": _VERSION, "status": status}
        if beside is not None:
            document.update(beside)
        elif artifact is None:
            document["task"] = {"tags": kept.tags}
        if number is not None:
            document["runId"] = number
        if worker is not None:
            document["workerGroup"], document["workerId"] = worker
        if exchange is Exchange.TASK_RUNNING:
            document["takenUntil"] = (run or {}).get("takenUntil") or _taken_until(task)
        name = ""
        if artifact is not None:
            info = info_of(artifact, task)
            fields = ("storageType", "name", "expires", "contentType")
            document["artifact"] = {field: info[field] for field in fields}
            name = artifact.name
        return Message(
            exchange=exchange,
            id=id_of(exchange, event.task, event.revision, event.at, name),
            at=event.at,
            lane=event.task,
            routing_key=task_key(
                task_id=event.task,
                run=number,
                worker=worker,
                queue=(kept.provisioner_id, kept.worker_type),
                scheduler_id=kept.scheduler_id,
                group=kept.task_group_id,
            ),
            routes=tuple(map(route_key, self._subject.routes)),
            document=document,
        )


def _worker(run: dict[str, Any] | None) -> tuple[str, str] | None:
    return (run["workerGroup"], run["workerId"]) if run and "workerGroup" in run else None


def _taken_until(task: Task) -> str:
    """When the claim was to run out, where nothing is known of it any more."""
    claimed = task.status.runs[-1].claimed_at or 0
    return iso(claimed + round(task.policy.lease * 1000))
