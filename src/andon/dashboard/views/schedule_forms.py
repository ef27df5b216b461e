"""A schedule as a form: each field is a text, parsed back into the changes. Pure.

A form knows the text of each field when it was drawn first, and a digest of each part of the
schedule then. Only fields that were written anew are changed, and a change is refused if another
user has changed the same part in between.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from andon.engine.base import Submission
from andon.engine.schedule_requests import ScheduleRequest
from andon.engine.schedule_views import changed, schedule_of
from andon.lifecycle import payloads
from andon.lifecycle.schedules import BY_HAND, part_as_read
from andon.model.durations import duration_text, seconds_of
from andon.model.errors import InvalidSubmission
from andon.model.recurrence import ExplainedTime, Recurrence

if TYPE_CHECKING:
    from andon.dashboard.requests import Fields
    from andon.dashboard.views.bodies import Body
    from andon.model.task import Task

NO_ARGUMENTS = b"{}"


class ScheduleForm(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a form, as they are and as they were at first, and what is wrong with them."""

    name: str = ""
    is_new: bool = True
    values: dict[str, str] = {}
    was: dict[str, str] = {}  #: the fields when the form was drawn first
    parts: dict[str, str] = {}  #: digests of the schedule's parts at that time
    hides: bool = False  #: not all of its arguments are shown, so an empty text leaves them
    wrong: str = ""  #: why it is refused; empty: nothing is wrong
    field: str = ""  #: the field that is wrong, if it is one
    times: tuple[ExplainedTime, ...] | None = None  #: its next times; None: not requested

    def written(self) -> set[str]:
        """The fields to parse: all of a new schedule, else those that were written anew."""
        return {
            field
            for field in FIELDS
            if self.is_new or _plain(self.values.get(field, "")) != _plain(self.was.get(field, ""))
        }


# --- how fields are read ---


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line for one in text.split("\n") if (line := one.strip()))


def _args(text: str) -> bytes:
    if not text:
        return NO_ARGUMENTS
    args = text.encode("utf-8", "surrogatepass")
    try:
        value = payloads.parse(args)
    except ValueError as error:
        raise ValueError(f"The arguments are not JSON: {error}.") from None
    if not isinstance(value, dict | list):
        raise ValueError("Arguments are a JSON object of named ones, or a list.")
    return args


def _every(text: str) -> int | float | None:
    if not text:
        return None
    seconds = seconds_of(text)
    return int(seconds) if seconds == int(seconds) else seconds


def _jitter(text: str) -> float:
    return seconds_of(text) if text else 0.0


def _count(text: str) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no number.") from None


FIELDS: dict[str, Callable[[str], Any]] = {
    "task": str,
    "queue": lambda text: text or None,
    "args": _args,
    "cron": _lines,
    "every": _every,
    "tz": lambda text: text or "UTC",
    "exclude": _lines,
    "jitter": _jitter,
    "catch_up": str,
    "overlap": str,
    "pause_after": _count,
}
"""The fields of a form, and how each is parsed."""

_TIMES = frozenset(Recurrence.__struct_fields__)
_START = {"tz": "UTC", "catch_up": "latest", "overlap": "allow"}


# --- forms ---


def new_form() -> ScheduleForm:
    """The form of a new schedule."""
    return ScheduleForm(values=dict(_START))


def form_of(task: "Task", args: "Body | None") -> ScheduleForm:
    """The form of a schedule as it is; `args` are its arguments as they may be shown."""
    schedule = schedule_of(task, task.id)
    r, exact = schedule.recurrence, args is not None and args.is_exact
    values = {
        "task": schedule.template.name,
        "queue": schedule.template.queue,
        "args": args.text if args is not None and exact else "",
        "cron": "\n".join(r.cron),
        "every": "" if r.every is None else duration_text(r.every),
        "tz": r.tz,
        "exclude": "\n".join(r.exclude),
        "jitter": duration_text(r.jitter) if r.jitter else "",
        "catch_up": r.catch_up,
        "overlap": schedule.overlap,
        "pause_after": "" if schedule.pause_after is None else str(schedule.pause_after),
    }
    return ScheduleForm(
        name=task.id,
        is_new=False,
        values=values,
        was=values,
        parts={part: part_as_read(schedule, part) for part in BY_HAND},
        hides=not exact,
    )


def sent_form(fields: "Fields") -> ScheduleForm:
    """The form as it was sent."""
    return ScheduleForm(
        name=fields.get("schedule").strip(),
        is_new=bool(fields.get("is-new")),
        values={field: fields.get(field) for field in FIELDS},
        was={field: fields.get(f"was-{field}") for field in FIELDS},
        parts={part: fields.get(f"part-{part}") for part in BY_HAND},
        hides=bool(fields.get("hides")),
    )


def refused(form: ScheduleForm, error: Exception) -> ScheduleForm:
    """The form with what is wrong with it."""
    field = error.field if isinstance(error, InvalidSubmission) else ""
    return replace(form, wrong=str(error), field=_CALLED.get(field, field), times=None)


_CALLED = {"": "", "name": "schedule"}
"""Fields of a schedule that have another name in a form."""


# --- what a form asks for ---


def new_request(form: ScheduleForm) -> ScheduleRequest:
    """The schedule that the form describes. Raises `InvalidSubmission`, naming the field."""
    given = _read(form.values, form.written())
    name = given.pop("task")
    if not name:
        raise InvalidSubmission("Name the task that is to be submitted.", field="task")
    times = {field: given.pop(field) for field in sorted(_TIMES & given.keys())}
    task = Submission(id="", name=name, queue=given.pop("queue"), args=given.pop("args"))
    return ScheduleRequest(name=form.name, recurrence=Recurrence(**times), task=task, **given)


def changed_request(form: ScheduleForm, there: "Task") -> ScheduleRequest | None:
    """The schedule as it is, with the fields that were written anew; None if there are none. It is
    refused later if the same part is not as it was when the form was drawn. Raises
    `InvalidSubmission`."""
    fields = _read(form.values, form.written())
    if not fields:
        return None
    if fields.keys() & {"cron", "every"}:
        # Both are set, so that a form with both is refused with a message, and neither is dropped
        # silently.
        fields |= _read(form.values, {"cron", "every"})
        if fields["every"] is None:
            fields["anchor"] = None
    if fields.get("task") == "":
        raise InvalidSubmission("Name the task that is to be submitted.", field="task")
    request = changed(there, fields)
    # A form without the digest of a part is refused, too: no digest equals this one.
    parts = {part: form.parts.get(part) or "-" for part in request.parts or ()}
    return replace(request, parts=parts)


def _read(values: Mapping[str, str], wanted: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, read in FIELDS.items():
        if field not in wanted:
            continue
        try:
            found[field] = read(_plain(values.get(field, "")))
        except (ValueError, OverflowError) as error:
            raise InvalidSubmission(str(error), field=field) from None
    return found


def _plain(text: str) -> str:
    """A text with the line ends of browsers replaced, and without spaces around it."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()
