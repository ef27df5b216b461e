"""Exact repeats: whether a report is the one that resolved a run already (docs/rulings.md, R33).
Pure.

A worker whose report was written and whose answer was lost reports again, and gets the same answer.
Any other report of a resolved run is refused. The two are told apart by a fingerprint of what was
*reported*, kept in the run: what was *decided* may be something else, a retry or a cancel, and says
too little.
"""

from hashlib import blake2b

import msgspec

from andon.lifecycle.commands import Command, Complete
from andon.model.task import Status, Task, TaskEvent, Tombstone
from andon.model.words import Event, Reason, State

_BYTES = 8

REPORTS = frozenset(
    (
        Event.COMPLETE,
        Event.FAIL,
        Event.TERMINATE,
        Event.REJECT,
        Event.UNKNOWN_TASK,
        Event.SNOOZE,
        Event.RELEASE,
        Event.STOP,
        Event.SHUTDOWN_RETRY,
        Event.INTERRUPTED,
        Event.EXPIRE,
    )
)
"""Events that the holder of a run may report of it."""

_encode = msgspec.msgpack.Encoder().encode


def fingerprint(command: Command) -> str:
    """A short name of what is reported: event, reason, result, births and error. Empty for a
    command that no worker reports. Raises `UnicodeEncodeError` for what no store can keep."""
    if isinstance(command, Complete):  # nearly every report; the others have no result
        result = command.result
        if command.births:
            borne = [(d.id, d.digest) for d in command.births]
            return _hash(_encode(("complete", result, borne)))
        return _OF_NO_RESULT.get(result) or _hash(b"complete " + (result or b""))
    event = command.event
    if event not in REPORTS:
        return ""
    reason, error = getattr(command, "reason", None), getattr(command, "error", None)
    return _hash(_encode((event, reason, error)))


def _hash(told: bytes) -> str:
    return blake2b(told, digest_size=_BYTES).hexdigest()


_OF_NO_RESULT = {None: _hash(b"complete"), b"null": _hash(b"complete null")}
"""The digest of the most frequent report, cached: hashing it each time would take longer than all
else here."""


def is_done(task: Task, command: Command) -> bool:
    """Whether an act of control was done to the task already, so that a repeat is answered as
    done."""
    if command.event is Event.ARCHIVE:
        return task.status.reason is Reason.ARCHIVED_BY_HAND
    schedule = task.status.schedule
    if schedule is None or task.state is not State.RECURRING:
        return False
    is_paused = schedule.paused_at is not None
    return (command.event is Event.PAUSE and is_paused) or (
        command.event is Event.RESUME and not is_paused
    )


def is_repeat(status: Status, run: str, command: Command) -> bool:
    """Whether this run, of those the record keeps, was resolved by this very report."""
    told = next((old.report for old in status.runs if run and old.id == run), "")
    return told != "" and told == fingerprint(command)


def state_that_followed(status: Status, run: str) -> State:
    """The answer to the first report of this run: the state that it led to, as far as the record
    still shows it, else the state that the task is in."""
    for old in status.runs:
        if old.id == run:
            led = (e for e in status.events if _resolved(e, old.resolved_at, old.resolved_event))
            return next((event.target for event in led if event.target), status.state)
    return status.state


def _resolved(event: TaskEvent, at: int | None, kind: Event | None) -> bool:
    return event.source is State.ACTIVE and event.at == at and event.event is kind


def tombstone_of(status: Status) -> Tombstone:
    """The tombstone of a task that is deleted from this status (for a change that discards: the one
    it leads to), which a store keeps within the submit window."""
    if not status.runs:
        return Tombstone(status.state)
    last = status.runs[-1]
    return Tombstone(status.state, last.id, last.report)


def repeats_the_last(tombstone: Tombstone | None, run: str, command: Command) -> bool:
    """Whether a deleted task's last run was resolved by this very report."""
    if tombstone is None or not run or tombstone.run != run or not tombstone.report:
        return False
    return tombstone.report == fingerprint(command)
