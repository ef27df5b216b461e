"""Pays debts: stores the births of moves that were written (docs/rulings.md, R38).

The process that wrote such a move pays at once, in the background; what a crash leaves is paid by
whichever timekeeper fires the record's timer first. Paying twice stores nothing twice, because
every birth has its id from before the move. Debts are paid in batches: the births of many tasks are
created together, and their `deliver` moves share the commits of reports.

A birth that is refused does not undo the move that bore it: the event `deliver` says which and why.
The successor of an edited task is never given up: it is tried again until it is stored. A birth
that cannot be decided on or written fails alone (docs/rulings.md, R36).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from andon.contract.limits import MAX_BATCH, in_batches
from andon.contract.store import Store
from andon.engine.base import Submitted
from andon.engine.control import Control
from andon.engine.dependencies import Dependencies
from andon.engine.faults import Culprits
from andon.engine.writes import new_write_id
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import kept_for
from andon.lifecycle.births import owes, refusal
from andon.lifecycle.commands import Command, Deliver
from andon.lifecycle.joins import join_of
from andon.lifecycle.parents import refused_parent
from andon.lifecycle.succession import parents_of_successor, successor_of
from andon.model.errors import AndonError, InvalidTransition, TaskNotFound
from andon.model.task import Task
from andon.model.words import State

log = logging.getLogger("andon.engine")

Create = Callable[[Sequence[Task]], Awaitable[Sequence[Submitted]]]
"""Stores records, each for itself and whatever its queue holds already."""


class _Debt:
    """The debt of one task while it is being paid."""

    def __init__(self, task: Task, births: Sequence[Task]) -> None:
        self.task = task
        self.births = births
        self.left = {birth.id: birth for birth in births}
        self.refused: dict[str, AndonError] = {}
        self.joins = {b.id: join for b in births if (join := join_of(b.definition.headers))}

    @property
    def waits(self) -> bool:
        """Whether it has to be paid later: an edited task is not left without its successor."""
        return bool(self.refused) and self.task.status.owed is not None

    def next(self) -> list[Task]:
        """The births to be stored next, parents before their children; a child of a refused parent
        is refused (docs/rulings.md, R8)."""
        ready: list[Task] = []
        left = self.left.copy()  # what is stored in this round is no parent yet
        for birth in left.values():
            parents = [p for p in birth.definition.dependencies if p != birth.id]
            refused = next((p for p in parents if p in self.refused), None)
            if refused is not None:
                why = refused_parent(birth.id, refused, str(self.refused[refused]))
                self.refused[birth.id] = why
            elif any(parent in left for parent in parents):
                continue
            else:
                ready.append(birth)
            del self.left[birth.id]
        return ready


class Debts:
    """Pays the debts of tasks of one store."""

    def __init__(
        self, store: Store, create: Create, control: Control, dependencies: Dependencies
    ) -> None:
        self._store = store
        self._create = create
        self._control = control
        self._dependencies = dependencies
        self._culprits = Culprits("Storing what is owed by task")
        self._noted: dict[str, Task] = {}
        self._in_hand: frozenset[str] = frozenset()  #: noted earlier, and being paid
        self._paying: asyncio.Task[None] | None = None

    def pay_soon(self, task: Task) -> None:
        """Note a task that owes births; they are stored in the background."""
        self._noted[task.id] = task
        if self._paying is None:
            self._paying = asyncio.ensure_future(self._pay_noted())

    async def drain(self) -> None:
        """Wait until what was noted so far is paid, or left to the timers of its records."""
        while self._paying is not None:
            await asyncio.wait([self._paying])

    async def _pay_noted(self) -> None:
        try:
            while self._noted:
                tasks = [self._noted.pop(i) for i in list(self._noted)[:MAX_BATCH]]
                self._in_hand = frozenset(task.id for task in tasks)
                await self.pay(tasks)
        except (AndonError, OSError):
            self._noted.clear()  # their timers pay
        except Exception:
            self._noted.clear()
            log.exception("What tasks owe could not be stored at once; their timers store it.")
        finally:
            self._in_hand = frozenset()
            self._paying = None

    async def pay_due(self, tasks: Sequence[Task]) -> set[str]:
        """What `pay` does, for tasks whose timers have fired. A debt that is in the line of this
        process already, late because there is much to do, is not paid twice, and counts as still
        owed."""
        later = {task.id for task in tasks if task.id in self._noted or task.id in self._in_hand}
        due = [task for task in tasks if task.id not in later]
        return later | await self.pay(due) if due else later

    async def pay(self, tasks: Sequence[Task]) -> set[str]:
        """Store what these tasks owe. Returns the ids of those that still owe. Raises the errors of
        the store itself."""
        debts: list[_Debt] = []
        unpaid: set[str] = set()
        for task in await self._whole(tasks):
            try:
                debts.append(await self._debt(task))
            except (AndonError, OSError):
                raise
            except Exception as error:  # an error of this task only: the others are paid
                self._culprits.failed(task.id, error)
                unpaid.add(task.id)
        while births := [(debt, birth) for debt in debts for birth in debt.next()]:
            for some in in_batches(births):
                await self._store_births(some)
        await self._join(debts)
        paid = [debt for debt in debts if not debt.waits]
        unpaid.update(debt.task.id for debt in debts if debt.waits)
        for debt in debts:
            self._say_refused(debt)
        acted = await self._control.act_each([(debt.task, _delivers(debt)) for debt in paid])
        for one in acted:
            if one.error is None:
                self._culprits.succeeded(one.id)
            elif not isinstance(one.error, InvalidTransition | TaskNotFound):  # else paid before
                log.warning("That what task %s owed is stored was not noted: %s", one.id, one.error)
                unpaid.add(one.id)
        left_out = {d.joins[birth]: None for d in debts for birth in d.refused if birth in d.joins}
        if left_out:  # they wait for tasks that never come; else their verify timers notice
            await self._dependencies.verify_each(list(left_out))
        return unpaid

    async def _join(self, debts: Sequence[_Debt]) -> None:
        """Link births that were stored to the blocked tasks that are to wait for them."""
        added: dict[str, list[str]] = {}
        for debt in debts:
            for birth, join in debt.joins.items():
                if birth not in debt.refused:
                    added.setdefault(join, []).append(birth)
        if added:
            await self._dependencies.join(added)

    async def _whole(self, tasks: Sequence[Task]) -> list[Task]:
        """The tasks that still owe, with their results where the payment ends the record: the event
        of its end carries the result (docs/rulings.md, R9)."""
        bare = [t.id for t in tasks if t.result is None and kept_for(t, t.status) == 0]
        if not bare:
            return list(tasks)
        read = dict(zip(bare, await self._store.get(bare), strict=True))
        whole = [read.get(task.id, task) for task in tasks]
        return [task for task in whole if task is not None and owes(task.status)]

    async def _debt(self, task: Task) -> _Debt:
        now, write_id = self._store.now(), new_write_id()
        if task.status.owed is None:
            return _Debt(task, [admit(d, now, write_id) for d in task.status.owes])
        parents = await self._existing(parents_of_successor(task))
        return _Debt(task, [successor_of(task, parents, now, write_id)])

    async def _existing(self, parents: tuple[str, ...]) -> tuple[str, ...]:
        """Those that exist; the dependents of the others were notified of their ends."""
        states = await self._store.states(parents) if parents else []
        return tuple(p for p, state in zip(parents, states, strict=True) if state is not None)

    async def _store_births(self, births: Sequence[tuple[_Debt, Task]]) -> None:
        outcomes = await self._create([birth for _, birth in births])
        blocked: list[tuple[str, tuple[str, ...], bool, str]] = []
        for (debt, birth), outcome in zip(births, outcomes, strict=True):
            if outcome.error is not None:
                debt.refused[birth.id] = outcome.error
            elif outcome.state is State.BLOCKED:
                d = birth.definition
                blocked.append((d.id, d.dependencies, d.load_dependencies, d.requires))
        if blocked:
            await self._dependencies.link(blocked)

    def _say_refused(self, debt: _Debt) -> None:
        for birth, error in debt.refused.items():
            if debt.waits:
                log.warning(
                    "Task %s was cancelled by an edit, and its successor %s is not stored yet; it "
                    "is tried again: %s",
                    debt.task.id,
                    birth,
                    error,
                )
            else:
                log.warning("Follow-up %s of task %s was refused: %s", birth, debt.task.id, error)


def _delivers(debt: _Debt) -> Command:
    refused = refusal(list(debt.refused.items()))
    return Deliver(revision=debt.task.status.revision, refused=refused)
