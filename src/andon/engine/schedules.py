"""Schedules: made, revised, acted on, and their past times submitted (docs/rulings.md, R39).

Their timers fire like all others (`engine.timekeeper`). A schedule takes no move while it owes
tasks; an act on it pays them first, instead of refusing the caller.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice

import msgspec
from msgspec.structs import replace

from andon.contract.isolation import why_of
from andon.contract.limits import MAX_BATCH, in_batches
from andon.contract.queries import Query
from andon.contract.store import Store
from andon.engine.actor import ACTOR
from andon.engine.audit import Audit
from andon.engine.base import ActionResult, Submitted
from andon.engine.control import Control
from andon.engine.debts import Debts
from andon.engine.definitions import define
from andon.engine.policy_resolver import PolicyResolver
from andon.engine.reading import records
from andon.engine.schedule_requests import (
    BACKFILL_ASKS,
    MOST_BACKFILL,
    Backfilled,
    How,
    ScheduleAct,
    ScheduleOutcome,
    ScheduleRequest,
)
from andon.engine.schedule_views import declared_no_more
from andon.engine.writes import new_write_id
from andon.lifecycle.admission import admit, admit_schedule
from andon.lifecycle.commands import (
    Cancel,
    Command,
    Delete,
    Pause,
    Rerun,
    Resume,
    Revise,
    RunNow,
)
from andon.lifecycle.firing import begun, occurrence
from andon.lifecycle.named import OPTION
from andon.lifecycle.schedules import (
    BY_HAND,
    check_overlap,
    check_parts,
    check_schedule,
    declared_as,
    is_older,
    is_schedule,
    part_as_read,
    record_definition,
)
from andon.model.errors import (
    AndonError,
    ConfigurationError,
    InvalidSubmission,
    InvalidTransition,
    StoreError,
    TaskConflict,
    TaskNotFound,
)
from andon.model.recurrence import Occurrence
from andon.model.task import Schedule, Task
from andon.model.words import TERMINAL, State

log = logging.getLogger("andon.engine")

_MOST_ATTEMPTS = 5
_SHOWN = 100
_WRITTEN = ("created", "revised")
_COMMANDS: dict[ScheduleAct, Command] = {
    "pause": Pause(),
    "resume": Resume(),
    "run": RunNow(),
    "cancel": Cancel(),
    "delete": Delete(),
    "rerun": Rerun(),
}

Create = Callable[[Sequence[Task]], Awaitable[Sequence[Submitted]]]


class Schedules:
    """The schedules of one store. `create` stores records, each for itself."""

    def __init__(
        self,
        store: Store,
        resolver: PolicyResolver,
        control: Control,
        debts: Debts,
        create: Create,
        *,
        audit: Audit,
        max_payload: int,
    ) -> None:
        self._store = store
        self._resolver = resolver
        self._control = control
        self._debts = debts
        self._create = create
        self._audit = audit
        self._max_payload = max_payload

    # --- making and revising ---

    async def put(self, requests: Sequence[ScheduleRequest], how: How) -> list[ScheduleOutcome]:
        """Make or revise, each alone."""
        outcomes = [await self._put_alone(request, how) for request in requests]
        made = [ActionResult(one.name, None, changed=one.result in _WRITTEN) for one in outcomes]
        await self._audit.done(f"{how}-schedule", made)
        return outcomes

    async def _put_alone(self, request: ScheduleRequest, how: How) -> ScheduleOutcome:
        try:
            return await self._put(request, how)
        except StoreError:
            raise
        except AndonError as error:
            return ScheduleOutcome(request.name, "refused", error)
        except Exception as error:  # an error of this one only: the others go on
            log.exception("Schedule %s could not be taken; it alone was refused.", request.name)
            refusal = InvalidSubmission(f"The schedule cannot be taken: {why_of(error)}.")
            return ScheduleOutcome(request.name, "refused", refusal)

    async def _put(self, request: ScheduleRequest, how: How) -> ScheduleOutcome:
        wanted = await self._wanted(request)
        check_schedule(request.name, wanted)
        check_parts(request.parts or ())
        for _ in range(_MOST_ATTEMPTS):
            [there] = await self._store.get([request.name])
            if there is not None:
                return await self._revise(there, wanted, how, request.parts)
            if how == "edit":
                raise TaskNotFound(request.name)
            made = await self._make(request.name, wanted, how)
            if made is not None:
                return made
        raise TaskConflict(request.name)

    async def _wanted(self, request: ScheduleRequest) -> Schedule:
        check_overlap(request.overlap)
        try:
            return self._schedule(request)
        except InvalidSubmission as error:
            if error.field != OPTION:
                raise
            await self._resolver.refresh()  # a retry policy whose name may be new
            return self._schedule(request)

    def _schedule(self, request: ScheduleRequest) -> Schedule:
        task = request.task
        if task.delay is not None:
            raise InvalidSubmission(
                "The task of a schedule has no delay: its times are the schedule's.", field="delay"
            )
        if task.invalid:
            raise InvalidSubmission(task.invalid, field="args")
        seconds = task.deadline_in
        if seconds is not None and not seconds > 0:
            raise InvalidSubmission(
                f"deadline_in must be more than 0 seconds, got {seconds}.", field="deadline"
            )
        bare = replace(task, id="", deadline_in=None)
        template = define(bare, self._resolver, self._store.now(), self._max_payload)
        schedule = Schedule(
            recurrence=request.recurrence,
            template=replace(template, digest="", policy_given=task.options),
            deadline_in=seconds,
            overlap=request.overlap,
            pause_after=request.pause_after,
            application=request.application,
            release=request.release,
        )
        return (
            replace(schedule, declared=declared_as(schedule)) if request.application else schedule
        )

    async def _make(self, name: str, wanted: Schedule, how: How) -> ScheduleOutcome | None:
        """How it was made; None if another caller was first."""
        now = self._store.now()
        schedule = begun(name, wanted, now)
        if schedule.next_due is None:
            if how == "declare":
                return ScheduleOutcome(name, "ended")
            raise InvalidSubmission(
                "The schedule never fires again: none of its times is left.", field="end"
            )
        record = admit_schedule(record_definition(name, schedule), schedule, now, new_write_id())
        [outcome] = await self._create([record])
        if outcome.created:
            return ScheduleOutcome(name, "created")
        if outcome.state in TERMINAL:  # what is left of one that was deleted a moment ago
            raise InvalidSubmission(
                f"{name!r} was deleted a moment ago, and its name can be taken again ten minutes "
                "later.",
                field="name",
            )
        if outcome.error is not None and not isinstance(outcome.error, TaskConflict):
            raise outcome.error
        return None

    async def _revise(
        self, there: Task, wanted: Schedule, how: How, parts: Mapping[str, str] | None
    ) -> ScheduleOutcome:
        name, current = there.id, there.status.schedule
        if current is None:
            raise InvalidSubmission(
                f"{name!r} is the id of a task, and tasks and schedules share their ids; give the "
                "schedule another name.",
                field="name",
            )
        if how == "add":
            raise InvalidSubmission(
                f"There is a schedule {name!r} already ({there.state}). Edit or delete that, or "
                "give this one another name.",
                field="name",
            )
        if how == "edit":
            parts = dict.fromkeys(BY_HAND, "") if parts is None else parts
        else:
            parts = None
            settled = _settled(name, current, wanted)
            if settled is not None:
                return settled
            if wanted.declared == current.declared:  # edits by hand hold
                parts = {"declaration": part_as_read(current, "declaration")}
                if there.state in TERMINAL:
                    return ScheduleOutcome(name, "unchanged")
        ended = there.state in TERMINAL
        command: Command = Revise(schedule=wanted, parts=parts)
        if ended:
            command = Rerun(schedule=wanted, parts=parts)
        [acted] = await self._act([there.id], command)
        if acted.error is not None:
            raise acted.error
        return ScheduleOutcome(name, "revised")

    # --- acting ---

    async def act(self, names: Sequence[str], act: ScheduleAct) -> list[ActionResult]:
        """Do the same to each schedule."""
        done: dict[str, ActionResult] = {}
        found: list[Task] = []
        for some in in_batches(list(dict.fromkeys(names))):
            for name, task in zip(some, await records(self._store, some), strict=True):
                if task is None:
                    done[name] = ActionResult(name, None, changed=False, error=TaskNotFound(name))
                elif not is_schedule(task):
                    no = InvalidTransition(name, act, task.state, "It is no schedule.")
                    done[name] = ActionResult(name, task.state, changed=False, error=no)
                else:
                    found.append(task)
        if act == "delete":
            live = [task.id for task in found if task.state is State.RECURRING]
            cancelled = {one.id: one for one in await self._act(live, Cancel())}
            done |= {i: one for i, one in cancelled.items() if one.error is not None}
            found = [task for task in found if task.id not in done]
        done |= {one.id: one for one in await self._act([t.id for t in found], _COMMANDS[act])}
        await self._audit.done(f"{act}-schedule", list(done.values()))
        return [done[name] for name in names]

    async def _act(self, names: Sequence[str], command: Command) -> list[ActionResult]:
        """The command on each; of those that owe tasks, these are stored first."""
        done: dict[str, ActionResult] = {}
        left, actor = list(names), ACTOR.get()
        for _ in range(_MOST_ATTEMPTS):
            if isinstance(command, Cancel):
                acted = await self._control.cancel(left, force=False, actor=actor)
            else:
                acted = await self._control.act(left, command, actor=actor)
            done |= {one.id: one for one in acted}
            refused = [one.id for one in acted if isinstance(one.error, InvalidTransition)]
            left = await self._pay(refused)
            if not left:
                break
        if isinstance(command, RunNow):
            await self.delivered(list(done.values()))
        return [done[name] for name in names]

    async def delivered(self, acted: list[ActionResult]) -> list[ActionResult]:
        """Store the tasks that the schedules among these have just fired. Returns the acts."""
        bore = [one.id for one in acted if one.changed and one.state is State.RECURRING]
        if bore:
            await self._pay(bore)
        return acted

    async def _pay(self, names: Sequence[str]) -> list[str]:
        """Store what schedules owe; those that owed."""
        tasks = await self._store.get(names) if names else []
        owing = [task for task in tasks if task is not None and task.status.owes]
        if owing:
            await self._debts.pay(owing)
        return [task.id for task in owing]

    # --- past times ---

    async def backfill(
        self, name: str, start: int, end: int, *, yes: bool = False, dry_run: bool = False
    ) -> Backfilled:
        """Submit the occurrences of a range."""
        from andon.lifecycle.recurrence.occurrences import between, measure

        [task] = await records(self._store, [name])
        schedule = None if task is None else task.status.schedule
        if schedule is None:
            raise TaskNotFound(name)
        if end <= start:
            raise ConfigurationError("A backfill ends after it starts.")
        # in a thread: to count a million of them takes a second
        found = await asyncio.to_thread(
            measure, schedule.recurrence, name, start=start, end=end, most=MOST_BACKFILL
        )
        if dry_run:
            return Backfilled(found)
        number = f"{'more than ' if found.more else ''}{found.count:,}"
        if found.more:
            raise ConfigurationError(
                f"The range has {number} occurrences, which is more than one backfill can have; "
                "split it."
            )
        if found.count > BACKFILL_ASKS and not yes:
            raise ConfigurationError(
                f"The range has {number} occurrences, each of which is a task. Say yes to that "
                "(--yes), or name a shorter range."
            )
        if ACTOR.get():
            await self._audit.asked("backfill-schedule", name, start=start, end=end)
        plain = replace(schedule, overlap="allow")
        created = existed = 0
        refused: list[tuple[str, str]] = []
        for some in _chunks(between(schedule.recurrence, name, start=start, end=end)):
            now, write_id = self._store.now(), new_write_id()
            births = [admit(occurrence(name, plain, one, now), now, write_id) for one in some]
            for outcome in await self._create(births):
                if outcome.error is not None:
                    refused.append((outcome.id, str(outcome.error)))
                elif outcome.created:
                    created += 1
                else:
                    existed += 1
        more = max(0, len(refused) - _SHOWN)
        return Backfilled(found, created, existed, tuple(refused[:_SHOWN]), more)

    async def prune(
        self, application: str, declared: Collection[str], *, dry_run: bool = False
    ) -> list[ActionResult]:
        """Delete what the application does not declare any more."""
        gone = declared_no_more(await self.live(), application, declared)
        if dry_run:
            return [ActionResult(name, State.RECURRING, changed=False) for name in gone]
        return await self.act(gone, "delete")

    async def live(self) -> list[Task]:
        """All live schedules, by name."""
        found: list[Task] = []
        query = Query(states=(State.RECURRING,), limit=MAX_BATCH)
        while True:
            page = await self._store.find(query)
            found += page.tasks
            if not page.cursor:
                return sorted(found, key=lambda task: task.id)
            query = msgspec.structs.replace(query, cursor=page.cursor)


def _settled(name: str, current: Schedule, wanted: Schedule) -> ScheduleOutcome | None:
    """How a declaration ends without a write; None if there is something to write."""
    if current.application != wanted.application:
        whose = (
            f"is declared by application {current.application!r}"
            if current.application
            else "was made by hand"
        )
        raise InvalidSubmission(
            f"Schedule {name!r} {whose}, not by {wanted.application!r}; give this one another "
            "name, or delete that.",
            field="name",
        )
    if is_older(wanted.release, than=current.release):
        return ScheduleOutcome(name, "older")
    if wanted.declared == current.declared and wanted.release == current.release:
        return ScheduleOutcome(name, "unchanged")
    return None


def _chunks(occurrences: Iterator[Occurrence]) -> Iterator[list[str]]:
    while some := [one.id for one in islice(occurrences, MAX_BATCH)]:
        yield some
