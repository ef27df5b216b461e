"""Bodies of requests about schedules, and what they mean.

Times are ISO 8601 with a zone, or whole milliseconds since 1970 UTC; durations are seconds.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from andon.engine.base import Submission
from andon.model.recurrence import Recurrence
from andon.service.bodies import NO_ARGUMENTS, Moment, Name, NewTask, Priority
from andon.service.submitting import moment_ms, submission_of
from andon.worker.registry import Registry

_MOMENTS = ("anchor", "start", "end")

Expressions = Annotated[
    str | list[str],
    Meta(
        description="A cron expression, or several; a time that several name counts once.",
        examples=["0 2 * * *"],
    ),
]
Overlap = Annotated[
    Literal["allow", "skip", "queue", "replace"],
    Meta(
        description="What becomes of a task while the one before has not ended: it runs beside it, "
        "is left out, waits for its end, or takes its place, for which that one is cancelled."
    ),
]
CatchUp = Annotated[
    Literal["latest", "none", "all"],
    Meta(description="What is made up for after an outage; `latest` if nothing is said."),
]


class Times(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """When a schedule fires. What is left out is as it is by default, or stays."""

    cron: Expressions | UnsetType = UNSET
    every: Annotated[
        int | UnsetType | None, Meta(description="Whole seconds, instead of `cron`.")
    ] = UNSET
    anchor: Annotated[
        Moment | UnsetType | None, Meta(description="With `every`: counted from this time.")
    ] = UNSET
    tz: Annotated[
        str | UnsetType, Meta(description="Whose clocks `cron` and `exclude` go by; else UTC.")
    ] = UNSET
    exclude: Annotated[
        str | list[str] | UnsetType,
        Meta(description="Local times that are left out.", examples=[["2026-12-25"]]),
    ] = UNSET
    start: Moment | UnsetType | None = UNSET
    end: Moment | UnsetType | None = UNSET
    count: int | UnsetType | None = UNSET
    jitter: float | UnsetType = UNSET
    catch_up: CatchUp | UnsetType = UNSET
    catch_up_window: float | UnsetType | None = UNSET


class ScheduledTask(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What each occurrence is."""

    name: Name
    args: Annotated[
        msgspec.Raw | UnsetType, Meta(description="An object, an array, or one value.")
    ] = UNSET
    payload_base64: bytes | UnsetType = UNSET
    version: Annotated[int, Meta(ge=0, le=2_147_483_647)] | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    deadline_in: Annotated[
        float | UnsetType | None,
        Meta(description="Seconds that each has until it must have ended."),
    ] = UNSET
    key: Annotated[str | UnsetType | None, Meta(description="Concurrency key.")] = UNSET
    group: str | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET
    options: Annotated[
        dict[str, Any] | UnsetType, Meta(description="Policy options of each task.")
    ] = UNSET


class ChangedTask(ScheduledTask, forbid_unknown_fields=True, kw_only=True):
    """What is to be other of each occurrence."""

    name: Name | UnsetType = UNSET  # type: ignore[assignment]


class NewSchedule(Times, forbid_unknown_fields=True, kw_only=True):
    """What a schedule is to be. Sent again, it is the same schedule."""

    task: ScheduledTask
    overlap: Overlap = "allow"
    pause_after: Annotated[int | None, Meta(description="So many failures in a row pause it.")] = (
        None
    )


class ScheduleChanges(Times, forbid_unknown_fields=True, kw_only=True):
    """What is to be other of a schedule; null takes a bound away, what is left out stays."""

    task: ChangedTask | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    pause_after: int | UnsetType | None = UNSET


class Backfilling(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The times whose tasks are to be submitted: from `start` to before `end`."""

    start: Moment
    end: Moment
    yes: Annotated[bool, Meta(description="Also if there are more than 1,000.")] = False
    dry_run: Annotated[bool, Meta(description="Only say how many it would be.")] = False


def times_given(times: Times) -> dict[str, Any]:
    """The fields of a `Recurrence` that were given. Raises `InvalidSubmission`."""
    fields: dict[str, Any] = {}
    for name in Recurrence.__struct_fields__:
        value: Any = getattr(times, name)
        if value is UNSET:
            continue
        if name in ("cron", "exclude"):
            value = (value,) if isinstance(value, str) else tuple(value)
        elif name in _MOMENTS and value is not None:
            value = moment_ms(name, value)
        fields[name] = value
    return fields


def task_given(
    task: ScheduledTask,
    registry: Registry,
    queue_elsewhere: str | None,
    before: Submission | None = None,
) -> tuple[Submission, dict[str, Any]]:
    """What each occurrence is, checked like a task that is submitted, and the fields of it that
    were given, as a submission calls them. `before`: what it was, whose name and arguments hold
    where there are no others. Raises `InvalidSubmission`."""
    said = {
        name: value
        for name in task.__struct_fields__
        if (value := getattr(task, name)) is not UNSET
    }
    new = {name: value for name, value in said.items() if value is not None}
    if before is not None:
        new.setdefault("name", before.name)
        new.setdefault("version", before.version)
        if "payload_base64" not in new:
            new.setdefault("args", msgspec.Raw(before.args))
    new.setdefault("args", NO_ARGUMENTS)
    submission = replace(submission_of(NewTask(**new), registry, queue_elsewhere), id="")
    if "payload_base64" in said:
        said["args"] = said.pop("payload_base64")
    fields = {name: getattr(submission, name) for name in said}
    if "name" in fields:
        fields["task"] = fields.pop("name")
    if submission.invalid:
        fields["invalid"] = submission.invalid
    return submission, fields
