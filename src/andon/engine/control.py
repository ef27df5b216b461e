"""Acts of control: read, decide, write, and decide again if the task moved in between."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from andon.contract.isolation import why_of
from andon.contract.limits import MAX_BATCH, in_batches
from andon.contract.outcomes import Changed, ChangeKind
from andon.contract.requests import Change
from andon.contract.store import Store
from andon.engine.base import ActionResult
from andon.engine.batching import Batcher
from andon.engine.reading import records
from andon.engine.writes import new_write_id
from andon.lifecycle.actors import done_by
from andon.lifecycle.apply import Moved, apply
from andon.lifecycle.bounds import check_command
from andon.lifecycle.commands import (
    Cancel,
    Command,
    Delete,
    RequestCancel,
    Rerun,
    RunNow,
    Schedule,
    ShutdownRetry,
)
from andon.lifecycle.delays import Random
from andon.lifecycle.repeats import is_done
from andon.model.errors import (
    AndonError,
    InvalidTransition,
    NotWritable,
    PayloadTooLarge,
    StoreUnavailable,
    TaskNotFound,
    UniqueKeyHeld,
)
from andon.model.task import Task
from andon.model.words import TERMINAL, State

log = logging.getLogger("andon.engine")

MOST_ATTEMPTS = 20
"""How often a change is decided again when other callers keep moving the task in between."""

_ACT = "change"

Choose = Callable[[Task], Command | None]
"""What to do about a task as it stands; None leaves it as it is."""


def change_of(
    task: Task, moved: Moved, *, seen_lease: int | None = None, force: bool = False
) -> Change:
    """The store change that writes a move."""
    return Change(
        before=task,
        after=moved.status,
        event=moved.event,
        result=moved.result,
        sets_result=moved.sets_result,
        seen_lease=seen_lease,
        force=force,
        discard=moved.discard,
    )


class _Sent(NamedTuple):
    """An act whose change is on its way."""

    task: Task
    command: Command
    moved: Moved | None  #: None: nothing could be decided, and nothing is written
    changed: asyncio.Future[Changed]


class Control:
    """Acts on tasks by id. `commits` writes changes; It calls `ended` with every end written,
    `link` with tasks that wait for their dependencies again, and `released` with tasks that were
    released from waiting by hand."""

    def __init__(
        self,
        store: Store,
        random: Random,
        commits: Batcher[Change, Changed],
        ended: Callable[[Task, State | None, Changed], None],
        *,
        link: Callable[[Sequence[Task]], Awaitable[None]],
        released: Callable[[Task], Awaitable[None]],
    ) -> None:
        self._store = store
        self._random = random
        self._commits = commits
        self._ended = ended
        self._link = link
        self._released = released

    async def cancel(
        self, ids: Sequence[str], *, force: bool, actor: str = ""
    ) -> list[ActionResult]:
        """Cancel, ask to cancel, or force. `actor`, here and below: the name for the events of acts
        by hand."""

        def choose(task: Task) -> Command | None:
            if task.state is State.CANCELLED:
                return None
            if task.state is State.ACTIVE and not force:
                return None if task.status.cancel_requested_at is not None else RequestCancel()
            return Cancel(force=force)

        return await self._each(ids, choose, actor=actor)

    async def retry(self, ids: Sequence[str], *, actor: str = "") -> list[ActionResult]:
        """Rerun what has ended, run now what waits, leave pending alone (docs/rulings.md, R20)."""

        def choose(task: Task) -> Command | None:
            if task.state is State.PENDING:
                return None
            return Rerun() if task.state in TERMINAL or task.state is State.ACTIVE else RunNow()

        return await self._each(ids, choose, actor=actor)

    async def end_runs(
        self, worker: str, ids: Sequence[str], *, actor: str = ""
    ) -> list[ActionResult]:
        """End the runs that this worker has of these tasks, as its shutdown does with
        `on_shutdown=retry`. The run is looked up each time a task is decided, so that a run which
        another worker has begun meanwhile is left alone."""

        def choose(task: Task) -> Command | None:
            held = task.state is State.ACTIVE and task.status.worker == worker
            return ShutdownRetry() if held else None

        return await self._each(ids, choose, actor=actor)

    async def act(
        self, ids: Sequence[str], command: Command, *, force: bool = False, actor: str = ""
    ) -> list[ActionResult]:
        """The same command on each task. Raises `InvalidSubmission` for one that carries what no
        record can have."""
        check_command(command)
        acted = await self._each(
            ids, lambda task: None if is_done(task, command) else command, force=force, actor=actor
        )
        if isinstance(command, Rerun) and command.waits:
            await self._wait_again([one.id for one in acted if one.state is State.BLOCKED])
        return acted

    async def _wait_again(self, ids: Sequence[str]) -> None:
        """Link tasks that are blocked anew. Where this is cut short, their verify timers, which are
        due at once, link them."""
        for batch in in_batches(ids):
            tasks = await self._store.get(batch)
            await self._link([task for task in tasks if task is not None])

    async def act_on(self, tasks: Sequence[Task], command: Command) -> list[ActionResult]:
        """The same for tasks that were just read; each is decided anew where it has moved."""
        return await self.act_each([(task, command) for task in tasks])

    async def act_each(self, acts: Sequence[tuple[Task, Command]]) -> list[ActionResult]:
        """Apply to each of these tasks, as it was just read, a command of its own. All are decided
        at once and written together; only one that has moved meanwhile is decided again, in an
        asyncio task of its own."""
        if len(acts) == 1:
            [(task, command)] = acts
            return [await self._one(task, _always(command), force=False, actor="")]
        sent = [self._send(task, command) for task, command in acts]
        await asyncio.gather(*(one.changed for one in sent), return_exceptions=True)
        told: list[ActionResult | Task] = []
        away: list[Exception] = []
        for one in sent:
            try:
                told.append(await self._heard(one))
            except (AndonError, OSError) as error:  # raised when the others have been looked at
                away.append(error)
        if away:
            raise away[0]
        anew = [
            self._one(task, _always(command), force=False, actor="")
            for task, (_, command) in zip(told, acts, strict=True)
            if isinstance(task, Task)
        ]
        again = iter(await self._together(anew) if anew else ())
        return [one if isinstance(one, ActionResult) else next(again) for one in told]

    def change_for(self, task: Task, command: Command, now: int) -> Change:
        """The change that a command makes to a task. Safe to call in any thread. Raises
        `InvalidTransition`."""
        write_id = new_write_id()
        moved = apply(task, command, now=now, random=self._random, write_id=write_id)
        return change_of(task, moved)

    def _send(self, task: Task, command: Command) -> _Sent:
        """Decide, and hand over the change."""
        changed: asyncio.Future[Changed] = asyncio.get_running_loop().create_future()
        moved = None
        try:
            now, write_id = self._store.now(), new_write_id()
            moved = apply(task, command, now=now, random=self._random, write_id=write_id)
            self._commits.hand(change_of(task, moved), changed)
        except Exception as error:
            changed.set_exception(error)
        return _Sent(task, command, moved, changed)

    async def _heard(self, sent: _Sent) -> ActionResult | Task:
        """The outcome of an act; or the task, if it has moved and is to be decided again. Raises
        the errors of the store itself."""
        task = sent.task
        try:
            changed = sent.changed.result()
            if changed.kind is ChangeKind.APPLIED and sent.moved is not None:
                return await self._applied(task, sent.command, sent.moved, changed)
        except InvalidTransition as error:
            return ActionResult(task.id, task.state, changed=False, error=error)
        except (AndonError, OSError):
            raise
        except Exception as error:
            return _failed(task, error)
        if changed.kind is ChangeKind.CONFLICT and changed.current is not None:
            return changed.current
        return self._refused(task, changed)

    async def _each(
        self, ids: Sequence[str], choose: Choose, *, force: bool = False, actor: str
    ) -> list[ActionResult]:
        acted: list[ActionResult] = []
        for start in range(0, len(ids), MAX_BATCH):
            batch = ids[start : start + MAX_BATCH]
            tasks = await records(self._store, batch)
            acted += await self._together(
                [
                    self._named(task_id, task, choose, force, actor)
                    for task_id, task in zip(batch, tasks, strict=True)
                ]
            )
        return acted

    async def _together(
        self, acts: Sequence[Coroutine[Any, Any, ActionResult]]
    ) -> list[ActionResult]:
        """All at once, so that their writes share batches. A store that is away fails the call,
        after every item has got as far as it can."""
        done = await asyncio.gather(*acts, return_exceptions=True)
        for outcome in done:
            if isinstance(outcome, BaseException):
                raise outcome
        return [acted for acted in done if isinstance(acted, ActionResult)]

    async def _named(
        self, task_id: str, task: Task | None, choose: Choose, force: bool, actor: str
    ) -> ActionResult:
        if task is None:
            return ActionResult(task_id, None, changed=False, error=TaskNotFound(task_id))
        return await self._one(task, choose, force=force, actor=actor)

    async def _one(self, task: Task, choose: Choose, *, force: bool, actor: str) -> ActionResult:
        try:
            return await self._decided(task, choose, force, actor)
        except (AndonError, OSError):
            raise
        except Exception as error:  # an error of this item only: the others of the call go on
            return _failed(task, error)

    async def _decided(self, task: Task, choose: Choose, force: bool, actor: str) -> ActionResult:
        write_id = new_write_id()
        for _ in range(MOST_ATTEMPTS):
            command = choose(task)
            if command is None:
                return ActionResult(task.id, task.state, changed=False)
            try:
                moved = apply(
                    task, command, now=self._store.now(), random=self._random, write_id=write_id
                )
            except InvalidTransition as error:
                return ActionResult(task.id, task.state, changed=False, error=error)
            moved = done_by(moved, actor)
            changed = await self._commits.put(change_of(task, moved, force=force))
            if changed.kind is ChangeKind.APPLIED:
                return await self._applied(task, command, moved, changed)
            if changed.kind is ChangeKind.CONFLICT and changed.current is not None:
                held = changed.current.status.revision == task.status.revision
                if held and isinstance(command, Delete):
                    return ActionResult(task.id, task.state, changed=False, error=_needed(task))
                task = changed.current
                continue
            return self._refused(task, changed)
        busy = StoreUnavailable(f"Task {task.id!r} keeps moving; try again.")
        return ActionResult(task.id, task.state, changed=False, error=busy)

    async def _applied(
        self, task: Task, command: Command, moved: Moved, changed: Changed
    ) -> ActionResult:
        state = moved.status.state if moved.status is not None else None
        self._ended(task, state, changed)
        if task.state is State.BLOCKED and isinstance(command, RunNow | Schedule | Rerun):
            await self._released(task)
        gone = moved.discard is not None
        return ActionResult(task.id, None if gone and state is None else state, changed=True)

    def _refused(self, task: Task, changed: Changed) -> ActionResult:
        state = task.state if changed.kind is ChangeKind.INVALID else None
        return ActionResult(task.id, state, changed=False, error=self._refusal(task, changed))

    def _refusal(self, task: Task, changed: Changed) -> AndonError:
        if changed.kind is ChangeKind.KEY_HELD:
            return UniqueKeyHeld(task.definition.unique_key or "", changed.holder)
        if changed.kind is ChangeKind.TOO_LARGE:
            return PayloadTooLarge("record", changed.size, changed.limit)
        if changed.kind is ChangeKind.INVALID:
            return NotWritable(task.id, _ACT, changed.why)
        return TaskNotFound(task.id)


def _failed(task: Task, error: Exception) -> ActionResult:
    """The outcome of an act that failed alone, in an `except` block."""
    log.exception("An act on task %s has failed; nothing was changed.", task.id)
    why = NotWritable(task.id, _ACT, why_of(error))
    return ActionResult(task.id, task.state, changed=False, error=why)


def _always(command: Command) -> Choose:
    return lambda task: command


def _needed(task: Task) -> AndonError:
    return InvalidTransition(
        task.id,
        "delete",
        task.state,
        "Tasks that depend on it have not ended yet; wait for them, or delete it by force.",
    )
