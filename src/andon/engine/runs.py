"""Runs: claimed, renewed, and resolved by the worker that holds them; no other report changes
anything (docs/rulings.md, R3)."""

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import NamedTuple

from msgspec.structs import replace

from andon.contract.isolation import AT_FAULT, why_of
from andon.contract.limits import MAX_BATCH
from andon.contract.outcomes import Changed, ChangeKind, Verdict
from andon.contract.requests import Change, ClaimRequest, Renewal
from andon.contract.store import Store
from andon.engine.base import Submission
from andon.engine.batching import Batcher
from andon.engine.bearing import Bearing
from andon.engine.completions import Completion, Completions, CompletionTaker
from andon.engine.control import MOST_ATTEMPTS, change_of
from andon.engine.extending import adds_to_joins
from andon.engine.faults import Culprits
from andon.engine.policy_resolver import PolicyResolver
from andon.engine.writes import new_write_id
from andon.lifecycle.apply import Moved, apply
from andon.lifecycle.bounds import check_command
from andon.lifecycle.commands import Command, Complete
from andon.lifecycle.delays import Random
from andon.lifecycle.repeats import is_repeat, repeats_the_last, state_that_followed
from andon.model.errors import (
    InvalidSubmission,
    InvalidTransition,
    LeaseLost,
    NotWritable,
    PayloadTooLarge,
    StoreUnavailable,
)
from andon.model.task import Status, Task
from andon.model.text import storable
from andon.model.words import State

_REPORT = "report"
_APPLIED = ChangeKind.APPLIED  # see `lifecycle.admission`


class Mark(NamedTuple):
    """The newest progress and heartbeat of a run, as its worker knows them."""

    progress: int | None = None
    message: str = ""
    heartbeat_at: int = 0


class Resolved(NamedTuple):
    """The outcome of a report."""

    state: State | None  #: that follows; None where the record went with its end
    task: Task | None = None
    """The record as it was written just now. None: it was written before, or it is gone."""


