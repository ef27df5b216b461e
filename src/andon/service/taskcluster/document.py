"""A task as the document that its creator sends, and as the submission that Andon stores.

The document is kept whole, with every default filled in, as the arguments of a task of one name.
What the engine acts on is taken from it: queue, priority, dependencies, deadline.
"""

from typing import Any

import msgspec

from andon.engine.base import Submission
from andon.lifecycle.admission import PRIORITY_NAMES
from andon.lifecycle.profiles import TASKCLUSTER
from andon.model.task import Task
from andon.service.taskcluster.errors import ApiError, input_error
from andon.service.taskcluster.inputs import Metadata, NewTask, Object
from andon.service.taskcluster.settings import TaskclusterSettings
from andon.service.taskcluster.times import a_year_after, written

NAME = "taskcluster"
"""The name of every task of this face."""

CLOCKS_APART_MS = 15 * 60_000
"""How far a creator's clock may be off."""

_PRIORITIES = {number: name for name, number in PRIORITY_NAMES.items()}
_HIGHEST_FIRST = sorted(PRIORITY_NAMES, key=PRIORITY_NAMES.__getitem__, reverse=True)


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A task's definition with nothing left out."""

    provisioner_id: str
    worker_type: str
    task_queue_id: str
    scheduler_id: str
    project_id: str
    task_group_id: str
    dependencies: list[str]
    requires: str
    routes: list[str]
    priority: str
    retries: int
    created: str
    deadline: str
    expires: str
    scopes: list[str]
    payload: Object
    metadata: Metadata
    tags: dict[str, str]
    extra: Object


class Kept(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of a stored document that answers need."""

    provisioner_id: str
    worker_type: str
    scheduler_id: str
    project_id: str
    task_group_id: str
    tags: msgspec.Raw
    payload: msgspec.Raw


class _Routed(msgspec.Struct, frozen=True):
    routes: tuple[str, ...] = ()


_encode = msgspec.json.Encoder().encode
_routed = msgspec.json.Decoder(_Routed).decode
_kept = msgspec.json.Decoder(Kept).decode


def document_of(task_id: str, given: NewTask) -> Document:
    """The document of a task, defaults filled in. Raises `ApiError` (400) where what names the
    queue does not agree."""
    provisioner, worker_type = _queue_of(given)
    deadline = given.deadline.ms
    expires = expires_of(given)
    return Document(
        provisioner_id=provisioner,
        worker_type=worker_type,
        task_queue_id=f"{provisioner}/{worker_type}",
        scheduler_id=given.scheduler_id,
        project_id=given.project_id,
        task_group_id=given.task_group_id or task_id,
        dependencies=given.dependencies,
        requires=given.requires,
        routes=given.routes,
        priority=given.priority,
        retries=given.retries,
        created=written(given.created.ms),
        deadline=written(deadline),
        expires=written(expires),
        scopes=given.scopes,
        payload=given.payload,
        metadata=given.metadata,
        tags=given.tags,
        extra=given.extra,
    )


def expires_of(given: NewTask) -> int:
    """When the task expires, ms UTC: by default a year after its deadline."""
    return given.expires.ms if given.expires else a_year_after(given.deadline.ms)


def _queue_of(given: NewTask) -> tuple[str, str]:
    """Provisioner and worker type, from whichever of the three fields is there."""
    if given.task_queue_id:
        provisioner, _, worker_type = given.task_queue_id.partition("/")
        for name, split, whole in (
            ("provisionerId", given.provisioner_id, provisioner),
            ("workerType", given.worker_type, worker_type),
        ):
            if split and split != whole:
                raise input_error(f"{name} {split} is not that of {given.task_queue_id}.")
        return provisioner, worker_type
    if not given.provisioner_id or not given.worker_type:
        raise input_error(
            "The task has no queue: give taskQueueId, or provisionerId and workerType."
        )
    return given.provisioner_id, given.worker_type


def check_document(given: NewTask, document: Document, now: int, most_ahead: float) -> None:
    """Raise `ApiError` (400) for times that leave the task no time, and for scopes that no caller
    can hold. `now` is ms UTC, `most_ahead` seconds."""
    created, deadline = given.created.ms, given.deadline.ms
    if not now - CLOCKS_APART_MS <= created <= now + CLOCKS_APART_MS:
        raise input_error(
            f"created {document.created} is more than 15 minutes from now, {written(now)}."
        )
    if created > deadline:
        raise input_error(f"deadline {document.deadline} is before created {document.created}.")
    if deadline < now:
        raise input_error(f"deadline {document.deadline} is past; it is {written(now)}.")
    if deadline > now + most_ahead * 1000 + CLOCKS_APART_MS:
        raise input_error(
            f"deadline {document.deadline} is more than {most_ahead / 86_400:g} days ahead."
        )
    if given.expires and given.expires.ms < deadline:
        raise input_error(f"expires {document.expires} is before the deadline {document.deadline}.")
    for scope in document.scopes:
        if scope.endswith("**"):
            raise input_error(f"The scope {scope!r} ends in **; one * matches all that follows.")


def submission_of(
    task_id: str, given: NewTask, document: Document, settings: TaskclusterSettings
) -> Submission:
    """The submission for the engine. Raises `ApiError` (413)."""
    args = _encode(document)
    if len(args) > settings.max_document:
        raise ApiError(
            "InputTooLarge",
            f"The task takes {len(args):,} bytes, more than the {settings.max_document:,} that "
            "this service takes. Put what is large into an artifact.",
        )
    return Submission(
        id=task_id,
        name=NAME,
        profile=TASKCLUSTER.name,
        queue=document.task_queue_id,
        args=args,
        priority=PRIORITY_NAMES[given.priority],
        deadline=given.deadline.ms,
        expires_at=expires_of(given),
        dependencies=tuple(given.dependencies),
        requires=given.requires,
        group=document.task_group_id,
        group_owner=document.scheduler_id,
        scopes=tuple(given.scopes),
        options={
            "max_retries": given.retries,
            "deadline_max": settings.max_deadline + CLOCKS_APART_MS / 1000,
        },
    )


def at_least(priority: str) -> list[str]:
    """The priority and every higher one."""
    return _HIGHEST_FIRST[: _HIGHEST_FIRST.index(priority) + 1]


def kept_of(task: Task) -> Kept | None:
    """The parts of a task of this face; None if the record is not one."""
    if task.definition.name != NAME:
        return None
    try:
        return _kept(task.definition.args)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def routes_of(task: Task) -> tuple[str, ...]:
    """The routes of a task of this face: further routing keys of messages about it."""
    return _routed(task.definition.args).routes


def shown(task: Task) -> msgspec.Raw:
    """The document as it is answered: as it was stored, but for the priority that the task has
    now."""
    args, now = task.definition.args, task.status.priority
    if now == task.definition.priority or now not in _PRIORITIES:
        return msgspec.Raw(args)
    fields: dict[str, msgspec.Raw] = msgspec.json.decode(args, type=dict[str, msgspec.Raw])
    fields["priority"] = msgspec.Raw(_encode(_PRIORITIES[now]))
    return msgspec.Raw(_encode(fields))


def is_same(stored: bytes, sent: bytes) -> bool:
    """Whether two documents say the same, however they are written."""
    try:
        return stored == sent or _canonical(stored) == _canonical(sent)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _canonical(document: bytes) -> bytes:
    said: Any = msgspec.json.decode(document)
    return msgspec.json.encode(said, order="sorted")
