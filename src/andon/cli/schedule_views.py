"""Prints schedules: in a list, and on a page."""

from collections.abc import Iterator, Sequence

from andon.cli.output import STYLES, Cell, Output, Word
from andon.engine.schedule_views import is_paused, next_due, schedule_of
from andon.lifecycle.faces.fields import iso
from andon.model.recurrence import ExplainedTime, Recurrence
from andon.model.task import Schedule, Task
from andon.model.wording import ago, plural, span
from andon.model.words import Reason, State

_LATE_MS = 60_000
_LONGEST = 2_000


def row(task: Task, out: Output, now: int) -> list[Cell]:
    """One schedule in a list."""
    schedule = schedule_of(task, task.id)
    return [
        task.id,
        schedule.template.name,
        times_of(schedule.recurrence),
        Word("paused", "yellow") if is_paused(task) else out.when(next_due(task), now),
        schedule.fired,
        note_of(task, now),
    ]


def note_of(task: Task, now: int) -> str:
    """The one thing worth knowing beside its times."""
    schedule = schedule_of(task, task.id)
    if is_paused(task):
        return why_paused(task)
    if task.state is State.RECURRING and (schedule.next_due or now) < now - _LATE_MS:
        return "overdue: no timekeeper runs"
    return f"{plural(schedule.failures, 'failure')} in a row" if schedule.failures else ""


def why_paused(task: Task) -> str:
    """By whom it was paused; empty if it is not."""
    if not is_paused(task):
        return ""
    if task.status.reason is Reason.FAILURES_IN_A_ROW:
        failures = schedule_of(task, task.id).failures
        return f"paused itself after {plural(failures, 'failure')} in a row"
    return "paused by hand"


def times_of(recurrence: Recurrence) -> str:
    """When it fires, in a line."""
    r = recurrence
    text = "; ".join(r.cron) if r.cron else f"every {span(r.every or 0)}"
    return text if r.tz == "UTC" else f"{text} {r.tz}"


def facts(task: Task, last: Task | None, out: Output, now: int) -> Iterator[tuple[str, Cell]]:
    """The lines of a schedule's page."""
    schedule = schedule_of(task, task.id)
    if not out.terminal:
        yield "schedule", task.id
    yield "state", _state(task)
    yield "why", why_paused(task) or _why_ended(task)
    yield "paused", _time(out, schedule.paused_at, now)
    yield from _specified(schedule.recurrence)
    yield from _borne(schedule)
    yield "overlap", schedule.overlap
    yield "pauses after", _failures(schedule.pause_after)
    yield "application", schedule.application
    yield "release", schedule.release
    yield "fired", schedule.fired
    yield "last", _last(schedule, last)
    yield "failed in a row", schedule.failures or None
    yield "owes", ", ".join(one.id for one in task.status.owes)
    yield "next", _time(out, next_due(task), now)
    yield "created", _time(out, task.status.created_at, now)
    yield "finished", _time(out, task.status.finished_at, now)


def _state(task: Task) -> Word:
    if is_paused(task):
        return Word("paused", "yellow")
    return Word(task.state.value, STYLES.get(task.state.value, ""))


def _why_ended(task: Task) -> str:
    reason = task.status.reason
    return "" if task.state is State.RECURRING or reason is None else reason.value


def _specified(r: Recurrence) -> Iterator[tuple[str, Cell]]:
    for expression in r.cron:
        yield "cron", expression
    yield "every", None if r.every is None else span(r.every)
    yield "anchor", None if r.anchor is None else iso(r.anchor)
    yield "zone", r.tz
    for entry in r.exclude:
        yield "leaves out", entry
    yield "start", None if r.start is None else iso(r.start)
    yield "end", None if r.end is None else iso(r.end)
    yield "at most", None if r.count is None else plural(r.count, "time")
    yield "jitter", span(r.jitter) if r.jitter else None
    within = "" if r.catch_up_window is None else f", if not later than {span(r.catch_up_window)}"
    yield "catches up", f"{r.catch_up}{within}"


def _borne(schedule: Schedule) -> Iterator[tuple[str, Cell]]:
    d = schedule.template
    yield "task", f"{d.name} version {d.version}" if d.version else d.name
    yield "queue", d.queue
    text = d.args.decode(errors="replace")
    yield "arguments", text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    yield "priority", d.priority or None
    yield "deadline", None if schedule.deadline_in is None else f"{span(schedule.deadline_in)} each"
    yield "key", d.key
    yield "group", d.group
    yield "tags", ", ".join(d.tags)
    yield "headers", ", ".join(f"{name}={value}" for name, value in d.headers.items())


def _failures(most: int | None) -> str | None:
    return None if most is None else f"{plural(most, 'failure')} in a row"


def _last(schedule: Schedule, last: Task | None) -> str:
    if not schedule.last_id:
        return ""
    return f"{schedule.last_id}  {'gone' if last is None else last.state.value}"


def _time(out: Output, at: int | None, now: int) -> str | None:
    if at is None:
        return None
    return f"{iso(at)}  ({ago(at, now)})" if out.terminal else iso(at)


# --- times ---


def show_times(out: Output, times: Sequence[ExplainedTime], now: int) -> None:
    """Times one by one, with what a change of the clocks does to each below it; in a pipe, `next`,
    local time, UTC and the notes on one line."""
    if not out.terminal:
        for one in times:
            out.words(["next", one.local, one.utc, *one.notes])
        return
    if not times:
        return
    out.words([""])
    out.words([Word(f"{'local':25}  {'UTC':20}  in", "dim")])
    for one in times:
        out.words([f"{one.local:25}", f"{one.utc:20}", ago(one.occurrence.due, now)])
        for note in one.notes:
            out.words([Word(f"  {note}", "yellow")])
