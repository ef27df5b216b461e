"""Checks submissions, and makes the first record of a task. Pure.

`check_form` and `check_times` refuse what can never work, naming the field at fault; `admit` builds
the first status. It also checks every text, time and number that a store is to keep or to look for,
wherever it comes from: Python code, a command or a request.
"""

import re
from typing import Any

from msgspec.structs import replace

from andon.model.errors import InvalidSubmission
from andon.model.task import Definition, Run, Schedule, Status, Task, TaskError, TaskEvent
from andon.model.words import TERMINAL, Event, Reason, State

_ID = re.compile(r"[A-Za-z0-9_:-]{1,64}\Z")
_NAME = re.compile(r"[A-Za-z0-9_./:-]{1,128}\Z")

_PENDING, _SUBMITTED, _SUBMIT = State.PENDING, Reason.SUBMITTED, Event.SUBMIT
"""What every submit needs: Python 3.11 finds a word in its enum far more slowly than a name of the
module."""

LOWEST_PRIORITY = -4
HIGHEST_PRIORITY = 5
"""Ten levels, the most every store can keep in order (docs/store-contract.md, 12)."""

PRIORITY_NAMES: dict[str, int] = {
    "highest": 3,
    "very-high": 2,
    "high": 1,
    "medium": 0,
    "low": -1,
    "very-low": -2,
    "lowest": -3,
}
"""The seven Taskcluster names on Andon's scale."""


MAX_KEY = 1_024
"""Bytes of a unique key, concurrency key or group."""

OCCURRENCES_KEY = "@schedule:"
"""How the unique keys begin that the occurrences of schedules hold. A submit may not have such a
key: its task could delay a schedule, or be taken for one of its occurrences. Keys made of a task's
name and arguments begin with neither."""

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999: no date can be written beyond it."""

MOST_VERSION = 2**31 - 1

MOST_TEXT = 1_024
"""Characters of a text that a store is asked by, such as a worker's id or a cursor."""


def is_id(text: str) -> bool:
    """Whether a task may have this id: no store need be asked for one that none can have."""
    return _ID.match(text) is not None


