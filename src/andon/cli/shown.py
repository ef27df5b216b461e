"""Tasks under a profile: the columns of a list, the parts of one task."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from andon.cli.layout import Column
from andon.cli.output import STYLES, Cell, Output, Word
from andon.cli.values import when_of
from andon.lifecycle.explaining import fires
from andon.lifecycle.leases import is_orphaned
from andon.lifecycle.rendering import document, state_name
from andon.model.task import Task
from andon.model.words import State

if TYPE_CHECKING:
    from andon.lifecycle.profiles import Profile

COLUMNS: dict[str, tuple[str, ...]] = {
    "jobbers": (
        "id", "name", "queue", "status", "retry_attempt", "submitted_at", "completed_at",
        "last_error",
    ),
    "asynq": ("id", "type", "queue", "state", "retried", "max_retry", "completed_at", "last_err"),
    "cbintel": ("job_id", "status", "progress", "attempts", "started_at", "message", "error"),
    "choria": ("ID", "Type", "Queue", "State", "Tries", "CreatedAt", "LastTriedAt", "LastErr"),
    "taskcluster": (
        "taskId", "taskQueueId", "state", "priority", "retriesLeft", "deadline", "expires",
    ),
}  # fmt: skip
"""By foreign profile: the fields of its record that a list shows."""

_SPARE: dict[str, frozenset[str]] = {
    "jobbers": frozenset({"queue", "retry_attempt", "completed_at"}),
    "asynq": frozenset({"queue", "max_retry"}),
    "cbintel": frozenset({"attempts"}),
    "choria": frozenset({"Queue", "LastTriedAt"}),
    "taskcluster": frozenset({"retriesLeft", "expires"}),
}
"""Those of them that are left out on a narrow terminal."""

_TIMES = frozenset(
    {
        "submitted_at",
        "completed_at",
        "started_at",
        "CreatedAt",
        "LastTriedAt",
        "deadline",
        "expires",
    }
)
_STATE_FIELDS = frozenset({"state", "status", "State"})
_NAMES = frozenset(
    {"id", "job_id", "ID", "taskId", "name", "type", "Type", "queue", "Queue", "taskQueueId"}
)
_TEXTS = frozenset({"last_error", "last_err", "LastErr", "message", "error"})

NATIVE = (
    Column("id", named=True),
    Column("name", named=True),
    Column("queue", named=True, spare=True),
    Column("state", keeps=True),
    Column("tries", right=True, spare=True),
    Column("created", keeps=True),
    Column("note"),
)


def columns(profile: "Profile") -> Sequence[Column]:
    """The columns of a list of tasks."""
    if profile.name == "native":
        return NATIVE
    return [
        Column(
            name,
            named=name in _NAMES,
            keeps=name not in _NAMES | _TEXTS,
            spare=name in _SPARE[profile.name],
        )
        for name in COLUMNS[profile.name]
    ]


def row(profile: "Profile", task: Task, out: Output, now: int) -> list[Cell]:
    """One task in a list."""
    if profile.name != "native":
        fields = document(profile, task, now=now)
        return [_cell(name, fields.get(name), task, out, now) for name in COLUMNS[profile.name]]
    d, s = task.definition, task.status
    return [
        task.id,
        d.name,
        d.queue,
        state_word(profile, task),
        s.tries,
        out.when(s.created_at, now),
        note_of(task, out, now),
    ]


def _cell(name: str, value: Any, task: Task, out: Output, now: int) -> Cell:
    if name in _STATE_FIELDS:
        return Word(str(value), STYLES.get(task.state.value, ""))
    if name in _TIMES and value is not None and out.terminal:
        return out.when(when_of(str(value)).on(now), now)
    return None if value is None else str(value)


def note_of(task: Task, out: Output, now: int, *, says_error: bool = True) -> str:
    """The one thing worth knowing beside the state; `says_error`: with the newest error's message,
    if it is about that."""
    status, cell = task.status, task.cell
    message = status.last_error.message if says_error and status.last_error else ""
    if cell is not None:
        if is_orphaned(task, now):
            return f"orphaned: {status.worker} lost its lease {out.when(cell.lease_until, now)}"
        said = f" {cell.message}" if cell.message else ""
        return f"{cell.progress}%{said} on {status.worker}"
    if task.state is State.RECURRING:
        return fires(task, lambda at: out.when(at, now))
    if task.state in (State.SCHEDULED, State.RETRY) and status.run_at is not None:
        return f"runs {out.when(status.run_at, now)}{message and f': {message}'}"
    reason = "" if status.reason is None or task.state is State.COMPLETED else status.reason.value
    if task.state in (State.PENDING, State.BLOCKED, State.COMPLETED):
        return ""
    return f"{reason}: {message}" if message else reason


def state_word(profile: "Profile", task: Task) -> Word:
    """The state under its profile's name, coloured."""
    return Word(state_name(profile, task), STYLES.get(task.state.value, ""))


def native_word(state: State | None) -> Word:
    """A native state, coloured; none is `gone`."""
    return Word("gone", "dim") if state is None else Word(state.value, STYLES.get(state.value, ""))
