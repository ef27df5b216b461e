"""Creates records: idempotent by id, unique by key, bounded by queue."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from andon.contract.outcomes import CREATED, Created, CreateKind
from andon.contract.refusals import create_refused
from andon.lifecycle.batches import NewTasks, alike
from andon.lifecycle.daily import day_of
from andon.lifecycle.effects import Effects
from andon.model.task import Task
from andon.model.words import State
from andon.stores.kit.codec import encode, encode_event, of_one_length
from andon.stores.kit.partitions import rounds_of
from andon.stores.redis import reserving
from andon.stores.redis.beginnings import Beginning, group_of, in_common
from andon.stores.redis.partitions import Partitions, Parts, is_short
from andon.stores.redis.reading import states
from andon.stores.redis.records import body, damage, packed_entry, records_in

if TYPE_CHECKING:
    from types import CoroutineType

    from andon.stores.redis.packed import NewGroup

_HANDED_OFF = b"h"
"""The outcome of a record that was created as the run of a worker."""


def create(at: Partitions, tasks: Sequence[Task]) -> "CoroutineType[Any, Any, list[Created]]":
    """Write new records with their events and index entries; outcomes in order."""
    if len(tasks) != 1:
        return _create(at, tasks, alike(tasks))
    task = tasks[0]
    beginning = at.newest.of(task)
    if beginning is None:
        batches = alike(tasks)
        if not _is_plain(batches[0].effects):
            return _create(at, tasks, batches)
        beginning = at.newest.put(task, batches[0])
    return _create_alone(at, task, beginning)


async def _create(
    at: Partitions, tasks: Sequence[Task], batches: Sequence[NewTasks]
) -> list[Created]:
    ids = [task.definition.id for task in tasks]
    if all(_is_plain(batch.effects) for batch in batches) and is_short(ids):
        numbers = [number for number, batch in enumerate(batches) for _ in batch.tasks]
        one_length = of_one_length(ids)
        replies = await at.spread_parts(
            "create", ids, lambda here: _parts(here, tasks, batches, numbers, one_length=one_length)
        )
        return _outcomes(replies)
    effects = [batch.effects for batch in batches for _ in batch.tasks]
    if at.count > 1 and any(one.takes_key for one in effects):
        outcomes: dict[int, Created] = {}
        for positions in rounds_of(ids):
            found = await _create_apart(
                at, [tasks[i] for i in positions], [effects[i] for i in positions]
            )
            outcomes.update(zip(positions, found, strict=True))
        return [outcomes[position] for position in range(len(tasks))]
    pairs = zip(tasks, effects, strict=True)
    items = [_item(task, one, keeps_key=True) for task, one in pairs]
    return _outcomes(await at.spread("create", items, ids))


def _outcomes(replies: Sequence[Any]) -> list[Created]:
    return [CREATED if reply is None else _outcome(reply) for reply in replies]


async def _create_alone(at: Partitions, task: Task, beginning: Beginning) -> list[Created]:
    """The same for one plain task, as are most tasks that are awaited one after another: the work
    that only batches need costs a tenth of the whole submit."""
    definition = task.definition
    partition = 0 if at.count == 1 else at.of(definition.id)
    group, status, begun = beginning
    parts = (status, begun, definition.id, encode(definition), definition.digest)
    reply = await at.run_packed("create", partition, group, parts, last=at.handed_off, spin=True)
    if len(reply) == 1:
        at.handed_off = False
        return [CREATED]
    at.handed_off = reply[1] == _HANDED_OFF
    return [_outcome(reply[1])]


def _is_plain(effects: Effects) -> bool:
    """Whether a task takes a place only in its lane and in its queue's list."""
    entry = effects.entry
    return (
        entry is not None
        and effects.ready_in is not None
        and entry.timer is None
        and entry.group is None
        and effects.is_separate
    )


def _parts(
    places: Sequence[int],
    tasks: Sequence[Task],
    batches: Sequence[NewTasks],
    numbers: Sequence[int],
    *,
    one_length: bool,
) -> Parts:
    """Tasks as `create_plain.lua` takes them: what all have in common, if anything, then what each
    has alone. `numbers` says of which batch each is; the tasks of a batch are a group. Events have
    a beginning in common only if the ids are of one length, which stands in it."""
    groups: list[NewGroup] = []
    here = dict.fromkeys(numbers[place] for place in places)
    common, first_id = batches[numbers[places[0]]].status, tasks[places[0]].definition.id
    shared = one_length and all(batches[number].status == common for number in here)
    parts: list[bytes | str] = [*in_common(common, first_id)] if shared else [b"", b""]
    last, status_body = -1, b""
    for place in places:
        definition, number = tasks[place].definition, numbers[place]
        if number != last:
            last = number
            groups.append(group_of(batches[number], 0))
            if not shared:
                status_body = encode(batches[number].status)
        groups[-1].size += 1
        parts += (definition.id, encode(definition), definition.digest)
        if not shared:
            event = batches[number].status.events[-1]
            parts += (status_body, encode_event(event, definition.id))
    return groups, parts


async def _create_apart(
    at: Partitions, tasks: Sequence[Task], effects: Sequence[Effects]
) -> list[Created]:
    """The same where unique keys are reserved in partitions of their own; no id comes twice."""
    pairs = zip(tasks, effects, strict=True)
    items = {task.id: _item(task, one, keeps_key=False) for task, one in pairs}
    known = await states(at, [task.id for task in tasks])
    wishes = [
        wish
        for task, one, state in zip(tasks, effects, known, strict=True)
        if state is None  # else the id is taken, which the create reports
        and (wish := reserving.wish_of(one, task.id, at.clock.now())) is not None
    ]
    held = await reserving.reserve(at, wishes)
    written = [task.id for task in tasks if task.id not in held]
    replies = iter(await at.spread("create", [items[name] for name in written], written))
    outcomes = [
        Created(CreateKind.KEY_HELD, holder=held[task.id])
        if task.id in held
        else _outcome(next(replies))
        for task in tasks
    ]
    in_vain = [
        (one.takes_key, task.id)
        for task, one, outcome in zip(tasks, effects, outcomes, strict=True)
        if one.takes_key is not None and outcome.kind in (CreateKind.FULL, CreateKind.EXISTS)
    ]
    await reserving.release(at, in_vain)
    return outcomes


def _item(task: Task, effects: Effects, *, keeps_key: bool) -> tuple[Any, ...]:
    """One record as `create.lua` takes it; `keeps_key` if its unique key is in its partition."""
    definition, status, entry = task.definition, task.status, effects.entry
    assert entry is not None
    return (  # in the order of `CreateItem`
        definition.id,
        body(encode(definition)),
        body(encode(status)),
        packed_entry(entry, task, status),
        body(encode_event(status.events[-1], definition.id)),
        keeps_key,
        f"{status.revision} {status.created_at} ",
        definition.digest,
        str(day_of(status.events[-1].at)),
        effects.tally,
        effects.heir_of,
    )


def _outcome(reply: Any) -> Created:
    if reply in (b"c", _HANDED_OFF):
        return CREATED
    kind = reply[0]
    if kind == b"e":
        return Created(CreateKind.EXISTS, reply[1].decode(), State(reply[2].decode()))
    if kind == b"k":
        return Created(CreateKind.KEY_HELD, holder=reply[1].decode())
    if kind == b"i":
        return create_refused(None, damage(reply[1]))
    return Created(CreateKind.FULL, oldest=tuple(task for _, task in records_in(reply, 1)))
