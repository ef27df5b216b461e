"""Submits that find their unique key held and supersede its holder (`lifecycle.holding`).

Every step leaves the key with one task, and can be repeated: a crash in between leaves a holder
that owes its successor, which the next submit for that key stores first, or else the timekeeper.
Submits of one process that want the same key run one after the other, in their order; those of
different processes compete by the revision of the holder, and the losers look again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from andon.contract.isolation import AT_FAULT, why_of
from andon.contract.outcomes import CREATED, Changed, ChangeKind, Created, CreateKind
from andon.contract.requests import Change
from andon.contract.store import Store
from andon.engine.control import Control, change_of
from andon.engine.dependencies import Dependencies
from andon.engine.reading import records
from andon.engine.writes import new_write_id
from andon.lifecycle.admission import admit, is_repeat_of
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Cancel
from andon.lifecycle.delays import Random
from andon.lifecycle.holding import Step, followed, following, step_of, superseding
from andon.model.errors import InvalidTransition
from andon.model.task import Task
from andon.model.words import State

MOST_ROUNDS = 100
"""How often a submit reads the holder of its key again, because other submits change it at the same
time."""

_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.002, 0.25

Create = Callable[[Task], Awaitable[Created]]
Pay = Callable[[Sequence[Task]], Awaitable[set[str]]]


class Holding:
    """Settles submits whose key is held. `create` stores one record, `commit` writes one change,
    `pay` stores what tasks owe."""

    def __init__(
        self,
        store: Store,
        control: Control,
        dependencies: Dependencies,
        random: Random,
        *,
        create: Create,
        commit: Callable[[Change], Awaitable[Changed]],
        ended: Callable[[Task, State | None, Changed], None],
        pay: Pay,
    ) -> None:
        self._store = store
        self._control = control
        self._dependencies = dependencies
        self._random = random
        self._create = create
        self._commit = commit
        self._ended = ended
        self._pay = pay
        self._turns: dict[str, asyncio.Future[None]] = {}  # by key: the end of the last one in line

    async def settle(self, task: Task, held: Created) -> tuple[Task, Created]:
        """Settle a submit whose key is held. Returns the record as it was stored, and the outcome.
        A repeat of a submit is answered as a repeat."""
        if held.kind is CreateKind.EXISTS:  # needs no turn: others need not wait for it
            return await self.settle_at_once(task, held)
        key = task.definition.unique_key or ""
        before, mine = self._turns.get(key), asyncio.get_running_loop().create_future()
        self._turns[key] = mine
        try:
            if before is not None:
                await asyncio.wait([before])
            return await self.settle_at_once(task, held)
        finally:
            mine.set_result(None)
            if self._turns.get(key) is mine:
                del self._turns[key]

    async def settle_at_once(self, task: Task, held: Created) -> tuple[Task, Created]:
        """The same without waiting for others of this process."""
        if held.kind is CreateKind.EXISTS:
            await self._asked_again(task)
            return task, held
        stored: Task | None = None
        for attempt in range(MOST_ROUNDS):
            [holder] = await records(self._store, [held.holder])
            step = step_of(task.definition, holder)
            if step is Step.REFUSE:
                return task, held
            if step is Step.AGAIN or holder is None:
                await self._pause(attempt)
            elif step is Step.PAY:
                await self._pay_or_pause(holder, attempt)
            elif step is Step.FOLLOW:
                record, held = await self._follow(task, holder)
                if held.kind is not CreateKind.KEY_HELD:
                    return record, held
                await self._pause(attempt)
                continue
            else:
                heir, refused = await self._supersede(task, holder)
                if refused is not None:
                    return task, refused
                stored = heir or stored
                if heir is None:
                    await self._pause(attempt)
            held = await self._stored(task)
            if held.kind is not CreateKind.KEY_HELD:
                return self._answer(task, stored, held)
        return task, held

    def _answer(self, task: Task, stored: Task | None, found: Created) -> tuple[Task, Created]:
        """A task that was stored by paying its bearer's debt exists already, and counts as created
        all the same."""
        if stored is None or found.kind is not CreateKind.EXISTS:
            return task, found
        if not is_repeat_of(task.definition.digest, found.digest):
            return task, found
        return stored, CREATED

    async def _follow(self, task: Task, holder: Task) -> tuple[Task, Created]:
        """Store the task to begin at the end of the active holder."""
        record = admit(following(task.definition, holder), self._store.now(), new_write_id())
        created = await self._stored(record)
        if created.kind is CreateKind.CREATED:
            await self._link(record)
            await self._ask_to_cancel(record)
        return record, created

    async def _supersede(self, task: Task, holder: Task) -> tuple[Task | None, Created | None]:
        """Cancel the holder, which thereby bears the task. Returns the record that this stores, or
        None if the holder has moved; and the error if it can never be stored."""
        parents = holder.definition.dependencies if holder.state is State.BLOCKED else ()
        follows = followed(holder, await records(self._store, parents)) if parents else ""
        definition = superseding(task.definition, holder, follows)
        now, write_id = self._store.now(), new_write_id()
        try:
            command = Cancel(births=(definition,))
            moved = apply(holder, command, now=now, random=self._random, write_id=write_id)
        except InvalidTransition:
            return None, None
        changed = await self._commit(change_of(holder, moved))
        if changed.kind is ChangeKind.TOO_LARGE:
            large = Created(CreateKind.TOO_LARGE, size=changed.size, limit=changed.limit)
            return None, large
        if changed.kind is ChangeKind.INVALID:
            return None, Created(CreateKind.INVALID, why=changed.why)
        if changed.kind is not ChangeKind.APPLIED or moved.status is None:
            return None, None
        self._ended(holder, moved.status.state, changed)
        owing = Task(definition=holder.definition, status=moved.status, ref=holder.ref)
        await self._pay([owing])
        heir = admit(definition, now, write_id)
        await self._ask_to_cancel(heir)
        return heir, None

    async def _asked_again(self, task: Task) -> None:
        """A submit was repeated: make sure that it waits for the active holder, and that the holder
        has been asked to cancel."""
        on_held = task.definition.on_held
        if on_held is not None and on_held.active:
            [record] = await records(self._store, [task.id])
            if record is not None and record.state is State.BLOCKED:
                await self._link(record)
                await self._ask_to_cancel(record)

    async def _ask_to_cancel(self, task: Task) -> None:
        """Ask the holder that the task waits for to cancel, if the submit wants that."""
        on_held, holders = task.definition.on_held, task.definition.dependencies
        if on_held is not None and on_held.active and holders:
            await self._control.cancel(holders, force=False)

    async def _link(self, task: Task) -> None:
        d = task.definition
        await self._dependencies.link([(d.id, d.dependencies, d.load_dependencies, d.requires)])

    async def _stored(self, task: Task) -> Created:
        try:
            return await self._create(task)
        except AT_FAULT as error:
            return Created(CreateKind.INVALID, why=why_of(error))

    async def _pay_or_pause(self, holder: Task, attempt: int) -> None:
        if holder.id in await self._pay([holder]):
            await self._pause(attempt)

    async def _pause(self, attempt: int) -> None:
        longest = min(_LEAST_PAUSE_S * 2**attempt, _MOST_PAUSE_S)
        await asyncio.sleep(longest * (0.5 + self._random() / 2))