def is_text(text: str) -> bool:
    """Whether every store can keep the text and look it up: PostgreSQL takes no NUL, and half a
    surrogate is not UTF-8."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(text: str, *, field: str, most: int = MOST_TEXT) -> None:
    """Refuse a text that is longer than `most` characters, or that not every store can look up."""
    if len(text) > most or not is_text(text):
        raise InvalidSubmission(
            f"{field} {text[:80]!r} is not text of at most {most:,} characters without NUL.",
            field=field,
        )


def check_given(text: str | None, *, field: str) -> None:
    """Refuse the empty string where None is "not given" (docs/rulings.md, R35): it comes from an
    unset variable or a slip, and treating it as absent would act on more than was meant."""
    if text == "":
        raise InvalidSubmission(
            f'{field} is "", which names nothing; leave it out if there is none.', field=field
        )


def check_id(task_id: str) -> None:
    """Refuse an id that is not 1 to 64 of `[A-Za-z0-9_:-]` (docs/rulings.md, R27)."""
    if not _ID.match(task_id):
        raise InvalidSubmission(
            f"Task id {task_id[:80]!r} is not 1 to 64 of A-Z a-z 0-9 _ : and -.", field="id"
        )


def check_name(name: str, *, field: str) -> None:
    """Refuse a task or queue name that is not 1 to 128 of `[A-Za-z0-9_./:-]` (docs/rulings.md,
    R27)."""
    if not _NAME.match(name):
        raise InvalidSubmission(
            f"The {field} name {name[:140]!r} is not 1 to 128 of A-Z a-z 0-9 _ . / : and -.",
            field=field,
        )


def check_priority(priority: int) -> None:
    """Refuse a priority outside the ten levels."""
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise InvalidSubmission(
            f"Priority {priority} is not between {LOWEST_PRIORITY} and {HIGHEST_PRIORITY}.",
            field="priority",
        )


def check_moment(moment: int | None, *, field: str) -> None:
    """Refuse a time (ms UTC) that is no date from 1970 to 9999."""
    if moment is not None and moment > LATEST_MS:
        raise InvalidSubmission(f"{field} is later than the year 9999.", field=field)
    if moment is not None and moment < 0:
        raise InvalidSubmission(f"{field} is before the year 1970.", field=field)


def check_key(key: str, *, field: str) -> None:
    """Refuse a key or group that is empty, over `MAX_KEY` bytes, or no text that every store keeps
    (PostgreSQL's indexes take no longer ones, its texts no NUL)."""
    if key.isascii() and "\0" not in key and 0 < len(key) <= MAX_KEY:
        return
    if not is_text(key) or not 0 < len(key.encode()) <= MAX_KEY:
        raise InvalidSubmission(
            f"{field} {key[:80]!r} is not text of 1 to {MAX_KEY:,} bytes without NUL; "
            "leave it out if there is none, and hash what is longer.",
            field=field,
        )


def check_form(definition: Definition) -> None:
    """Raise `InvalidSubmission` for values that no record may have, not even one that is kept to
    show that its submission was invalid (docs/rulings.md, R25): no store, path or index can take
    them."""
    check_type(definition.name, definition.version, definition.queue)
    check_own(definition)


def check_type(name: str, version: int, queue: str) -> None:
    """The part of it that is the same for all tasks of a type in a queue."""
    check_name(name, field="task")
    check_name(queue, field="queue")
    if not 0 <= version <= MOST_VERSION:
        raise InvalidSubmission(
            f"version is 0 to {MOST_VERSION:,}, not {version}.", field="version"
        )


def check_own(definition: Definition) -> None:
    """The part of it that each task has of its own."""
    d = definition
    if not _ID.match(d.id):
        check_id(d.id)
    if d.priority:
        check_priority(d.priority)
    if d.run_at is not None or d.deadline is not None or d.expires_at is not None:
        check_moment(d.run_at, field="run_at")
        check_moment(d.deadline, field="deadline")
        check_moment(d.expires_at, field="expires_at")
    if d.unique_key is not None or d.key is not None or d.group is not None:
        if d.unique_key is not None:
            check_key(d.unique_key, field="unique_key")
        if d.key is not None:
            check_key(d.key, field="key")
        if d.group is not None:
            check_key(d.group, field="group")
        if d.unique_key is not None and d.unique_key.startswith(OCCURRENCES_KEY):
            raise InvalidSubmission(
                f"unique_key {d.unique_key[:80]!r} begins with {OCCURRENCES_KEY}, which only the "
                "occurrences of schedules have; give another.",
                field="unique_key",
            )
    if d.dependencies:
        _check_dependencies(d.dependencies)
    if d.tags:
        _check_tags(d.tags)


def _check_dependencies(parents: tuple[str, ...]) -> None:
    for parent in parents:
        check_id(parent)


def _check_tags(tags: tuple[str, ...]) -> None:
    for tag in tags:
        if not 0 < len(tag) <= MAX_KEY or not is_text(tag):
            raise InvalidSubmission(
                f"Tag {tag[:80]!r} is not text of 1 to {MAX_KEY:,} characters without NUL.",
                field="tags",
            )


def check_times(d: Definition, now: int) -> None:
    """Raise `InvalidSubmission` where the deadline leaves no time at `now` (ms UTC)."""
    policy, deadline = d.policy, d.deadline
    if deadline is None:
        if policy.deadline_required:
            raise InvalidSubmission("This profile requires a deadline.", field="deadline")
        return
    if deadline <= now:
        raise InvalidSubmission("The deadline is already past.", field="deadline")
    if policy.deadline_max is not None and deadline > now + policy.deadline_max * 1000:
        raise InvalidSubmission(
            f"The deadline is more than {policy.deadline_max:.0f} s ahead.", field="deadline"
        )
    if d.run_at is not None and d.run_at >= deadline:
        raise InvalidSubmission(
            "The start time is not before the deadline, so the task could never run.",
            field="run_at",
        )


def admit(definition: Definition, now: int, write_id: str) -> Task:
    """The record a valid submission begins with: blocked, scheduled or pending. Pending ones of one
    write may share their status."""
    d = definition
    if d.dependencies:
        state = State.BLOCKED
    elif d.run_at is not None and d.run_at > now:
        state = State.SCHEDULED
    else:
        status = _pending_beginning(d, now, write_id)
        if d.on_held is not None and d.on_held.order is not None:
            status = replace(status, order=d.on_held.order)
        return Task(definition=d, status=status)
    return _begin(d, now, write_id, state=state, reason=_SUBMITTED)


def admit_schedule(definition: Definition, schedule: Schedule, now: int, write_id: str) -> Task:
    """The record a schedule begins with."""
    task = _begin(definition, now, write_id, state=State.RECURRING, reason=_SUBMITTED)
    task.status.schedule = schedule
    return task


_INVALID = "!"
"""Ends the digest of a submission that was recorded as invalid, so that a repeat is answered alike,
also when nothing but the digest is left of the task."""


def is_repeat_of(digest: str, stored: str) -> bool:
    """Whether a submission is the one whose digest is stored (docs/rulings.md, R26)."""
    return digest.removesuffix(_INVALID) == stored.removesuffix(_INVALID)


def was_invalid(stored: str) -> bool:
    """Whether the submission whose digest this is was recorded as invalid when it came first."""
    return stored.endswith(_INVALID)


def admit_invalid(definition: Definition, now: int, write_id: str, error: str) -> Task:
    """The record of a submission that is refused but recorded (`on_invalid=record`,
    docs/rulings.md, R25)."""
    definition = replace(definition, digest=definition.digest + _INVALID)
    failure = TaskError(message=error, code="VALIDATION_ERROR")
    return _begin(
        definition,
        now,
        write_id,
        state=State.FAILED,
        reason=Reason.VALIDATION_ERROR,
        error=failure,
    )


def _begin(
    d: Definition,
    now: int,
    write_id: str,
    *,
    state: State,
    reason: Reason,
    error: TaskError | None = None,
) -> Task:
    event = TaskEvent(1, now, _SUBMIT, None, state, reason, None, "", write_id, error)
    status = Status(
        state=state,
        created_at=now,
        revision=1,
        reason=reason,
        priority=d.priority,
        order=now,
        run_at=d.run_at,
        finished_at=now if state in TERMINAL else None,
        deadline=d.deadline,
        expires_at=_expiry(d, now),
        last_error=error,
        events=(event,),
    )
    return Task(definition=d, status=status)


class _PendingBeginnings:
    """What pending tasks begin with. Tasks of one write mostly begin with the same, which is then
    made once; a store that finds it to be the same need not pack it again either."""

    def __init__(self) -> None:
        self._last: tuple[tuple[Any, ...], Status | None] = ((), None)  # one, for threads

    def __call__(self, d: Definition, now: int, write_id: str) -> Status:
        told = (write_id, now, d.priority, d.deadline, d.expires_at, d.policy)
        last, status = self._last
        if status is None or told != last:
            status = Status(
                state=_PENDING,
                created_at=now,
                revision=1,
                reason=_SUBMITTED,
                priority=d.priority,
                order=now,
                submitted_at=now,
                deadline=d.deadline,
                expires_at=_expiry(d, now),
                runs=(Run(0, _SUBMITTED, now),),
                events=(TaskEvent(1, now, _SUBMIT, None, _PENDING, _SUBMITTED, 0, "", write_id),),
            )
            self._last = (told, status)
        return status


_pending_beginning = _PendingBeginnings()


def _expiry(d: Definition, now: int) -> int | None:
    policy = d.policy
    if d.expires_at is not None:
        return d.expires_at
    if policy.expires_after_deadline is not None and d.deadline is not None:
        return d.deadline + round(policy.expires_after_deadline * 1000)
    if policy.expires is not None:
        return now + round(policy.expires * 1000)
    return None
