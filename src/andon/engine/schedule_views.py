"""Schedules as JSON, and changes of them by hand.

What is shown as JSON has the names that a schedule is made with, so that what was read can be sent
back with a change. The times are imported when they are asked for: most processes never see one.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from andon.engine.base import Submission
from andon.engine.schedule_requests import Backfilled, ScheduleRequest
from andon.lifecycle.faces.fields import Fields, bytes_of, decoded, iso, maybe_iso
from andon.lifecycle.schedules import part_as_read
from andon.model.errors import ConfigurationError, InvalidSubmission, TaskNotFound
from andon.model.policy import Policy
from andon.model.recurrence import ExplainedTime, Recurrence
from andon.model.task import Definition, Schedule, Task
from andon.model.words import TERMINAL, State

_MOST_NAMED = 100
"""Refused tasks that are named one by one."""

_MOMENTS = ("anchor", "start", "end")
_TIMES = frozenset(Recurrence.__struct_fields__)
_OF_THE_TASK = frozenset(Submission.__struct_fields__)
_OF_THE_SCHEDULE = frozenset({"overlap", "pause_after"})


def schedule_of(task: Task | None, name: str) -> Schedule:
    """The schedule that a record is. Raises `TaskNotFound` where there is none."""
    if task is None or task.status.schedule is None:
        raise TaskNotFound(name)
    return task.status.schedule


def is_paused(task: Task) -> bool:
    """Whether it is a live schedule that does not fire."""
    schedule = task.status.schedule
    return task.state is State.RECURRING and schedule is not None and bool(schedule.paused_at)


def next_due(task: Task) -> int | None:
    """When a schedule fires next, ms UTC; None while it is paused, and when it has ended."""
    fires = task.state is State.RECURRING and not is_paused(task)
    return schedule_of(task, task.id).next_due if fires else None


def queues_of(task: Task) -> set[str]:
    """The queues that a schedule belongs to: that of its record, and that of the tasks it bears."""
    schedule = task.status.schedule
    borne = () if schedule is None else (schedule.template.queue,)
    return {task.definition.queue, *borne}


def next_times(task: Task, now: int, most: int) -> list[ExplainedTime]:
    """Its next times after `now`, at most so many, explained; of a paused one, those that it would
    have if it were resumed now; none of one that has ended."""
    from andon.lifecycle.recurrence.explaining import explain
    from andon.lifecycle.recurrence.occurrences import jitter_ms

    schedule = schedule_of(task, task.id)
    if task.state is not State.RECURRING:
        return []
    shift = jitter_ms(schedule.recurrence, task.id)
    dealt_with = now if is_paused(task) else schedule.after
    after = max(dealt_with, now - shift)
    return explain(schedule.recurrence, task.id, after=after, most=most, fired=schedule.fired)


def declared_no_more(
    live: Iterable[Task], application: str, declared: Collection[str]
) -> list[str]:
    """The names of the schedules that an application declared once and does not any more. Raises
    `ConfigurationError` if no application is named: those made by hand belong to none."""
    if not application:
        raise ConfigurationError("Name the application whose schedules are to be pruned.")
    return [
        task.id
        for task in live
        if schedule_of(task, task.id).application == application and task.id not in declared
    ]


# --- shown ---


def schedule_document(task: Task, last: Task | None = None) -> Fields:
    """A schedule as JSON has it. `last` is its newest occurrence, as far as that is known."""
    schedule, s = schedule_of(task, task.id), task.status
    return {
        "name": task.id,
        "state": task.state.value,
        "paused_at": maybe_iso(schedule.paused_at),
        "reason": s.reason,
        **times_document(schedule.recurrence),
        "task": _task_document(schedule),
        "overlap": schedule.overlap,
        "pause_after": schedule.pause_after,
        "application": schedule.application or None,
        "release": schedule.release or None,
        "fired": schedule.fired,
        "failures": schedule.failures,
        "last_id": schedule.last_id or None,
        "last_state": None if last is None else last.state.value,
        "next_at": maybe_iso(next_due(task)),
        "owes": [one.id for one in s.owes],
        "created_at": iso(s.created_at),
        "finished_at": maybe_iso(s.finished_at),
        "revision": s.revision,
    }


def times_document(recurrence: Recurrence) -> Fields:
    """When it fires."""
    fields: Fields = asdict(recurrence)
    return fields | {name: maybe_iso(fields[name]) for name in _MOMENTS}


def _task_document(schedule: Schedule) -> Fields:
    d = schedule.template
    args = decoded(d.args)
    return {
        "name": d.name,
        "version": d.version,
        "queue": d.queue,
        "priority": d.priority,
        "args": args,
        **bytes_of("payload_base64", d.args, args),
        "deadline_in": schedule.deadline_in,
        "key": d.key,
        "group": d.group,
        "tags": list(d.tags),
        "headers": dict(d.headers),
        "scopes": list(d.scopes),
        "policy": msgspec.to_builtins(d.policy),
    }


def time_document(time: ExplainedTime) -> Fields:
    """One of its times."""
    found = time.occurrence
    return {
        "id": found.id,
        "at": iso(found.at),
        "due": iso(found.due),
        "local": time.local,
        "notes": list(time.notes),
    }


def together(done: Backfilled, more: Backfilled) -> Backfilled:
    """How two parts of one backfill ended; the range is that of the first."""
    refused = (*done.refused, *more.refused)
    return Backfilled(
        done.range,
        done.created + more.created,
        done.existed + more.existed,
        refused[:_MOST_NAMED],
        done.more_refused + more.more_refused + max(0, len(refused) - _MOST_NAMED),
    )


# --- changed by hand ---


def request_of(task: Task) -> ScheduleRequest:
    """What would make the schedule as it is."""
    schedule = schedule_of(task, task.id)
    d = schedule.template
    submission = Submission(
        id="",
        name=d.name,
        version=d.version,
        queue=d.queue,
        args=d.args,
        priority=d.priority,
        deadline_in=schedule.deadline_in,
        load_dependencies=d.load_dependencies,
        key=d.key,
        group=d.group,
        scopes=d.scopes,
        tags=d.tags,
        headers=d.headers,
        options=_options(d),
    )
    return ScheduleRequest(
        name=task.id,
        recurrence=schedule.recurrence,
        task=submission,
        overlap=schedule.overlap,
        pause_after=schedule.pause_after,
    )


def _options(d: Definition) -> dict[str, Any]:
    """Options that give the task the policy it has, so that the policy stays the same when
    something else is changed. For a type that was not known at its submit, the options that were
    given themselves (docs/rulings.md, R5)."""
    if not d.type_known:
        return d.policy_given
    retention = d.policy.retention
    kept = {state.value: retention.of(state.value) for state in TERMINAL}
    return {
        **{name: getattr(d.policy, name) for name in Policy.__struct_fields__},
        "retention": kept,
    }


def changed(task: Task, changes: Mapping[str, Any]) -> ScheduleRequest:
    """The request that changes these fields of the schedule: of its times, of its task (whose name
    is called `task`; or all of it, as a submission), or its own. Cron expressions replace an
    interval, and an interval replaces them. Options are added to those there are. It is refused
    later if the same part of the schedule has been changed by then. Raises `InvalidSubmission` for
    a field that there is none of."""
    request, schedule, fields = request_of(task), schedule_of(task, task.id), dict(changes)
    whole = fields.pop("task", None)
    if isinstance(whole, Submission):
        request = replace(request, task=whole)
    elif whole is not None:
        fields["name"] = whole
    parts = {name for name in fields if name in _OF_THE_SCHEDULE}
    parts |= {"times"} if fields.keys() & _TIMES else set[str]()
    parts |= {"task"} if fields.keys() - _TIMES - parts or whole is not None else set[str]()
    times = {name: fields.pop(name) for name in _TIMES & fields.keys()}
    if times.get("cron") and "every" not in times:
        times |= {"every": None, "anchor": times.get("anchor")}
    elif times.get("every") is not None and "cron" not in times:
        times["cron"] = ()
    own = {name: fields.pop(name) for name in _OF_THE_SCHEDULE & fields.keys()}
    if "options" in fields:
        fields["options"] = {**request.task.options, **fields["options"]}
    if fields.keys() - _OF_THE_TASK:
        name = min(fields.keys() - _OF_THE_TASK)
        raise InvalidSubmission(f"A schedule has no {name!r}.", field=name)
    return replace(
        request,
        recurrence=replace(request.recurrence, **times),
        task=replace(request.task, **fields),
        parts={part: part_as_read(schedule, part) for part in sorted(parts)},
        **own,
    )
