"""Submitting: definitions checked, records created in batches.

Each submission stands alone, except those of one call that depend on one another (`graph_submits`).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from andon.contract.isolation import AT_FAULT, each_alone, why_of
from andon.contract.limits import MAX_BATCH, in_batches
from andon.contract.optional import TakesMany, TransactionalInsert, offered
from andon.contract.outcomes import CREATED, Created, CreateKind
from andon.contract.refusals import create_refused
from andon.contract.store import Store
from andon.engine.base import Joinable, Submission, Submitted
from andon.engine.batching import Batcher
from andon.engine.control import Control
from andon.engine.definitions import define
from andon.engine.dependencies import Dependencies
from andon.engine.graph import Graph
from andon.engine.graph_submits import GraphSubmits
from andon.engine.groups import Groups, Wish
from andon.engine.holding import Holding
from andon.engine.joining import Join
from andon.engine.members import Members
from andon.engine.policy_resolver import PolicyResolver
from andon.engine.reading import absent
from andon.engine.room import Rooms
from andon.engine.submit_answers import accepted, answer, refused
from andon.engine.writes import LoneWrites, new_write_id
from andon.lifecycle.admission import (
    admit,
    admit_invalid,
    check_own,
    check_times,
)
from andon.lifecycle.named import OPTION
from andon.model.errors import (
    AndonError,
    ConfigurationError,
    InvalidSubmission,
    StoreError,
)
from andon.model.task import Task
from andon.model.words import State

if TYPE_CHECKING:
    from types import CoroutineType

log = logging.getLogger("andon.engine")

_CREATED = CreateKind.CREATED  # 0.1 us less for every task, see `lifecycle.admission`
_FULL = CreateKind.FULL

_HELD_OR_THERE = frozenset((CreateKind.KEY_HELD, CreateKind.EXISTS))
"""Outcomes after which a submit that supersedes has more to do: its key is held, or it is a
repeat, whose first may have been cut short."""

_MOST_IN_FLIGHT = 3
"""Batches of one bulk submit that the store holds at once: one it writes, one it takes next, and
one whose outcomes are on their way back."""


class Submitting:
    """Turns submissions into stored records."""

    def __init__(
        self,
        store: Store,
        resolver: PolicyResolver,
        dependencies: Dependencies,
        control: Control,
        *,
        groups: Groups,
        max_payload: int,
    ) -> None:
        self._groups = groups
        self._members = Members(store, groups)
        self._store = store
        self._resolver = resolver
        self._rooms = Rooms(store, resolver, control)
        self._max_payload = max_payload
        self._lone_write = LoneWrites()
        self._graphs = GraphSubmits(store, resolver, dependencies, self)
        self._holding: Holding | None = None
        many = offered(store, TakesMany)
        self.bulk_size = MAX_BATCH if many is None else many.most_created
        self.batcher: Batcher[Task, Created] = Batcher(
            store.create, size=MAX_BATCH, in_flight=store.creates_in_flight, finishes=True
        )

    def superseding_through(self, holding: Holding) -> None:
        """The part that settles submits whose key is held."""
        self._holding = holding

    def submit(
        self, submissions: Sequence[Submission]
    ) -> "CoroutineType[Any, Any, list[Submitted]]":
        """Submit all; outcomes in the order given."""
        if len(submissions) == 1 and not submissions[0].dependencies:
            return self.submit_alone(submissions[0])
        for submission in submissions:
            if submission.dependencies:
                return self._graphs.submit(submissions)
        return self.submit_flat(submissions)

    def submit_flat(
        self, submissions: Sequence[Submission]
    ) -> "CoroutineType[Any, Any, list[Submitted]]":
        """Submit some that do not depend on one another; outcomes in the order given."""
        if len(submissions) == 1:
            return self.submit_alone(submissions[0])
        return self._submit_bulk(submissions)

    async def submit_alone(
        self, submission: Submission, made: Callable[[Task], None] | None = None
    ) -> list[Submitted]:
        """Submit one that depends on none. `made` is called with its record, if that was created
        just now."""
        try:
            now = self._store.now()
            task = self._record(submission, now, self._lone_write(submission.id, now))
        except Exception as error:
            if _may_be_known(error):
                return await self._submit_bulk([submission])  # it decides by what the store has now
            return [refused(submission, error)]
        created: Created | None
        try:
            if submission.group_owner is None:
                created = await self.batcher.put(task)
            else:
                created = await self._members.create(task, submission)
        except AT_FAULT as error:
            created = create_refused(task, why_of(error))
        if created is None:
            return await self._submit_bulk([submission])
        if created.kind is _CREATED:
            if made is not None:
                made(task)
            return [accepted(task)]
        return [await self._settled(task, created)]

    async def drain(self) -> None:
        """Wait until everything handed over so far is written."""
        await self.batcher.drain()
        await self._members.drain()

    async def _submit_bulk(self, submissions: Sequence[Submission]) -> list[Submitted]:
        """Submit in batches. The next is made while the store writes those before it, which is
        about as much work, and other coroutines get their turn in between."""
        outcomes: list[Submitted] = []
        writing: deque[asyncio.Task[list[Submitted]]] = deque()
        try:
            for batch in in_batches(submissions, self.bulk_size):
                prepared = await self.records(batch)
                writing.append(asyncio.ensure_future(self._create(*prepared)))
                await asyncio.sleep(0)  # it is on its way to the store now
                if len(writing) == _MOST_IN_FLIGHT:
                    outcomes.extend(await writing.popleft())
            while writing:
                outcomes.extend(await writing.popleft())
        finally:
            # One failed, or the caller was cancelled: what was handed over is written all the same.
            await asyncio.gather(*writing, return_exceptions=True)
        return outcomes

    async def records(
        self, submissions: Sequence[Submission]
    ) -> tuple[list[Submitted | None], list[Task]]:
        """The outcomes of those of a batch that are refused, None for the others, and the records
        of these, let in by their groups. Other coroutines get their turn in between."""
        now, write_id = self._store.now(), new_write_id()
        outcomes, tasks = self._records(submissions[:MAX_BATCH], now, write_id)
        if len(tasks) < len(outcomes) and _may_be_new(outcomes):
            await self._resolver.refresh()
            outcomes, tasks = self._records(submissions[:MAX_BATCH], now, write_id)
        for some in in_batches(submissions[MAX_BATCH:]):
            await asyncio.sleep(0)
            more_outcomes, more_tasks = self._records(some, now, write_id)
            outcomes += more_outcomes
            tasks += more_tasks
        if len(tasks) < len(outcomes):
            outcomes = await self._unless_stored(submissions, outcomes)
        if any(s.group_owner is not None for s in submissions):
            return await self._let_in(submissions, outcomes, tasks)
        return outcomes, tasks

    async def _let_in(
        self,
        submissions: Sequence[Submission],
        outcomes: list[Submitted | None],
        tasks: Sequence[Task],
    ) -> tuple[list[Submitted | None], list[Task]]:
        """Those that are let in by a group with a record, and those without such a group. A repeat
        of what is stored is a repeat, whatever became of its group (docs/rulings.md, R31)."""
        records = iter(tasks)
        made = [next(records) if outcome is None else None for outcome in outcomes]
        wished: list[tuple[int, Wish]] = []
        for place, (s, task) in enumerate(zip(submissions, made, strict=True)):
            if task is None or s.group_owner is None:
                continue
            if s.group is None:
                why = InvalidSubmission("group_owner goes with a group.", field="group_owner")
                outcomes[place] = refused(s, why)
            else:
                wished.append((place, Wish(s.group, s.group_owner, task.status.expires_at)))
        answers = await self._groups.let_in([wish for _, wish in wished])
        kept_out = {
            place: error
            for (place, _), error in zip(wished, answers, strict=True)
            if error is not None
        }
        if kept_out:
            new = await absent(self._store, [submissions[place].id for place in kept_out])
            for place, error in kept_out.items():
                if submissions[place].id in new:
                    outcomes[place] = refused(submissions[place], error)
        kept = zip(made, outcomes, strict=True)
        return outcomes, [task for task, no in kept if task is not None and no is None]

    async def _unless_stored(
        self, submissions: Sequence[Submission], outcomes: list[Submitted | None]
    ) -> list[Submitted | None]:
        """The outcomes, with those refused only for their times answered as repeats where the task
        is stored: its deadline was ahead when it came first (docs/rulings.md, R31)."""
        late: dict[int, Task] = {}
        for place, outcome in enumerate(outcomes):
            if outcome is not None and _is_of_times(outcome.error):
                with suppress(InvalidSubmission):
                    late[place] = self._record(
                        submissions[place], self._store.now(), new_write_id(), is_stored=True
                    )
        if late:
            new = await absent(self._store, [task.id for task in late.values()])
            stored = {place: task for place, task in late.items() if task.id not in new}
            answers = await asyncio.gather(*map(self.store_record, stored.values()))
            for place, answer in zip(stored, answers, strict=True):
                outcomes[place] = answer
        return outcomes

    def _records(
        self, submissions: Sequence[Submission], now: int, write_id: str
    ) -> tuple[list[Submitted | None], list[Task]]:
        """The records to be stored, and the outcomes of those refused, None for the others. A
        write id is for what is written together; a submit is known by its task."""
        outcomes: list[Submitted | None] = []
        tasks: list[Task] = []
        for submission in submissions:
            try:
                tasks.append(self._record(submission, now, write_id))
                outcomes.append(None)
            except Exception as error:  # an error of this one only: the others go on
                outcomes.append(refused(submission, error))
        return outcomes, tasks

    def joinable_store(self) -> TransactionalInsert:
        """The store, if users' transactions can hold its tasks; else `ConfigurationError`."""
        store = offered(self._store, TransactionalInsert)
        if store is not None:
            return store
        raise ConfigurationError(
            "connection= needs a store in the database that the connection leads to, which is a "
            "postgresql:// store; this one cannot be part of a transaction."
        )

    async def join(self, submissions: Sequence[Submission]) -> Joinable:
        """Records made, and what stores them on a connection of the user's."""
        store = self.joinable_store()
        if any(s.on_held != "refuse" for s in submissions):
            raise InvalidSubmission(
                "on_held does not go with connection=: the holder of the key would be superseded "
                "whether or not that transaction commits.",
                field="on_held",
            )
        if any(s.group_owner is not None for s in submissions):
            raise InvalidSubmission(
                "group_owner does not go with connection=: a group could not tell for how long to "
                "wait for that transaction.",
                field="group_owner",
            )
        outcomes, tasks = self._records(submissions, self._store.now(), new_write_id())
        outcomes = await self._unless_stored(submissions, outcomes)
        joined = await store.join(tasks) if tasks else None
        graph = None
        if any(s.dependencies for s in submissions):
            graph = await Graph.of(submissions)
        return Join(outcomes, tasks, joined, self._answer, graph)

    async def _create(
        self, outcomes: Sequence[Submitted | None], tasks: Sequence[Task]
    ) -> list[Submitted]:
        created = await each_alone(self._store.create, tasks, create_refused) if tasks else []
        if created.count(CREATED) == len(outcomes):
            return [accepted(task) for task in tasks]
        pairs = list(zip(tasks, created, strict=True))
        unsettled = [pair for pair in pairs if _is_unsettled(*pair)]
        settled = iter(await asyncio.gather(*(self._settled(*pair) for pair in unsettled)))
        answers = (next(settled) if _is_unsettled(*pair) else self._answer(*pair) for pair in pairs)
        return [outcome or next(answers) for outcome in outcomes]

    def _record(
        self, submission: Submission, now: int, write_id: str, *, is_stored: bool = False
    ) -> Task:
        """The record of a submission. The times of one that is stored already are not compared with
        now."""
        definition = define(submission, self._resolver, now, self._max_payload)
        check_own(definition)
        try:
            if submission.invalid:
                raise InvalidSubmission(submission.invalid, field="args")
            if not is_stored:
                check_times(definition, now)
        except InvalidSubmission as error:
            if definition.policy.on_invalid == "record":
                return admit_invalid(definition, now, write_id, str(error))
            raise
        return admit(definition, now, write_id)

    async def store_births(self, tasks: Sequence[Task]) -> list[Submitted]:
        """Store records that moves bore. A full queue does not refuse them: a record for such a
        queue begins scheduled, due at once (docs/rulings.md, R38)."""
        tasks = [self._past_limits(task) for task in tasks]
        created = await each_alone(self._store.create, tasks, create_refused)
        full = {place: tasks[place] for place, one in enumerate(created) if one.kind is _FULL}
        if full:
            now = self._store.now()
            waiting = [_due_at_once(task, now) for task in full.values()]
            again = await each_alone(self._store.create, waiting, create_refused)
            for place, one in zip(full, again, strict=True):
                created[place] = one
        answers: list[Submitted] = []
        for task, one in zip(tasks, created, strict=True):
            if task.definition.on_held and self._holding and one.kind in _HELD_OR_THERE:
                settled = self._holding.settle_at_once(task, one)
                answers.append(self._answer(*await _alone(task, settled)))
            else:
                answers.append(self._answer(task, one))
        return answers

    def _past_limits(self, task: Task) -> Task:
        """The record of a birth. One that takes over a key in a queue with a limit begins scheduled
        at once: if it were refused first, another could take the key meanwhile."""
        d = task.definition
        if not d.predecessor or task.state is not State.PENDING:
            return task
        limit = self._resolver.queue(d.queue).max_size
        return task if limit is None else _due_at_once(task, self._store.now())

    async def store_record(self, task: Task) -> Submitted:
        """Store one record that is ready."""
        try:
            created = await self.batcher.put(task)
        except AT_FAULT as error:
            created = create_refused(task, why_of(error))
        return await self._settled(task, created)

    async def _settled(self, task: Task, created: Created) -> Submitted:
        """The answer to one creation, after superseding the holder of its key, or making room,
        where that is asked for."""
        if task.definition.on_held is not None and self._holding is not None:
            task, created = await self._superseded(self._holding, task, created)
        if created.kind is _FULL:
            created = await self._rooms.create(task, created)
        return self._answer(task, created)

    async def _superseded(
        self, holding: Holding, task: Task, created: Created
    ) -> tuple[Task, Created]:
        """The same, once the holder of its key was superseded, or the submit found to be a
        repeat."""
        if created.kind in _HELD_OR_THERE:
            return await _alone(task, holding.settle(task, created))
        return task, created

    def _answer(self, task: Task, created: Created) -> Submitted:
        return answer(task, created, self._resolver.queue(task.definition.queue).max_size)


