"""Creates tasks: the timer first, then the record, guarded by "nothing is there yet".

A task that may be claimed at once is one write: its record is its ready entry.
"""

from collections.abc import Sequence

from andon.contract.isolation import Unwritable, each_alone_blocking
from andon.contract.outcomes import CREATED, Created, CreateKind
from andon.contract.topics import CONFIG_TOPIC, task_topic
from andon.lifecycle.batches import alike
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.lifecycle.effects import Effects
from andon.model.fleet import QueueConfig
from andon.model.task import Definition, Task
from andon.model.words import State
from andon.stores.kit.codec import encode
from andon.stores.kit.partitions import rounds_of
from andon.stores.kit.topics import topics_of
from andon.stores.nats.context import StoreContext
from andon.stores.nats.dead_letter_index import dead_letter_mark
from andon.stores.nats.index import Index
from andon.stores.nats.jetstream import CONFLICT, GUARD, REFUSED, UNSURE, Write
from andon.stores.nats.limiter_lock import LimiterLock, LimiterLocks
from andon.stores.nats.record_cache import subqueue_of
from andon.stores.nats.record_codec import StoredRecord
from andon.stores.nats.subjects import SubqueueName, hashed, is_token
from andon.stores.nats.timers import Wanted, schedules

_REFUSED = "the server refuses the message"

_SMALL = 65_536
_FEW = 100
"""Arguments of fewer bytes, with fewer names beside them, fit without a check."""


class _New:
    """A record to be stored, with its effects and its write; the guard of the write may change."""

    __slots__ = ("effects", "partition", "subqueue", "task", "write")

    def __init__(
        self, context: StoreContext, task: Task, effects: Effects, subqueue: SubqueueName
    ) -> None:
        """Builds the write. Raises one of `AT_FAULT` if the record cannot be written."""
        if not is_token(task.id):
            raise Unwritable(f"no subject can hold the id {task.id!r}")
        self.task = task
        self.effects = effects
        self.subqueue = subqueue
        self.partition = context.partition(task.id)
        if effects.takes_key is not None:
            hashed(effects.takes_key)
        records = context.records[self.partition]
        if effects.ready_in is not None:
            subject = records.subjects.pending(task.id, subqueue)
        else:
            subject = records.subjects.rest(task.id)
        self.write = records.write(records.body(task, None), subject, guard=0)

    @property
    def timer(self) -> Wanted | None:
        """The timer to set, if it has one."""
        at = self.effects.timer
        return None if at is None else (self.task.id, self.task.status.revision, at)

    def guarded(self, guard: int) -> Write:
        """The write, over a message at this sequence."""
        subject, data, headers = self.write
        return subject, data, {**(headers or {}), GUARD: str(guard)}


def _prepare(context: StoreContext, tasks: Sequence[Task]) -> list[_New | Created]:
    """The write of each record, or why it is refused. Raises one of `AT_FAULT` if one of them
    cannot be written."""
    prepared: list[_New | Created] = []
    for batch in alike(tasks):
        subqueue = subqueue_of(batch.tasks[0])
        prepared += [
            _refused_as_large(context, task.definition)
            or _New(context, task, batch.effects, subqueue)
            for task in batch.tasks
        ]
    return prepared


async def create(context: StoreContext, index: Index, tasks: Sequence[Task]) -> list[Created]:
    """Store new records; outcomes in order. All writes are built before the first is sent, so that
    a record that cannot be written is refused by itself."""
    prepared = each_alone_blocking(lambda some: _prepare(context, some), tasks, _invalid)
    outcomes = [one if isinstance(one, Created) else None for one in prepared]
    new = {i: one for i, one in enumerate(prepared) if isinstance(one, _New)}
    new_queue = await context.fleet.use(dict.fromkeys(one.subqueue for one in new.values()))
    configs = await context.fleet.configs()
    order = [*new]
    for of_order in rounds_of([tasks[position].id for position in order]):
        plain: list[int] = []
        limited: dict[str, list[int]] = {}
        for position in (order[place] for place in of_order):
            effects = new[position].effects
            config = configs.get(effects.queue)
            if config is not None and config.max_size is not None and effects.ready_in is not None:
                limited.setdefault(config.name, []).append(position)
            else:
                plain.append(position)
        await _create(context, new, plain, outcomes)
        for queue, of_queue in limited.items():
            await _create_limited(
                context,
                index,
                config=configs[queue],
                new=new,
                positions=of_queue,
                outcomes=outcomes,
            )
    _hint(context, new, outcomes, new_queue=new_queue)
    return [outcome for outcome in outcomes if outcome is not None]


