"""Makes submissions from tasks in requests, checked like those of Python code."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from andon.client.ids import new_id
from andon.client.options import to_ms, to_priority
from andon.contract.limits import MAX_BATCH
from andon.engine.base import Submission, Submitted
from andon.engine.places import in_places
from andon.lifecycle import payloads
from andon.lifecycle.births import FIELD, birth_id
from andon.lifecycle.unique import derived_key
from andon.model.errors import AndonError, InvalidSubmission, PermissionRefused, TaskConflict
from andon.model.scopes import needed_to_submit
from andon.service import idempotency
from andon.service.answers import BulkAccepted, BulkItem
from andon.service.bodies import NO_ARGUMENTS, NewTask
from andon.service.problems import Problem, invalid, problem_of, unexpected
from andon.worker.calls import Call, MalformedPayload
from andon.worker.registry import Registry

if TYPE_CHECKING:
    from andon.service.calls import Call as Request
    from andon.service.service import Service
    from andon.service.trust.access import Caller

log = logging.getLogger("andon.service")

T = TypeVar("T")
R = TypeVar("R")

_SLICE = 50
"""Tasks of a bulk submit that are worked on before others get their turn: some 2 ms."""

_CHECKED = 200
"""Submissions of another engine that are looked at before others get their turn: 1 ms."""

_MOST_IN_FLIGHT = 6
"""Slices of one bulk submit that the store has at once."""


def submission_of(task: NewTask, registry: Registry, queue_elsewhere: str | None) -> Submission:
    """The submission. Raises `InvalidSubmission` for errors that can be found here.

    A task type of this application is checked against its handler's signature, and a task that
    names no queue goes to the type's own. `queue_elsewhere` is the queue for one of another type.
    """
    known = registry.get(task.name, task.version)
    args = _args(task)
    invalid = ""
    if known is None:
        queue = queue_elsewhere if task.queue is None else task.queue
    else:
        queue = known.queue if task.queue is None else task.queue
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
        needs=task.needs,
        load_dependencies=task.load_dependencies,
        unique_key=unique_key,
        on_held=task.on_held,
        supersede_active=task.supersede_active,
        max_delay=task.max_delay,
        key=task.key,
        group=task.group,
        group_owner=task.group_owner,
        scopes=tuple(task.scopes),
        tags=tuple(task.tags),
        headers=task.headers,
        options=task.options,
        invalid=invalid,
        **fields,
    )


def _args(task: NewTask) -> bytes:
    if task.payload_base64 is None:
        args = bytes(task.args)
        check_args(args)
        return args
    if task.args is not NO_ARGUMENTS:
        raise InvalidSubmission("Give args or payload_base64, not both.", field="payload_base64")
    return msgspec.json.encode(task.payload_base64)  # what the handler's own codec makes of bytes


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
    return ""


def check_args(args: bytes) -> None:
    """Raise `InvalidSubmission` for arguments that are no JSON: stored arguments are pasted into
    the answers to workers, so they are checked first, and never recorded."""
    try:
        payloads.parse(args)
    except ValueError as error:
        raise InvalidSubmission(f"The arguments are not JSON: {error}.", field="args") from None


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


async def submit_one(request: "Request", task: NewTask, key: str | None = None) -> Submitted:
    """Store one task; `key`: its `Idempotency-Key`. Raises the error of a refusal."""
    service = request.service
    if key is not None:
        if task.id is not None:
            raise idempotency.not_both()
        task.id = idempotency.id_of(request, "tasks", key)
    submission = submission_of(task, service.app.registry, service.app.queue_elsewhere)
    request.need_to_submit(submission)
    [outcome] = await service.engine.submit([submission])
    if outcome.error is not None:
        if key is not None and isinstance(outcome.error, TaskConflict):
            raise idempotency.reused()
        raise _as_sent(outcome.error, submission)
    return outcome


_SENT_AS = {"task": "name", "dependencies": "depends_on"}
"""Fields that requests call otherwise than submissions do."""


def _as_sent(error: AndonError, submission: Submission) -> AndonError:
    """The error, with its field as the request called it."""
    if isinstance(error, InvalidSubmission):
        field = _SENT_AS.get(error.field, error.field)
        if field == "run_at" and submission.delay is not None:
            field = "delay"
        elif field == "deadline" and submission.deadline_in is not None:
            field = "deadline_in"
        elif field in submission.options or field not in NewTask.__struct_fields__:
            field = f"options.{field}" if submission.options else field
        error.field = field
    return error


async def submit_many(
    request: "Request", tasks: list[NewTask], key: str | None = None
) -> BulkAccepted:
    """Store many tasks, each on its own; one entry for each, in the order given. With a `key`, its
    `Idempotency-Key`, those without an id of their own are known by their place."""
    service = request.service
    count = len(tasks) + len(request.unread)
    if count > service.settings.max_bulk:
        raise invalid(
            f"At most {service.settings.max_bulk:,} tasks in one request, not {count:,}.",
            field="tasks",
        )
    if key is not None:
        request.stem = idempotency.id_of(request, "bulk", key)
        _name(tasks, request.stem, request.unread)
    # Only tasks that depend on others in the request have to reach the engine together with them.
    size = len(tasks) if any(task.depends_on for task in tasks) else _SLICE
    ids: set[str] = set()

    async def begin(some: Sequence[NewTask]) -> Coroutine[Any, Any, list[BulkItem]]:
        return _stored(request, await _converted(request, some, ids))

    unread = {place: _refused("", problem) for place, problem in request.unread.items()}
    answered = in_places(await _in_slices(service, tasks, size, begin), unread)
    refused = sum(item.error is not None for item in answered)
    return BulkAccepted(len(answered) - refused, refused, answered)


def _name(tasks: Sequence[NewTask], stem: str, unread: Collection[int]) -> None:
    """Give ids to the tasks that have none, by their places among all entries."""
    place = 0
    for task in tasks:
        while place in unread:
            place += 1
        if task.id is None:
            task.id = f"{stem}:{place}"
        place += 1


async def submit_as_given(
    request: "Request", submissions: Sequence[Submission]
) -> Sequence[Submitted]:
    """Store what another engine made, each on its own; one outcome for each, in the order given."""
    refused: dict[int, Submitted] = {}
    caller = cast("Caller", request.caller)
    for place, one in enumerate(submissions):
        if place % _CHECKED == _CHECKED - 1:
            await asyncio.sleep(0)  # others get their turn in between
        try:
            _require(request.service, caller, one)
            check_args(one.args)
        except AndonError as error:
            refused[place] = Submitted(one.id, None, created=False, error=error)
    if len(refused) == len(submissions):
        for outcome in refused.values():
            if isinstance(outcome.error, PermissionRefused):
                raise outcome.error
    if refused:
        submissions = [one for place, one in enumerate(submissions) if place not in refused]
    return in_places(await _submit_as_given(request.service, submissions), refused)


def follow_ups_as_given(
    request: "Request", submissions: Sequence[Submission]
) -> tuple[Submission, ...]:
    """What another engine reports with a run, if the caller may submit it. Raises
    `PermissionRefused` and `InvalidSubmission`."""
    caller = cast("Caller", request.caller)
    for one in submissions:
        _require(request.service, caller, one)
        check_args(one.args)
    return tuple(submissions)


def _require(service: "Service", caller: "Caller", submission: Submission) -> None:
    """Raise `PermissionRefused` unless the caller may submit this."""
    for scope in needed_to_submit(submission, service.engine.resolver.queue_of(submission)):
        caller.require(scope)


def follow_ups_of(request: "Request", tasks: Sequence[NewTask], run: str) -> tuple[Submission, ...]:
    """What a worker reports with its run, whose random id is given, if the caller may submit it.
    Those without an id get the same one in every repeat of the report. Raises `PermissionRefused`
    and `InvalidSubmission`."""
    app = request.service.app
    submissions: list[Submission] = []
    for place, task in enumerate(tasks):
        if task.id is None:
            task.id = birth_id(run, place)
        try:
            submissions.append(submission_of(task, app.registry, app.queue_elsewhere))
        except InvalidSubmission as error:
            error.field = f"{FIELD}.{place}.{_SENT_AS.get(error.field, error.field)}"
            raise
    return follow_ups_as_given(request, submissions)


async def _submit_as_given(
    service: "Service", submissions: Sequence[Submission]
) -> Sequence[Submitted]:
    if len(submissions) <= MAX_BATCH or any(one.dependencies for one in submissions):
        return await service.engine.submit(submissions)

    async def begin(some: Sequence[Submission]) -> Coroutine[Any, Any, list[Submitted]]:
        return service.engine.submit(some)

    return await _in_slices(service, submissions, MAX_BATCH, begin)


async def _in_slices(
    service: "Service",
    items: Sequence[T],
    size: int,
    begin: Callable[[Sequence[T]], Awaitable[Coroutine[Any, Any, list[R]]]],
) -> list[R]:
    """The outcomes of all items. `begin` prepares a slice and returns the function that stores it.
    Slices of many requests are prepared one after the other, and other coroutines get their turn in
    between."""
    writing: deque[asyncio.Task[list[R]]] = deque()
    done: list[R] = []
    try:
        for start in range(0, len(items), max(size, 1)):
            async with service.long_work:
                writing.append(asyncio.ensure_future(await begin(items[start : start + size])))
                await asyncio.sleep(0)
            if len(writing) == _MOST_IN_FLIGHT:
                done += await writing.popleft()
        while writing:
            done += await writing.popleft()
    finally:
        # One failed, or the caller was cancelled: what was handed over is written all the same.
        await asyncio.gather(*writing, return_exceptions=True)
    return done


async def _converted(
    request: "Request", tasks: Sequence[NewTask], ids: set[str]
) -> list[Submission | BulkItem]:
    """A submission of each, or how it was refused; `ids` are those seen in the request so far."""
    app = request.service.app
    some: list[Submission | BulkItem] = []
    for number, task in enumerate(tasks, 1):
        try:
            submission = submission_of(task, app.registry, app.queue_elsewhere)
            if submission.id in ids:
                raise InvalidSubmission(
                    f"The id {submission.id!r} is given twice in this request.", field="id"
                )
            request.need_to_submit(submission)
        except (AndonError, Problem) as error:
            some.append(_refused(task.id or "", error))
            continue
        except Exception:  # an internal error, and no reason to refuse the others
            log.exception("a task of a bulk submit could not be read")
            some.append(_refused(task.id or "", unexpected()))
            continue
        ids.add(submission.id)
        some.append(submission)
        if number % _SLICE == 0:
            await asyncio.sleep(0)  # others get their turn in between
    return some


async def _stored(request: "Request", some: list[Submission | BulkItem]) -> list[BulkItem]:
    """How each ended, in order."""
    submissions = [one for one in some if isinstance(one, Submission)]
    outcomes = iter(await request.service.engine.submit(submissions) if submissions else ())
    return [
        one if isinstance(one, BulkItem) else _item(request, next(outcomes), one) for one in some
    ]


def _item(request: "Request", outcome: Submitted, submission: Submission) -> BulkItem:
    by_key = bool(request.stem) and outcome.id.startswith(request.stem)
    if outcome.error is None:
        return BulkItem(outcome.id, outcome.state, outcome.created or by_key)
    if by_key and isinstance(outcome.error, TaskConflict):
        problem = idempotency.reused()
    else:
        problem = problem_of(_as_sent(request.told(outcome.error), submission))
    return BulkItem(outcome.id, outcome.state, outcome.created, problem.document)


def _refused(task_id: str, error: AndonError | Problem) -> BulkItem:
    problem = error if isinstance(error, Problem) else problem_of(error)
    return BulkItem(task_id, None, created=False, error=problem.document)
