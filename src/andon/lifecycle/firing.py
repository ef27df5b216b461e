"""Makes the tasks that a schedule bears when it fires, and the schedule's next state. Pure.

A schedule is a record that never runs (docs/rulings.md, R39): a move on it bears the tasks of its
times. The id of each is made of the schedule's name and the time, and so is its digest: firing
twice submits the same task again, which is a repeat.

The times are imported with the first schedule: most processes never see one.
"""

from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from andon.lifecycle.admission import OCCURRENCES_KEY
from andon.lifecycle.births import MOST_BIRTHS, MOST_BIRTHS_BYTES
from andon.model.policy import Policy
from andon.model.task import Definition, OnHeld, Schedule, Task
from andon.model.words import DEAD_LETTER_STATES, LIVE, State

_encode = msgspec.msgpack.Encoder().encode

_REST_BYTES = 512
"""Bytes that the id, the key and the dependency of an occurrence add to the template, at most."""

_KEYED = ("skip", "replace")
"""The overlap rules whose occurrences hold a key, so that one of them lives at a time."""

_HOLDS: dict[str, Any] = {"unique_states": Policy().unique_states, "unique_period": None}
"""An occurrence holds its schedule's key until it ends, whatever its task type says of keys."""


_GIVEN: dict[str, Any] = {**_HOLDS, "unique_states": list(Policy().unique_states)}
"""The same as a record gives it back that was written and read."""


class Fired(NamedTuple):
    """What a move on a schedule bears, and the schedule after it."""

    schedule: Schedule
    births: tuple[Definition, ...] = ()
    skipped: bool = False  #: it was time, and the occurrence before had not ended


def asks_for_last(schedule: Schedule) -> bool:
    """Whether the decision to fire needs the state of the newest occurrence."""
    return bool(schedule.last_id) and (
        schedule.pause_after is not None or schedule.overlap in ("skip", "queue")
    )


def recurred(name: str, schedule: Schedule, last: State | None, now: int) -> Fired:
    """The occurrences that are due at `now` (ms UTC). `last` is the state of the newest so far. If
    none follows, `next_due` is None."""
    from andon.lifecycle.recurrence.occurrences import due

    s = schedule
    failures = _failures(s, last)
    if s.pause_after is not None and failures >= s.pause_after:
        return Fired(replace(s, failures=failures, paused_at=now))
    firing = due(s.recurrence, name, after=s.after, now=now, fired=s.fired, most=_most(s))
    ids = [one.id for one in firing.occurrences]
    if s.overlap in _KEYED:  # of several that are due at once, all but one would be left out
        ids = [] if s.overlap == "skip" and last in LIVE else ids[-1:]
    births = _borne(name, s, ids, last, now)
    after = replace(
        s,
        after=firing.after,
        fired=s.fired + len(births),
        next_due=None if firing.next is None else firing.next.due,
        last_id=births[-1].id if births else s.last_id,
        failures=failures if births else s.failures,  # each occurrence is judged once
    )
    return Fired(after, births, skipped=bool(firing.occurrences) and not births)


def borne_now(name: str, schedule: Schedule, now: int) -> Fired:
    """One occurrence more, of the second in which it is asked for. It is none of the times that the
    schedule counts."""
    from andon.lifecycle.recurrence.occurrences import occurrence_id

    births = (occurrence(name, schedule, occurrence_id(name, now // 1000 * 1000), now),)
    return Fired(replace(schedule, last_id=births[-1].id), births)


def begun(name: str, schedule: Schedule, now: int) -> Schedule:
    """The schedule at its beginning: it fires at the first of its times after `now`; `next_due` is
    None if there is none."""
    return _from(name, replace(schedule, after=now))


def resumed(name: str, schedule: Schedule, now: int) -> Schedule:
    """The schedule resumed at `now`: times within the pause do not count as missed."""
    if schedule.paused_at is None:
        return schedule
    return _from(name, replace(schedule, after=now, paused_at=None, failures=0))


def paused(task: Task) -> Task:
    """The record of a schedule as it is copied into another store: paused, since its newest move,
    lest both stores fire it. Any other record as it is."""
    status, schedule = task.status, task.status.schedule
    if status.state is not State.RECURRING or schedule is None or schedule.paused_at is not None:
        return task
    since = status.events[-1].at if status.events else status.created_at
    quiet = replace(status, schedule=replace(schedule, paused_at=since))
    return Task(definition=task.definition, status=quiet, result=task.result, ref=task.ref)


def restarted(name: str, schedule: Schedule, wanted: Schedule, now: int) -> Schedule:
    """A schedule that had ended, as it begins anew."""
    return _from(
        name,
        replace(wanted, after=now, fired=0, failures=0, paused_at=None, last_id=schedule.last_id),
    )


def revised(name: str, schedule: Schedule, wanted: Schedule, now: int) -> Schedule:
    """The schedule with the times and the task of another, and as far as it has come itself. New
    times begin at `now`."""
    s = replace(
        wanted,
        after=schedule.after,
        fired=schedule.fired,
        next_due=schedule.next_due,
        last_id=schedule.last_id,
        failures=schedule.failures,
        paused_at=schedule.paused_at,
    )
    return s if s.recurrence == schedule.recurrence else _from(name, replace(s, after=now))


def occurrence_key(name: str) -> str:
    """The unique key of the occurrences of a schedule of which one is to live at a time."""
    return OCCURRENCES_KEY + name


def occurrence(
    name: str, schedule: Schedule, task_id: str, now: int, *, before: str = ""
) -> Definition:
    """The task of one occurrence, submitted at `now`; `before`: it waits for that one's end. With
    `replace`, it supersedes whichever holds the schedule's key (`lifecycle.holding`), one that is
    active after asking it to cancel."""
    s = schedule
    keyed, t = s.overlap in _KEYED, s.template
    return replace(
        t,
        id=task_id,
        bearer=name,
        deadline=None if s.deadline_in is None else now + round(s.deadline_in * 1000),
        policy=replace(t.policy, **_HOLDS) if keyed else t.policy,
        policy_given={**t.policy_given, **_GIVEN} if keyed else t.policy_given,
        unique_key=occurrence_key(name) if keyed else None,
        on_held=OnHeld(active=True) if s.overlap == "replace" else None,
        dependencies=(before,) if before else (),
        requires="all-resolved" if before else "all-completed",
        digest=blake2b(f"occurrence {task_id}".encode(), digest_size=12).hexdigest(),
    )


def _from(name: str, s: Schedule) -> Schedule:
    from andon.lifecycle.recurrence.occurrences import next_occurrence

    following = next_occurrence(s.recurrence, name, after=s.after, fired=s.fired)
    return replace(s, next_due=None if following is None else following.due)


def _borne(
    name: str, s: Schedule, ids: list[str], last: State | None, now: int
) -> tuple[Definition, ...]:
    if s.overlap != "queue":
        return tuple(occurrence(name, s, task_id, now) for task_id in ids)
    # One that has ended, or is gone, need not be waited for.
    first = s.last_id if last in LIVE else ""
    return tuple(
        occurrence(name, s, task_id, now, before=parent)
        for parent, task_id in pairwise([first, *ids])
    )


def _failures(s: Schedule, last: State | None) -> int:
    if last is State.COMPLETED:
        return 0
    return s.failures + (last in DEAD_LETTER_STATES)


def _most(s: Schedule) -> int:
    """Occurrences that one move can bear."""
    size = len(_encode(s.template)) + _REST_BYTES
    return max(1, min(MOST_BIRTHS, MOST_BIRTHS_BYTES // size))