class Runs:
    """The worker's half of the engine, over one store."""

    def __init__(
        self,
        store: Store,
        resolver: PolicyResolver,
        random: Random,
        ended: Callable[[Task, State | None, Changed], None],
        *,
        bearing: Bearing,
        owes: Callable[[Task], None],
        extend: Callable[[Task, Command], Awaitable[None]],
    ) -> None:
        """It calls `ended` with every end written, and `owes` with every record whose move bore
        tasks; `extend` writes what a report adds to blocked tasks, before the report."""
        self._bearing = bearing
        self._owes = owes
        self._extend = extend
        self._store = store
        self._resolver = resolver
        self._random = random
        self._ended = ended
        self._telling = Completions()
        self._unfilled = Culprits("Filling in the type's policy of task")
        self.commits: Batcher[Change, Changed] = Batcher(
            store.commit,
            size=MAX_BATCH,
            in_flight=store.in_flight,
            key=lambda change: change.before.definition.id,
            finishes=True,
        )

    async def claim(self, request: ClaimRequest) -> list[Task]:
        """Claim, and fill in what is not known of a type's policy."""
        return self.filled_in(await self._store.claim(request))

    def filled_in(self, tasks: list[Task]) -> list[Task]:
        """The tasks with the type's layer, where the submitter did not know it (docs/rulings.md,
        R5)."""
        for task in tasks:
            if not task.definition.type_known and task.status.policy is None:
                self._fill_in(task)
        return tasks

    def _fill_in(self, task: Task) -> None:
        d = task.definition
        try:
            found = self._resolver.policy(d.queue, d.name, d.version, d.policy_given, d.profile)
        except Exception as error:  # an error of this task only: the others are filled in
            self._unfilled.failed(task.id, error)
            return  # it runs under the policy that was resolved at its submit
        if found.type_known:
            # Stored with the next move of this run; until then every reader resolves the same.
            task.status = copy(task.status)
            task.status.policy = found.policy

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        """Renew the leases of runs."""
        verdicts: list[Verdict] = []
        for start in range(0, len(renewals), MAX_BATCH):
            verdicts.extend(await self._store.renew(renewals[start : start + MAX_BATCH]))
        return verdicts

    async def report_run(
        self,
        task_id: str,
        run: str,
        current: Task | None,
        command: Command,
        mark: Mark,
        *,
        follow_ups: Sequence[Submission] = (),
    ) -> Resolved:
        """Resolve a run of which only the ids are known; `current` is the record as just read, or
        as it was claimed."""
        if current is None or current.state is not State.ACTIVE or current.status.run != run:
            command = await self._with_births(task_id, command, follow_ups)
            return Resolved(await self._repeated(task_id, current, run, command))
        if not current.definition.type_known and current.status.policy is None:
            self._fill_in(current)
        _marked(current, mark, self._store.now())
        return await self._resolve(current, command, follow_ups)

    def report_nowait(
        self, task: Task, command: Command, then: Completion, follow_ups: Sequence[Submission] = ()
    ) -> None:
        """Resolve the run in hand, and call back. Nearly always the run ends as the worker knows
        it, with one change that shares a batch with others: no asyncio task waits for that."""
        if follow_ups:
            bearing = self._bearing_at_once(task.id, command, follow_ups)
            if bearing is None:
                self._telling.tell(self.report(task, command, follow_ups), then)
                return
            command = bearing
        write_id = new_write_id()
        try:
            moved = self._decided(task, command, write_id)
            change = change_of(task, moved)
        except Exception:
            self.report_again(task, command, write_id, then)
        else:
            self.commits.hand(change, _Sent(then, self, task, command, moved))

    def report_again(self, task: Task, command: Command, write_id: str, then: Completion) -> None:
        """Resolve the run in hand as `report` does, and call back."""

        async def again() -> State | None:
            return (await self._report(task, command, write_id)).state

        self._telling.tell(again(), then)

    async def report(
        self, task: Task, command: Command, follow_ups: Sequence[Submission] = ()
    ) -> State | None:
        """Resolve the run in hand; decide again while the run still holds the task."""
        return (await self._resolve(task, command, follow_ups)).state

    async def _resolve(
        self, task: Task, command: Command, follow_ups: Sequence[Submission]
    ) -> Resolved:
        command = await self._with_births(task.id, command, follow_ups)
        if follow_ups and adds_to_joins(command):
            run = task.status.run
            (current,) = await self._store.get([task.id])
            if current is None or current.state is not State.ACTIVE or current.status.run != run:
                return Resolved(await self._repeated(task.id, current, run, command))
            await self._extend(task, command)
        return await self._report(task, command, new_write_id())

    async def _with_births(
        self, task_id: str, command: Command, follow_ups: Sequence[Submission]
    ) -> Command:
        """The command with the tasks it bears. Raises `InvalidSubmission` for a task that can never
        be stored."""
        if not follow_ups or not isinstance(command, Complete):
            return command
        births = await self._bearing.definitions(task_id, follow_ups)
        return replace(command, births=births)

    def _bearing_at_once(
        self, task_id: str, command: Command, follow_ups: Sequence[Submission]
    ) -> Command | None:
        """The command with the tasks it bears; None if `report` has to find them out, or to raise
        why not."""
        if not isinstance(command, Complete):
            return command
        try:
            births = self._bearing.at_once(task_id, follow_ups)
        except Exception:
            return None
        return None if births is None else replace(command, births=births)

    def _decided(self, task: Task, command: Command, write_id: str) -> Moved:
        check_command(command)
        return apply(task, command, now=self._store.now(), random=self._random, write_id=write_id)

    def applied(self, task: Task, moved: Moved, changed: Changed) -> State | None:
        """The state that follows, once the move was written."""
        status = moved.status
        state = status.state if status is not None else None
        if status is not None and status.owes:
            self._owes(_written(task, status, moved.result))
        if changed.has_dependents or task.definition.dependencies:
            self._ended(task, state, changed)
        return None if moved.discard is not None else state

    async def _report(self, task: Task, command: Command, write_id: str) -> Resolved:
        run = task.status.run
        for _ in range(MOST_ATTEMPTS):
            try:
                moved = self._decided(task, command, write_id)
            except InvalidTransition:
                # not possible on the task as the worker knows it; perhaps on the stored one (a
                # cancel was requested since)
                (current,) = await self._store.get([task.id])
                if current is not None and current.status.revision == task.status.revision:
                    raise LeaseLost(task.id, run) from None
            except Exception as error:
                raise _undecided(task.id, error) from error
            else:
                try:
                    changed = await self.commits.put(change_of(task, moved))
                except AT_FAULT as error:
                    raise NotWritable(task.id, _REPORT, why_of(error)) from error
                if changed.kind is ChangeKind.APPLIED:
                    return Resolved(self.applied(task, moved, changed), _after(task, moved))
                if changed.kind is ChangeKind.TOO_LARGE:
                    raise PayloadTooLarge("result", changed.size, changed.limit)
                if changed.kind is ChangeKind.INVALID:
                    raise NotWritable(task.id, _REPORT, changed.why)
                current = changed.current
            if current is None or current.state is not State.ACTIVE or current.status.run != run:
                return Resolved(await self._repeated(task.id, current, run, command))
            task = _with_cell(current, task)
        raise StoreUnavailable(f"Task {task.id!r} keeps moving; try again.")

    async def _repeated(
        self, task_id: str, current: Task | None, run: str, command: Command
    ) -> State | None:
        """The answer to a report of a run that holds its task no more: that to the first report,
        if this is its exact repeat (docs/rulings.md, R33), also when the record is gone since.
        Raises `LeaseLost` for any other."""
        if current is not None:
            if is_repeat(current.status, run, command):
                if current.status.owes:  # the first caller may have crashed before paying
                    self._owes(current)
                return state_that_followed(current.status, run)
            raise LeaseLost(task_id, run)
        [left] = await self._store.tombstones([task_id])
        if repeats_the_last(left, run, command):
            return None
        raise LeaseLost(task_id, run)


