"""Adds and changes schedules on the board: reads for their form, and carries it out.

An invalid form is shown again with what was written and where it is wrong. A schedule cannot submit
what its visitor may not submit: making one needs the scopes that a submit of its tasks needs, and
changing one needs those to change tasks of its queues.
"""

import asyncio
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import quote

from msgspec.structs import replace

from andon.dashboard.acting import need
from andon.dashboard.answers import Done, Shown
from andon.dashboard.pages import schedule_forms as page
from andon.dashboard.patience import within
from andon.dashboard.requests import Fields, Refused
from andon.dashboard.views.schedule_forms import (
    ScheduleForm,
    changed_request,
    form_of,
    new_form,
    new_request,
    refused,
    sent_form,
)
from andon.engine.schedule_requests import HasSchedules, ScheduleRequest
from andon.engine.schedule_views import queues_of, request_of
from andon.engine.type_queues import with_queues
from andon.lifecycle.routing import route
from andon.model.errors import InvalidSubmission, StoreError
from andon.model.scopes import needed_to_submit
from andon.model.words import DEFAULT_QUEUE

if TYPE_CHECKING:
    from andon.dashboard.access import Visitor
    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Reader
    from andon.engine.base import Engine, Submission
    from andon.engine.policy_resolver import PolicyResolver
    from andon.engine.schedule_requests import How, ScheduleKeeper
    from andon.model.recurrence import ExplainedTime
    from andon.model.task import Task

_TIMES = 10


@runtime_checkable
class _HasBook(Protocol):
    """An engine that also knows the queues of this process's own task types."""

    @property
    def resolver(self) -> "PolicyResolver": ...


class Scheduling:
    """The forms of schedules of a board."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader

    # --- pages ---

    async def new(self, place: "Place") -> Shown:
        """The form of a new schedule."""
        if not may_make_some(place.visitor):
            raise Refused(403, "Not allowed", "This needs a scope tasks:create:…, which you lack.")
        _keeper(await self._reader.engine())
        return await self._shown(place, new_form())

    async def edited(self, place: "Place", name: str) -> Shown:
        """The form of a schedule as it is. Raises `Refused` if the visitor may not change it."""
        engine = await self._reader.engine()
        _keeper(engine)
        task = await _changeable(engine, place.visitor, name)
        return await self._shown(place, self._form_of(task))

    def _form_of(self, task: "Task") -> ScheduleForm:
        assert task.status.schedule is not None
        return form_of(task, self._reader.redaction.seen(task.status.schedule.template.args))

    async def _shown(self, place: "Place", form: ScheduleForm, status: int = 200) -> Shown:
        title = "New schedule" if form.is_new else f"Edit schedule {form.name}"
        now = (await self._reader.engine()).now()
        return Shown(title, list(page.content(place, form, now)), status=status)

    # --- acts ---

    async def preview(self, fields: Fields, place: "Place") -> Done:
        """Show the next times that the schedule would have; nothing is changed."""
        form = sent_form(fields)
        try:
            engine, request, there = await self._asked(form, place.visitor)
            times = await asyncio.to_thread(_next_times, request, there, engine.now())
        except InvalidSubmission as error:
            return Done(page=await self._shown(place, refused(form, error)))
        return Done(page=await self._shown(place, replace(form, times=tuple(times))))

    async def add(self, fields: Fields, place: "Place") -> Done:
        """Make a schedule."""
        return await self._put(replace(sent_form(fields), is_new=True), place, "add")

    async def edit(self, fields: Fields, place: "Place") -> Done:
        """Change the fields of a schedule that were written anew, unless another user has changed
        them meanwhile."""
        return await self._put(replace(sent_form(fields), is_new=False), place, "edit")

    async def _put(self, form: ScheduleForm, place: "Place", how: "How") -> Done:
        to = f"/schedules/{quote(form.name, safe='')}"
        try:
            engine, request, _ = await self._asked(form, place.visitor)
            if how == "edit" and not form.written():
                return Done("There was nothing to do.", to)
            [outcome] = await within(_keeper(engine).put([request], how))
        except InvalidSubmission as error:
            return Done(page=await self._shown(place, refused(form, error)))
        if outcome.error is not None:
            if isinstance(outcome.error, StoreError):
                raise outcome.error
            return Done(page=await self._shown(place, refused(form, outcome.error)))
        self._reader.forget()
        done = "is made" if how == "add" else "is changed"
        note = await _unknown(engine, request.task)
        return Done(f"Schedule {form.name} {done}.{note}", to)

    async def _asked(
        self, form: ScheduleForm, visitor: "Visitor"
    ) -> "tuple[Engine, ScheduleRequest, Task | None]":
        """The schedule that the form describes, with the queue of its tasks, checked against the
        visitor's scopes. Raises `Refused`, and `InvalidSubmission` naming the field."""
        engine = await self._reader.engine()
        _keeper(engine)
        there = None
        if form.is_new:
            if not may_make_some(visitor):
                raise Refused(
                    403, "Not allowed", "This needs a scope tasks:create:…, which you lack."
                )
            request = new_request(form)
        else:
            there = await _changeable(engine, visitor, form.name)
            request = changed_request(form, there) or request_of(there)
        queue = await _queue_of(engine, request.task)
        for scope in needed_to_submit(request.task, queue):
            need(visitor, scope)
        return engine, replace(request, task=replace(request.task, queue=queue)), there


