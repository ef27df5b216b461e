"""From a task as HTTP brings it to a submission, checked like one that Python code makes."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from andon.client.declaring import ANY_CALL
from andon.client.ids import new_id
from andon.client.options import derived_key, to_ms, to_priority
from andon.engine.base import Submission, Submitted
from andon.model.errors import AndonError, InvalidSubmission
from andon.service.answers import BulkAccepted, BulkItem
from andon.service.bodies import NewTask
from andon.service.problems import Problem, invalid, problem_of
from andon.worker.calls import Call, MalformedPayload
from andon.worker.registry import Registry

if TYPE_CHECKING:
    from andon.service.calls import Call as Request


def submission_of(task: NewTask, registry: Registry, default_queue: str) -> Submission:
    """The submission. Raises `InvalidSubmission` for what can be seen to be wrong from here.

    A task type of this application is checked against its handler's signature, and its own queue
    is where the task goes that names none.
    """
    known = registry.get(task.name, task.version)
    args = bytes(task.args)
    if known is None:
        queue = task.queue or default_queue
        invalid = _invalid(ANY_CALL, args)
    else:
        queue = task.queue or known.queue
        invalid = _invalid(known.codec, args)
    fields: dict[str, Any] = {}
    if task.priority:
        fields["priority"] = to_priority("priority", task.priority)
    if task.depends_on:
        fields["dependencies"] = tuple(task.depends_on)
    if _is_timed(task):
        _add_times(task, fields)
    unique_key = task.unique_key
    if unique_key is None and task.unique:
        unique_key = derived_key(task.name, args)
    return Submission(
        id=new_id() if task.id is None else task.id,
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


def _is_timed(task: NewTask) -> bool:
    """Whether it names any time; most do not."""
    return not (
        task.run_at is None
        and task.deadline is None
        and task.expires_at is None
        and task.delay is None
        and task.deadline_in is None
    )


def _add_times(task: NewTask, fields: dict[str, Any]) -> None:
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


def _invalid(codec: Call, args: bytes) -> str:
    """Why the handler cannot take these arguments; empty if it can."""
    try:
        codec.check(args)
    except MalformedPayload as error:
        return f"{error}."
    except RecursionError:
        return "The arguments are nested too deeply."
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


async def submit_one(request: "Request", task: NewTask) -> Submitted:
    """Store one task. Raises what it was refused with."""
    service = request.service
    submission = submission_of(task, service.app.registry, service.app.queue)
    _check_scopes(request, submission)
    [outcome] = await service.engine.submit([submission])
    if outcome.error is not None:
        raise outcome.error
    return outcome


async def submit_many(request: "Request", tasks: list[NewTask]) -> BulkAccepted:
    """Store many tasks, each on its own; one entry for each, in the order given."""
    service = request.service
    if len(tasks) > service.settings.max_bulk:
        raise invalid(
            f"At most {service.settings.max_bulk:,} tasks in one request, not {len(tasks):,}.",
            field="tasks",
        )
    registry, queue = service.app.registry, service.app.queue
    items: list[BulkItem | None] = []
    submissions: list[Submission] = []
    ids: set[str] = set()
    for task in tasks:
        try:
            submission = submission_of(task, registry, queue)
            if submission.id in ids:
                raise InvalidSubmission(
                    f"The id {submission.id!r} is given twice in this request.", field="id"
                )
            _check_scopes(request, submission)
        except (AndonError, Problem) as error:
            items.append(_refused(task.id or "", error))
            continue
        ids.add(submission.id)
        submissions.append(submission)
        items.append(None)
    outcomes = iter(await service.engine.submit(submissions) if submissions else ())
    answered = [item or _item(next(outcomes)) for item in items]
    refused = sum(item.error is not None for item in answered)
    return BulkAccepted(len(answered) - refused, refused, answered)


def _check_scopes(request: "Request", submission: Submission) -> None:
    request.need(f"tasks:create:{submission.queue}")
    for scope in submission.scopes:  # whoever gives a task scopes must have them (R29)
        request.need(scope)


def _item(outcome: Submitted) -> BulkItem:
    if outcome.error is None:
        return BulkItem(outcome.id, outcome.state, outcome.created)
    return BulkItem(outcome.id, outcome.state, outcome.created, problem_of(outcome.error).document)


def _refused(task_id: str, error: AndonError | Problem) -> BulkItem:
    problem = error if isinstance(error, Problem) else problem_of(error)
    return BulkItem(task_id, None, created=False, error=problem.document)
