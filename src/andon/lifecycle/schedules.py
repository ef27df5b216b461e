"""Checks schedules, makes their records, and decides which of two releases of an application may
declare one. Pure. `firing` makes the tasks that it bears."""

import re
from collections.abc import Collection, Mapping
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from andon.lifecycle.admission import check_form, check_text
from andon.lifecycle.bounds import LARGEST_COUNT
from andon.model.errors import InvalidSubmission
from andon.model.policy import Policy, Retention
from andon.model.task import Definition, Schedule, Task

MOST_TEMPLATE_BYTES = 16 * 1024
"""Bytes of the task of a schedule, as its record keeps it."""

OVERLAPS = ("allow", "skip", "queue", "replace")

_KEPT = Policy(retention=Retention(completed=None, failed=None), dead_letter="none")
"""A schedule that has ended is kept until it is deleted by hand: otherwise the next worker whose
code declares it would begin it anew, with its count at zero."""

_DIGITS = re.compile(r"(\d+)")
_MODIFIED = "modified:"

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def is_schedule(task: Task) -> bool:
    """Whether a record is a schedule, in whichever state."""
    return task.status.schedule is not None


def check_schedule(name: str, schedule: Schedule) -> None:
    """Raise `InvalidSubmission`, naming the field, for a schedule that can never be kept."""
    from andon.lifecycle.recurrence.checking import check
    from andon.lifecycle.recurrence.occurrences import check_name

    check_name(name)
    check(schedule.recurrence)
    check_overlap(schedule.overlap)
    check_text(schedule.application, field="application", most=128)
    check_text(schedule.release, field="release", most=128)
    _check_template(schedule)
    most = schedule.pause_after
    if most is not None and not 1 <= most <= LARGEST_COUNT:
        raise InvalidSubmission(
            f"pause_after is 1 to {LARGEST_COUNT:,} failures in a row, not {most}.",
            field="pause_after",
        )


def check_overlap(overlap: str) -> None:
    """Raise `InvalidSubmission` for a rule that there is none of."""
    if overlap not in OVERLAPS:
        raise InvalidSubmission(
            f"overlap is one of {', '.join(OVERLAPS)}, not {overlap!r}.", field="overlap"
        )


def _check_template(schedule: Schedule) -> None:
    d = schedule.template
    check_form(replace(d, id="template"))
    for field, given in (
        ("run_at", d.run_at),
        ("deadline", d.deadline),
        ("expires_at", d.expires_at),
        ("dependencies", d.dependencies or None),
        ("unique_key", d.unique_key),
    ):
        if given is not None:
            raise InvalidSubmission(
                f"The task of a schedule has no {field}: {_INSTEAD[field]}.", field=field
            )
    policy, seconds = d.policy, schedule.deadline_in
    if seconds is None:
        if policy.deadline_required:
            raise InvalidSubmission(
                "This profile requires a deadline: say with deadline_in how many seconds each "
                "occurrence has.",
                field="deadline",
            )
    elif policy.deadline_max is not None and seconds > policy.deadline_max:
        raise InvalidSubmission(
            f"The deadline is more than {policy.deadline_max:.0f} s ahead.", field="deadline"
        )
    size = len(_encode(d))
    if size > MOST_TEMPLATE_BYTES:
        raise InvalidSubmission(
            f"The task of the schedule takes {size:,} bytes, the limit is "
            f"{MOST_TEMPLATE_BYTES:,}. Pass a reference to the data.",
            field="args",
        )


_INSTEAD = {
    "run_at": "its times are the schedule's; begin them with start",
    "deadline": "a fixed one would soon be past; say with deadline_in how many seconds each has",
    "expires_at": "a fixed one would soon be past; say how long to keep each with retention",
    "dependencies": "it begins when it is due; make one wait for the one before with overlap=queue",
    "unique_key": "all would have the same; of two that overlap, overlap=skip leaves out the newer "
    "one, and overlap=replace cancels the older one",
}


def declared_as(schedule: Schedule) -> str:
    """A hash over the declaration of a schedule: if it differs, the declaration is new."""
    told = (
        schedule.recurrence,
        schedule.template,
        schedule.deadline_in,
        schedule.overlap,
        schedule.pause_after,
    )
    return blake2b(_encode(told), digest_size=12).hexdigest()


PARTS: Mapping[str, tuple[str, ...]] = {
    "times": ("recurrence",),
    "task": ("template", "deadline_in"),
    "overlap": ("overlap",),
    "pause_after": ("pause_after",),
    "declaration": ("application", "release", "declared"),
}
"""The parts in which a schedule is changed, and the fields of each: concurrent changes of different
parts both succeed."""

BY_HAND = tuple(part for part in PARTS if part != "declaration")
"""The parts that may be changed by hand."""


def part_as_read(schedule: Schedule, part: str) -> str:
    """A digest of one part, which shows whether it has been changed since."""
    return blake2b(
        _encode([getattr(schedule, field) for field in PARTS[part]]), digest_size=12
    ).hexdigest()


def check_parts(parts: Collection[str]) -> None:
    """Raise `InvalidSubmission` for what is no part of a schedule that is changed by hand."""
    for part in parts:
        if part not in BY_HAND:
            raise InvalidSubmission(
                f"The parts of a schedule are {', '.join(BY_HAND)}, not {part[:80]!r}.",
                field="parts",
            )


def changed_meanwhile(schedule: Schedule, parts: Mapping[str, str]) -> str:
    """The first of these parts that has changed since it was read; empty if none has."""
    return next((p for p, read in parts.items() if read and part_as_read(schedule, p) != read), "")


def with_parts(schedule: Schedule, wanted: Schedule, parts: Collection[str]) -> Schedule:
    """The schedule with these parts of another."""
    fields = (field for part in parts for field in PARTS[part])
    return replace(schedule, **{field: getattr(wanted, field) for field in fields})


def record_definition(name: str, schedule: Schedule) -> Definition:
    """The definition of a schedule's own record: found under the name and queue of its task as they
    were at first."""
    d = schedule.template
    return Definition(
        id=name,
        name=d.name,
        version=d.version,
        queue=d.queue,
        policy=_KEPT,
        scopes=d.scopes,
        tags=d.tags,
        digest=declared_as(schedule),
        profile=d.profile,
    )


def modified_release(at: int) -> str:
    """The release of an application that names none: when the newest of its modules was modified,
    ms UTC."""
    return f"{_MODIFIED}{at}"


def is_older(release: str, than: str) -> bool:
    """Whether one release of an application is older than another. Numbers in them are compared as
    numbers: 1.9 is older than 1.10. A named release is newer than one that is derived from file
    times."""
    return _order(release) < _order(than)


def _order(release: str) -> tuple[bool, list[tuple[int, str]]]:
    parts = _DIGITS.split(release.removeprefix(_MODIFIED))
    numbers = [(int(part), "") if place % 2 else (-1, part) for place, part in enumerate(parts)]
    return not release.startswith(_MODIFIED), numbers