def may_make_some(visitor: "Visitor") -> bool:
    """Whether the visitor may make schedules of some queue."""
    return visitor.may_some("tasks:create:")


def may_edit(visitor: "Visitor", task: "Task") -> bool:
    """Whether the visitor may change a schedule, as far as is known beforehand."""
    schedule = task.status.schedule
    if schedule is None:
        return False
    needed = needed_to_submit(schedule.template, schedule.template.queue)
    return all(map(visitor.may, [*needed, *(f"tasks:change:{q}" for q in queues_of(task))]))


def _keeper(engine: "Engine") -> "ScheduleKeeper":
    if not isinstance(engine, HasSchedules):
        raise Refused(404, "Not here", "There are no schedules here.")
    return engine.schedules


async def _changeable(engine: "Engine", visitor: "Visitor", name: str) -> "Task":
    [task] = await within(engine.get([name]))
    if task is None or task.status.schedule is None:
        raise Refused(404, "Not here", f"There is no schedule {name[:100]!r}.")
    queues = sorted(queues_of(task))
    if not all(visitor.may(f"tasks:read:{queue}") for queue in queues):
        raise Refused(404, "Not here", f"There is no schedule {name[:100]!r}.")
    for queue in queues:
        need(visitor, f"tasks:change:{queue}")
    return task


async def _queue_of(engine: "Engine", task: "Submission") -> str:
    if isinstance(engine, _HasBook):
        return engine.resolver.queue_of(task)
    [settled] = await within(with_queues(engine, [task]))
    return settled.queue or DEFAULT_QUEUE


def _next_times(request: ScheduleRequest, there: "Task | None", now: int) -> "list[ExplainedTime]":
    """The next times that a schedule would have. In a thread: some expressions take a while."""
    from andon.lifecycle.recurrence.checking import check
    from andon.lifecycle.recurrence.explaining import explain
    from andon.lifecycle.recurrence.occurrences import check_name, jitter_ms

    check_name(request.name)
    check(request.recurrence)
    schedule = None if there is None else there.status.schedule
    fired = 0 if schedule is None else schedule.fired
    after = now
    if schedule is not None and schedule.recurrence == request.recurrence:
        # if the times do not change, one whose jitter is not over is still to come
        after = max(schedule.after, now - jitter_ms(request.recurrence, request.name))
    return explain(request.recurrence, request.name, after=after, most=_TIMES, fired=fired)


async def _unknown(engine: "Engine", task: "Submission") -> str:
    """The message if no worker has code for the task, so that it will wait."""
    types = {(kind.name, kind.version) for kind in await within(engine.types())}
    if route(types, task.name, task.version) is not None:
        return ""
    return (
        f" No worker has published a task type {task.name!r} so far; it waits in queue "
        f"{task.queue!r} for one that does."
    )