def _invalid(_task: Task, why: str) -> Created:
    return Created(CreateKind.INVALID, why=why)


def _refused_as_large(context: StoreContext, definition: Definition) -> Created | None:
    """Refuses at once a task whose result or moves would find no room later."""
    small = (
        len(definition.args) < _SMALL
        and not definition.headers
        and len(definition.dependencies) + len(definition.tags) + len(definition.scopes) < _FEW
    )
    limit = context.js.most_bytes // 2
    if small and limit > 2 * _SMALL:
        return None
    size = len(encode(definition))
    return Created(CreateKind.TOO_LARGE, size=size, limit=limit) if size > limit else None


async def _create(
    context: StoreContext,
    new: dict[int, _New],
    positions: Sequence[int],
    outcomes: list[Created | None],
) -> None:
    """Creates the tasks of queues without `max_size`."""
    by_partition: dict[int, list[int]] = {}
    for position in positions:
        one = new[position]
        if one.effects.takes_key is not None:  # few do: the others need no coroutine
            refused = await _reserve(context, one)
            if refused is not None:
                outcomes[position] = refused
                continue
        by_partition.setdefault(one.partition, []).append(position)
    for partition, positions_here in by_partition.items():
        mine = positions_here
        records = context.records[partition]
        timers = [timer for position in mine if (timer := new[position].timer) is not None]
        first = schedules(records.subjects, timers, context.clock.now()) if timers else []
        first += [
            dead_letter_mark(records.subjects, one.task.id, one.task.status.revision)
            for one in (new[position] for position in mine)
            if one.effects.dead_letter_in
        ]
        if first:
            await records.js.write(records.subjects.stream, first)
        writes = {position: new[position].write for position in mine}
        while mine:
            seqs = await records.js.write(
                records.subjects.stream, [writes[position] for position in mine], each=True
            )
            again: dict[int, bool] = {}
            for position, seq in zip(mine, seqs, strict=True):
                if seq == REFUSED:
                    outcomes[position] = Created(CreateKind.INVALID, why=_REFUSED)
                elif seq <= CONFLICT:
                    again[position] = seq == UNSURE
                else:
                    outcomes[position] = CREATED
                    task = new[position].task
                    records.notes.note_moves(seq, task.definition.queue, task.status.events[-1:])
            mine = list[int]()
            there = await records.read(new[position].task.id for position in again) if again else {}
            for position, unsure in again.items():
                one = new[position]
                stored, now = there.get(one.task.id), context.clock.now()
                found = taken(stored, one.task, now, unsure=unsure)
                if found is None:
                    writes[position] = one.guarded(0 if stored is None else stored.guard)
                    mine.append(position)
                else:
                    outcomes[position] = found


def taken(
    stored: StoredRecord | None, task: Task, now: int, *, unsure: bool = False
) -> Created | None:
    """The outcome if a record of this id exists; `unsure` if it may be this very write."""
    if stored is None:
        return None
    if stored.body.deleted:
        if stored.body.deleted <= now - SUBMIT_WINDOW_MS:
            return None
        return Created(CreateKind.EXISTS, stored.body.digest, State(stored.body.state))
    there = stored.task
    assert there is not None
    write_id = task.status.events[-1].write_id if task.status.events else ""
    wrote = {event.write_id for event in there.status.events}
    same = stored.body.digest == task.definition.digest  # one write may hold an id twice
    if unsure and write_id and write_id in wrote and same:
        return CREATED
    return Created(CreateKind.EXISTS, stored.body.digest, there.state)


