"""Editing the arguments of tasks that have not begun: one is cancelled, its successor submitted.

In that order, and the first write holds all that the second needs: a process that dies in between
leaves a record that owes its successor, and a timekeeper stores it (`engine.debts`). Repeating an
edit with the successor's id is safe at any point.
"""

from andon.contract.limits import in_batches
from andon.contract.store import Store
from andon.engine.actor import ACTOR
from andon.engine.base import Submitted
from andon.engine.control import Control
from andon.engine.debts import Debts
from andon.engine.dependencies import pages
from andon.engine.reading import records
from andon.lifecycle import payloads
from andon.lifecycle.admission import check_id
from andon.lifecycle.commands import Edit
from andon.model.errors import (
    AndonError,
    InvalidSubmission,
    InvalidTransition,
    PayloadTooLarge,
    StoreError,
    TaskConflict,
    TaskNotFound,
)
from andon.model.headers import SIGNATURE_HEADER
from andon.model.task import Task
from andon.model.words import State


class Editing:
    """Edits tasks of one store."""

    def __init__(self, store: Store, control: Control, debts: Debts, *, max_payload: int) -> None:
        self._store = store
        self._control = control
        self._debts = debts
        self._max_payload = max_payload

    async def edit(self, task_id: str, args: bytes, successor: str) -> Submitted:
        """The outcome: the successor, or why nothing was changed. A successor without a state is
        not stored yet (the log says why), but will be."""
        try:
            self._check(task_id, args, successor)
            task = await self._edited(task_id, args, successor)
        except StoreError:
            raise
        except AndonError as error:
            return Submitted(successor, None, created=False, error=error)
        is_new = task.status.owed is not None
        if is_new:
            await self._debts.pay([task])
        return Submitted(successor, await self._state(successor), created=is_new)

    def _check(self, task_id: str, args: bytes, successor: str) -> None:
        check_id(successor)
        if successor == task_id:
            raise InvalidSubmission("A successor has an id of its own.", field="id")
        if len(args) > self._max_payload:
            raise PayloadTooLarge("args", len(args), self._max_payload)
        try:
            payloads.parse(args)
        except ValueError as error:
            raise InvalidSubmission(f"The arguments are not JSON: {error}.", field="args") from None

    async def _edited(self, task_id: str, args: bytes, successor: str) -> Task:
        """The record, cancelled in favour of that successor by this call or an earlier one."""
        task = await self._read(task_id)
        if task.status.successor == successor:
            return task  # a repeat
        if task.status.successor:
            raise InvalidTransition(
                task_id,
                "edit",
                task.state,
                f"Its successor is {task.status.successor!r}: edit that.",
            )
        if await self._state(successor) is not None:
            raise TaskConflict(successor)
        if SIGNATURE_HEADER in task.definition.headers:
            raise InvalidTransition(
                task_id,
                "edit",
                task.state,
                "It is signed, and its signature does not fit other arguments. Cancel it, and "
                "submit another that is signed.",
            )
        await self._refuse_dependents(task)
        [acted] = await self._control.act(
            [task_id], Edit(successor=successor, args=args), actor=ACTOR.get()
        )
        if acted.error is not None:
            raise acted.error
        return await self._read(task_id)

    async def _read(self, task_id: str) -> Task:
        [task] = await records(self._store, [task_id])
        if task is None:
            raise TaskNotFound(task_id)
        return task

    async def _state(self, task_id: str) -> State | None:
        [state] = await self._store.states([task_id])
        return state

    async def _refuse_dependents(self, task: Task) -> None:
        """A dependent names the id of its dependency for good (docs/rulings.md, R4), so it cannot
        wait for the successor."""
        waiting: list[str] = []
        async for edges in pages(self._store, task.id):
            untold = [edge.child for edge in edges if not edge.settled]
            for some in in_batches(untold):
                children = await self._store.get(some)
                waiting += [c.id for c in children if c is not None and c.state is State.BLOCKED]
            if waiting:
                break
        if waiting:
            more = f" and {len(waiting) - 1} more depend" if len(waiting) > 1 else " depends"
            raise InvalidTransition(
                task.id,
                "edit",
                task.state,
                f"Task {waiting[0]!r}{more} on it, and would not follow to the successor. "
                "Cancel what depends on it, edit, and submit that again.",
            )