class _Sent(CompletionTaker):
    """A report whose change is on its way. One object, for there is one for every run."""

    runs: Runs
    task: Task
    command: Command
    moved: Moved

    def set_result(self, result: Changed, /) -> None:
        if result.kind is _APPLIED:
            try:
                state = self.runs.applied(self.task, self.moved, result)
            except Exception as error:
                self.then(None, error)
            else:
                self.then(state, None)
        elif result.kind is ChangeKind.INVALID:
            self.then(None, NotWritable(self.task.id, _REPORT, result.why))
        else:  # The record has moved, or cannot hold this: rare, so `report` does it all again.
            write_id = self.moved.event.write_id
            self.runs.report_again(self.task, self.command, write_id, self.then)

    def set_exception(self, exception: BaseException, /) -> None:
        if isinstance(exception, AT_FAULT):
            exception = NotWritable(self.task.id, _REPORT, why_of(exception))
        self.then(None, exception)


def _written(task: Task, status: Status, result: bytes | None) -> Task:
    """The record after the move that ended its run."""
    return Task(definition=task.definition, status=status, result=result, ref=task.ref)


def _after(task: Task, moved: Moved) -> Task | None:
    """The record after a move; None if it went with it."""
    if moved.status is None or moved.discard is not None:
        return None
    return _written(task, moved.status, moved.result if moved.sets_result else task.result)


def _marked(task: Task, mark: Mark, now: int) -> None:
    """Put the worker's progress and heartbeat into the record that its report is decided on."""
    if task.cell is None:
        return
    task.cell = copy(task.cell)
    task.cell.heartbeat_at = max(task.cell.heartbeat_at, min(mark.heartbeat_at, now))
    if mark.progress is not None:
        task.cell.progress = mark.progress
        task.cell.message = storable(mark.message)


def _undecided(task_id: str, error: Exception) -> NotWritable:
    """The error for a report on which nothing can be decided."""
    if isinstance(error, InvalidSubmission):  # a time or delay that no record can have
        return NotWritable(task_id, _REPORT, str(error).rstrip("."))
    return NotWritable(task_id, _REPORT, why_of(error))


def _with_cell(current: Task, mine: Task) -> Task:
    """The record as it is now, with the progress that only this worker has yet."""
    if current.cell is not None and mine.cell is not None:
        current.cell = copy(current.cell)
        current.cell.heartbeat_at = max(current.cell.heartbeat_at, mine.cell.heartbeat_at)
        current.cell.progress = mine.cell.progress
        current.cell.message = mine.cell.message
    if current.status.policy is None and mine.status.policy is not None:
        current.status = copy(current.status)
        current.status.policy = mine.status.policy
    return current
