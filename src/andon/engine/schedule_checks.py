"""The doctor's checks of schedules: those that do not fire, and those that code declares no
more."""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.contract.queries import Query
from andon.engine.findings import Finding, Level
from andon.engine.schedule_views import declared_no_more, is_paused, schedule_of
from andon.lifecycle.schedules import is_older
from andon.model.task import Task
from andon.model.wording import ago, plural
from andon.model.words import Reason, State

if TYPE_CHECKING:
    from andon.engine.base import Engine

Declared = tuple[str, Collection[str]]
"""The name of an application, and the schedules that its code declares."""

MOST_LOOKED = 10_000
"""Schedules that are looked at, the oldest first."""

LATE_MS = 60_000
"""A schedule this late means that no timekeeper fires it."""

_PAGE = 500
_MOST_NAMED = 3


async def read_schedules(engine: "Engine") -> list[Task]:
    """The live schedules, the first of them."""
    found: list[Task] = []
    query = Query(states=(State.RECURRING,), limit=_PAGE)
    while True:
        page = await engine.find(query)
        found += [task for task in page.tasks if task.status.schedule is not None]
        if not page.cursor or len(found) >= MOST_LOOKED:
            return found
        query = replace(query, cursor=page.cursor)


def schedules(
    found: Sequence[Task], now: int, declared: Declared | None = None
) -> Iterator[Finding]:
    """Whether schedules fire, and whether code still declares them."""
    if not found:
        return
    undecided = [(task, why) for task in found if (why := _undecided(task, now))]
    yield from _without_times(undecided)
    known = {task.id for task, _ in undecided}
    late = [
        task
        for task in found
        if task.id not in known and not is_paused(task) and _due(task, now) < now - LATE_MS
    ]
    if late:
        first = min(late, key=lambda task: _due(task, now))
        yield Finding(
            Level.WRONG,
            "schedules",
            f"{plural(len(late), 'schedule')} did not fire: {first.id} was due "
            f"{ago(_due(first, now), now)}",
            "no timekeeper runs: start a worker without --no-timekeeper",
        )
    yield from _paused([task for task in found if is_paused(task)])
    yield from _left_the_code(found, declared)
    if not late and not undecided:
        yield Finding(Level.OK, "schedules", f"{plural(len(found), 'schedule')}, none is late")


def _due(task: Task, now: int) -> int:
    """When it fires next, for one that still owes earlier occurrences."""
    following = schedule_of(task, task.id).next_due
    return now if following is None or task.status.owes else following


def _undecided(task: Task, now: int) -> str:
    """Why its next time cannot be computed here; empty if it can."""
    from andon.lifecycle.recurrence.occurrences import next_occurrence

    schedule = schedule_of(task, task.id)
    try:
        next_occurrence(schedule.recurrence, task.id, after=now, fired=schedule.fired)
    except Exception as error:  # any error: the timekeeper meets the same one
        return str(error) or type(error).__name__
    return ""


def _without_times(undecided: Sequence[tuple[Task, str]]) -> Iterator[Finding]:
    for task, why in undecided[:_MOST_NAMED]:
        yield Finding(
            Level.WRONG,
            f"schedule {task.id}",
            f"its times cannot be computed on this machine: {why}",
            f"andon schedules edit {task.id}, or bring the tz database of this machine up to date",
        )
    more = len(undecided) - _MOST_NAMED
    if more > 0:
        yield Finding(
            Level.WRONG, "schedules", f"the times of {more:,} more cannot be computed either"
        )


def _paused(paused: Sequence[Task]) -> Iterator[Finding]:
    failing = [task for task in paused if task.status.reason is Reason.FAILURES_IN_A_ROW]
    if failing:
        yield Finding(
            Level.WRONG,
            "schedules",
            f"{_named(failing)} paused after failures in a row",
            "andon schedules show NAME names the last task; then andon schedules resume NAME",
        )
    others = [task for task in paused if task.status.reason is not Reason.FAILURES_IN_A_ROW]
    if others:
        yield Finding(
            Level.NOTE,
            "schedules",
            f"{_named(others)} paused by hand",
            "andon schedules resume NAME",
        )


def _left_the_code(found: Sequence[Task], declared: Declared | None) -> Iterator[Finding]:
    """Those that their application declares no more: by its code, if that is here, else because a
    newer release of it declares others."""
    gone = _of_older_releases(found)
    if declared is not None:
        name, names = declared
        gone = [task for task in gone if schedule_of(task, task.id).application != name]
        missing = set(declared_no_more(found, name, names))
        gone += [task for task in found if task.id in missing]
    if gone:
        yield Finding(
            Level.NOTE,
            "schedules",
            f"{_named(gone)} declared no more by the code of the application",
            "andon schedules prune APP, or keep them: they fire on",
        )


def _of_older_releases(found: Sequence[Task]) -> list[Task]:
    newest: dict[str, str] = {}
    for task in found:
        schedule = schedule_of(task, task.id)
        release = newest.setdefault(schedule.application, schedule.release)
        if is_older(release, than=schedule.release):
            newest[schedule.application] = schedule.release
    return [
        task
        for task in found
        if (schedule := schedule_of(task, task.id)).application
        and is_older(schedule.release, than=newest[schedule.application])
    ]


def _named(tasks: Sequence[Task]) -> str:
    """`schedule a is`, `schedules a, b, c and 4 more are`."""
    names = ", ".join(task.id for task in tasks[:_MOST_NAMED])
    more = len(tasks) - _MOST_NAMED
    if len(tasks) == 1:
        return f"schedule {names} is"
    return f"schedules {names}{f' and {more:,} more' if more > 0 else ''} are"
