"""Shared by the faces: times, errors, counts and the entry of a history. Pure.

Times are ISO 8601 in UTC ending in Z, each of a face with as many digits as the others, so that
their texts sort. A field that has no value yet is left out where the system leaves it out
(`given`), else None.
"""

import base64
import re
from datetime import date
from functools import lru_cache
from typing import Any

import msgspec

from andon.lifecycle import payloads
from andon.lifecycle.admission import LATEST_MS
from andon.model.policy import Policy
from andon.model.task import Task, TaskError
from andon.model.words import Reason, State

Fields = dict[str, Any]

_EPOCH = date(1970, 1, 1).toordinal()
_MINUTE_MS = 60_000
_MINUTES_A_DAY = 24 * 60
_ENDS_OF_A_COUNTED_RUN = frozenset({State.COMPLETED, State.FAILED, State.STALLED, State.DROPPED})


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One name that a move is shown as, with what the systems put beside it."""

    name: str
    at: int
    reason: Reason | None = None
    run: int | None = None  #: number of the run concerned, from 0
    worker: str = ""  #: who claimed, on the entry of a claim
    error: TaskError | None = None
    attempt: int | None = None
    """Ordinal from 1 of the run that is opened, when it is not the first (docs/rulings.md, R22)."""


@lru_cache(maxsize=1024)
def iso(ms: int) -> str:
    """ISO 8601 in UTC with milliseconds, so that texts sort as their times do."""
    # A damaged record may have a time that no date can show.
    minute, ms = divmod(min(max(ms, 0), LATEST_MS), _MINUTE_MS)
    return f"{_minute(minute)}{ms // 1000:02}.{ms % 1000:03}Z"


def iso_seconds(ms: int) -> str:
    """ISO 8601 in UTC, in whole seconds: cut off, not rounded."""
    return f"{iso(ms)[:-5]}Z"


@lru_cache(maxsize=1024)
def _minute(minute: int) -> str:
    """The text of a minute, which the seconds follow. Most times that are shown lie in few minutes,
    so these texts are cached."""
    day, minute = divmod(minute, _MINUTES_A_DAY)
    return f"{date.fromordinal(_EPOCH + day)}T{minute // 60:02}:{minute % 60:02}:"


_OF_AN_OCCURRENCE = re.compile(r":(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z\Z")


def time_in(occurrence: str | None) -> str | None:
    """The time in the id of an occurrence of a schedule; None where there is none."""
    found = _OF_AN_OCCURRENCE.search(occurrence or "")
    return found and "{}-{}-{}T{}:{}:{}Z".format(*found.groups())


def robfig(schedule: Fields) -> str:
    """The times of a schedule, which is given as `engine.schedule_views` shows it, as Go's cron
    library writes them: the zone in front, an interval as a duration."""
    if schedule["every"] is not None:
        return f"@every {schedule['every']}s"
    times = "; ".join(schedule["cron"])
    return times if schedule["tz"] == "UTC" else f"CRON_TZ={schedule['tz']} {times}"


def max_retries_in(task: Fields) -> int:
    """The budget of the task of a schedule as it is shown, which leaves defaults out."""
    return task["policy"].get("max_retries", Policy().max_retries)


def json_of(text: str) -> str:
    """A text in quotes."""
    return msgspec.json.encode(text).decode()


def cause_of(task: Task) -> Reason | None:
    """Why the task is where it is; for a spent budget, what the last run ended by."""
    status = task.status
    if status.reason is Reason.RETRIES_EXHAUSTED and status.runs:
        return status.runs[-1].resolved_reason
    return status.reason


def retries_used(task: Task) -> int:
    """Retries that were decided on so far: 0 in the first run, `max_retries` in the last."""
    tries = task.status.tries
    if task.state in _ENDS_OF_A_COUNTED_RUN:
        tries -= 1
    return max(0, min(tries, task.policy.max_retries))


def maybe_iso(ms: int | None) -> str | None:
    """As `iso`, for a time that may not have come."""
    return None if ms is None else iso(ms)


def given(**fields: Any) -> Fields:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None and value != ""}


def decoded(body: bytes | None) -> Any:
    """A JSON body, decoded; another body as text or bytes."""
    return None if body is None else payloads.shown(body)


def bytes_of(field: str, body: bytes | None, seen: Any) -> Fields:
    """The exact bytes of a body that is no JSON, in base64 under this name; nothing for any other.
    `seen` is what `decoded` made of it."""
    if body is None or not isinstance(seen, dict) or "not-json" not in seen:
        return {}
    return {} if payloads.is_json(body) else {field: base64.b64encode(body).decode()}


def newest_claim(task: Task) -> int | None:
    """When the newest run was claimed."""
    return task.status.retried_at or task.status.started_at


def progress_of(task: Task) -> tuple[int, str]:
    """Percent and message, of the run in hand or as kept at its end."""
    if task.cell is not None:
        return task.cell.progress, task.cell.message
    return task.status.progress, task.status.progress_message


def last_error(task: Task) -> str:
    """The text of the newest error; empty if there was none."""
    error = task.status.last_error
    return "" if error is None else error.message


def words(reason: Reason | None) -> str:
    """A reason in words."""
    return "" if reason is None else reason.value.replace("-", " ")


def heartbeat_of(task: Task) -> int | None:
    """When the run in hand, or the last one, gave its newest heartbeat."""
    return task.status.heartbeat_at if task.cell is None else task.cell.heartbeat_at