def _may_be_new(outcomes: Sequence[Submitted | None]) -> bool:
    """Whether one was refused for a retry policy whose name is not known here (yet)."""
    return any(_is_of_policy(one.error) for one in outcomes if one is not None)


def _may_be_known(error: Exception) -> bool:
    """Whether the store may know better than to refuse for this."""
    return _is_of_policy(error) or _is_of_times(error)


def _is_of_policy(error: Exception | None) -> bool:
    return isinstance(error, InvalidSubmission) and error.field == OPTION


def _is_of_times(error: Exception | None) -> bool:
    return isinstance(error, InvalidSubmission) and error.field in ("deadline", "run_at")


async def _alone(task: Task, settled: Awaitable[tuple[Task, Created]]) -> tuple[Task, Created]:
    """The outcome of a task whose key is held. An error is that of this task alone
    (docs/rulings.md, R36), unless it is one of the store itself."""
    try:
        return await settled
    except (StoreError, OSError):
        raise
    except AndonError as error:
        return task, create_refused(task, str(error).rstrip("."))
    except Exception as error:
        log.error("A submission could not be taken; it alone was refused.", exc_info=error)
        return task, create_refused(task, why_of(error))


def _is_unsettled(task: Task, created: Created) -> bool:
    """Whether more is to be done about a creation than to answer it."""
    if created.kind is _CREATED:
        return False
    return created.kind is _FULL or task.definition.on_held is not None


def _due_at_once(task: Task, now: int) -> Task:
    """The record, with a wait of a moment before it enters its queue."""
    return admit(replace(task.definition, run_at=now + 1), now, new_write_id())