async def _reserve(context: StoreContext, one: _New) -> Created | None:
    """Reserve the unique key that the record is to hold, if any. Returns an outcome if the key or
    the id is taken."""
    task, effects = one.task, one.effects
    if effects.takes_key is None:
        return None
    now = context.clock.now()
    there = (await context.records[one.partition].read([task.id])).get(task.id)
    found = taken(there, task, now)
    if found is not None:
        return found
    holder = await context.reserve_for(effects, task.id, task.status.revision, now)
    return Created(CreateKind.KEY_HELD, holder=holder) if holder else None


async def _create_limited(
    context: StoreContext,
    index: Index,
    *,
    config: QueueConfig,
    new: dict[int, _New],
    positions: Sequence[int],
    outcomes: list[Created | None],
) -> None:
    """Creates the tasks of a queue with `max_size`: counted and written under the queue's limiter
    lock."""
    named = 0
    locks = LimiterLocks(context, index)
    waiting = list(positions)
    for attempt in range(200):
        if not waiting:
            return
        lock = await locks.read(config.name)
        assert config.max_size is not None
        count = index.tables.lists.count(config.name, State.PENDING) + len(lock.creates)
        there = await index.read(new[position].task.id for position in waiting)
        rest: list[int] = []
        now = context.clock.now()
        for position in waiting:
            found = taken(
                there.get(new[position].task.id), new[position].task, now, unsure=attempt > 0
            )
            if found is not None:
                outcomes[position] = found
            else:
                rest.append(position)
        room = max(config.max_size - count, 0)
        chosen, refused = rest[:room], rest[room:]
        if chosen and not await _write_limited(
            context,
            locks,
            lock=lock,
            new=new,
            chosen=chosen,
            outcomes=outcomes,
            there=there,
        ):
            waiting = rest
            continue
        for position in refused:
            surplus = count + len(chosen) + 1 - config.max_size
            if config.on_full != "discard-old":
                outcomes[position] = Created(CreateKind.FULL)
                continue
            start = named
            named = named + 1 if named else min(max(surplus, 1), 200)
            ids = index.oldest_pending(config.name, start, named)
            found_records = await index.read(ids)
            oldest = tuple(
                stored.task
                for i in ids
                if (stored := found_records.get(i)) is not None and stored.task
            )
            outcomes[position] = Created(CreateKind.FULL, oldest=oldest)
        return


async def _write_limited(
    context: StoreContext,
    locks: LimiterLocks,
    *,
    lock: LimiterLock,
    new: dict[int, _New],
    chosen: Sequence[int],
    outcomes: list[Created | None],
    there: dict[str, StoredRecord],
) -> bool:
    """Write the chosen under the lock; False: count again."""
    ready: list[int] = []
    for position in chosen:
        refused = await _reserve(context, new[position])
        if refused is not None:
            outcomes[position] = refused
        else:
            ready.append(position)
    writes: dict[int, list[Write]] = {}
    timers: dict[int, list[Wanted]] = {}
    for position in ready:
        one = new[position]
        stored, timer = there.get(one.task.id), one.timer
        if timer is not None:
            timers.setdefault(one.partition, []).append(timer)
        write = one.guarded(0 if stored is None else stored.guard)
        writes.setdefault(one.partition, []).append(write)
    for partition, of_partition in timers.items():
        await context.timers[partition].set(of_partition, context.clock.now())
    if not ready:
        return True
    created = [new[position].task for position in ready]
    if not await locks.write(lock, lock.bucket, writes, created, creates=True):
        return False
    for position in ready:
        outcomes[position] = CREATED
    return True


def _hint(
    context: StoreContext,
    new: dict[int, _New],
    outcomes: Sequence[Created | None],
    *,
    new_queue: bool,
) -> None:
    topics: list[str] = [CONFIG_TOPIC] if new_queue else []
    now = context.clock.now()
    for position, one in new.items():
        outcome = outcomes[position]
        if outcome is not None and outcome.kind is CreateKind.CREATED:
            topics.append(task_topic(one.task.id))
            topics += topics_of(one.effects, now)
    if topics:
        context.hint(topics)
