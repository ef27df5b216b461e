"""The interface for schedules: its methods and their answers (docs/rulings.md, R39).

A schedule is a record whose id is its name: what is asked about any task (`get`, `history`, `find`
with the state `recurring`, `watch`, `cancel`) is asked about it in the same way.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from andon.engine.base import ActionResult, Submission
from andon.model.errors import AndonError
from andon.model.recurrence import Range, Recurrence
from andon.model.task import Task

Overlap = Literal["allow", "skip", "queue", "replace"]
"""What becomes of an occurrence while the one before has not ended: it runs beside it, is left out,
waits for its end, or takes its place."""

ScheduleAct = Literal["pause", "resume", "run", "cancel", "delete", "rerun"]
"""What may be done to schedules. `run` bears one occurrence now, `rerun` begins one that has ended
anew; `delete` cancels a live one before."""

How = Literal["declare", "add", "edit"]
"""Where a change of a schedule comes from. `declare`: an application's code, at each start. `add`:
a user makes a new one. `edit`: a user changes an existing one."""

BACKFILL_ASKS = 1_000
"""A backfill of more occurrences is only made if the caller has confirmed their number (`yes`)."""

MOST_BACKFILL = 1_000_000
"""Occurrences that one backfill can have."""


class ScheduleRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a schedule is to be."""

    name: str  #: 1 to 47 of `A-Z a-z 0-9 _ : -`
    recurrence: Recurrence  #: when it fires
    task: Submission
    """What each occurrence is. Its `id` is ignored; `deadline_in` counts from when each is
    submitted. Absolute times, dependencies and unique keys are refused."""
    overlap: Overlap = "allow"  #: what becomes of one while the one before has not ended
    pause_after: int | None = None  #: so many failures in a row pause it
    application: str = ""  #: whose code declares it; empty if it is made by hand
    release: str = ""  #: of that application; an older one never overwrites a newer one
    parts: Mapping[str, str] | None = None
    """With `edit`: what is to be changed, `times`, `task`, `overlap` or `pause_after`, each with
    its digest as it was read (empty: whatever it is by now). Refused if it has been changed since;
    what is not named stays as it is. None: all of it."""


class ScheduleOutcome(msgspec.Struct, frozen=True):
    """How one request for a schedule ended.

    Example:
        for outcome in await app.schedules.declare():
            print(outcome.name, outcome.error or outcome.result)
    """

    name: str  #: of the schedule
    result: Literal["created", "revised", "unchanged", "older", "ended", "refused"]
    """`older`: a newer release of the application has declared it, which counts. `ended`: it has
    no time left, so that there is nothing to begin."""
    error: AndonError | None = None  #: why it was refused


class Backfilled(msgspec.Struct, frozen=True):
    """How a backfill ended, or with `dry_run` what it would be.

    Example:
        await app.schedules.add("again", report.draft(), every=60)
        done = await app.schedules.backfill("again", 10**12, 10**12 + 120_000)
        assert (done.range.count, done.created, done.existed) == (2, 2, 0)
        await app.schedules.delete("again")
    """

    range: Range  #: how many occurrences the range has, the first and the last of them
    created: int = 0  #: tasks that were submitted
    existed: int = 0  #: occurrences that have run, or are there
    refused: tuple[tuple[str, str], ...] = ()  #: ids that were refused and why, the first hundred
    more_refused: int = 0  #: others that were refused


class ScheduleKeeper(Protocol):
    """The schedules of a store or service."""

    async def put(self, requests: Sequence[ScheduleRequest], how: How) -> list[ScheduleOutcome]:
        """Make or revise schedules; outcomes in the order given, each stands alone. `add` refuses a
        name that is taken, `edit` one that is not. A declared one is revised if the code says
        something new and its release is not an older one; edits by hand hold until then."""
        ...

    async def act(self, names: Sequence[str], act: ScheduleAct) -> list[ActionResult]:
        """Pause, resume, run now, cancel, delete or rerun schedules; outcomes in the order given.
        A task that is no schedule is refused. To repeat an act is safe; but `run` bears another
        task in another second."""
        ...

    async def backfill(
        self, name: str, start: int, end: int, *, yes: bool = False, dry_run: bool = False
    ) -> Backfilled:
        """Submit the occurrences from `start` to before `end` (ms UTC), whatever their overlap
        rule; those that have run are not run again, while their record or stub is kept. Raises
        `TaskNotFound`, and `ConfigurationError` with the number if there are more than
        `BACKFILL_ASKS` without `yes`. With `dry_run` they are only counted."""
        ...

    async def prune(
        self, application: str, declared: Collection[str], *, dry_run: bool = False
    ) -> list[ActionResult]:
        """Delete the live schedules that an application declared once and does not any more;
        `declared` are those that it does. With `dry_run` they are only listed."""
        ...

    async def live(self) -> list[Task]:
        """The records of all live schedules, by name. One that has ended is found by its name."""
        ...


@runtime_checkable
class HasSchedules(Protocol):
    """An engine that knows schedules."""

    @property
    def schedules(self) -> ScheduleKeeper:
        """The schedules of its store."""
        ...
