"""From a task as HTTP brings it to a submission, checked like one that Python code makes."""

from datetime import datetime
from typing import Any

import msgspec

from andon.client.ids import new_id
from andon.client.options import derived_key, to_ms, to_priority
from andon.engine.base import Submission
from andon.model.errors import InvalidSubmission
from andon.service.bodies import NewTask
from andon.worker.calls import MalformedPayload
from andon.worker.registry import Registry


def submission_of(task: NewTask, registry: Registry, default_queue: str) -> Submission:
    """The submission. Raises `InvalidSubmission` for what can be seen to be wrong from here.

    A task type of this application is checked against its handler's signature, and its own queue
    is where the task goes that names none.
    """
    known = registry.get(task.name, task.version)
    args = bytes(task.args)
    if known is None:
        queue = task.queue or default_queue
        invalid = ""
    else:
        queue = task.queue or known.queue
        invalid = _invalid(known.codec, args)
    fields: dict[str, Any] = {}
    if task.priority:
        fields["priority"] = to_priority("priority", task.priority)
    for name in ("run_at", "deadline", "expires_at"):
        moment = getattr(task, name)
        if moment is not None:
            fields[name] = moment_ms(name, moment)
    for absolute, relative in (("run_at", "delay"), ("deadline", "deadline_in")):
        seconds = getattr(task, relative)
        if seconds is None:
            continue
        if absolute in fields:
            raise InvalidSubmission(f"Give {absolute} or {relative}, not both.", field=absolute)
        fields[relative] = seconds
    unique_key = task.unique_key
    if unique_key is None and task.unique:
        unique_key = derived_key(task.name, args)
    if task.depends_on:
        fields["dependencies"] = tuple(task.depends_on)
    return Submission(
        id=task.id or new_id(),
        name=task.name,
        version=task.version,
        queue=queue,
        args=args,
        requires=task.requires,
        load_dependencies=task.load_dependencies,
        unique_key=unique_key,
        key=task.key,
        group=task.group,
        scopes=tuple(task.scopes),
        tags=tuple(task.tags),
        headers=task.headers,
        options=task.options,
        invalid=invalid,
        **fields,
    )


def _invalid(codec: Any, args: bytes) -> str:
    try:
        codec.decode(args)
    except MalformedPayload as error:
        return str(error)
    return ""


def moment_ms(field: str, moment: str | int) -> int:
    """A moment as ms UTC. Raises `InvalidSubmission` for what is none, or has no zone."""
    if isinstance(moment, int):
        return to_ms(field, moment)
    try:
        return to_ms(field, msgspec.convert(moment, datetime, strict=False))
    except msgspec.ValidationError as error:
        raise InvalidSubmission(
            f"{field} is ISO 8601 with a zone, as in 2030-01-15T10:30:00Z, not {moment[:40]!r}.",
            field=field,
        ) from error
