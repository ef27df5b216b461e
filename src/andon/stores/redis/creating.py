"""Creating records: idempotent by id, unique by key, bounded by queue."""

from collections.abc import Sequence
from typing import Any

from andon.lifecycle.indexes import IndexEntry, entry_of
from andon.model.task import Task
from andon.model.words import State
from andon.stores.base import Created, CreateKind
from andon.stores.codec import encode, encode_event
from andon.stores.partitions import rounds_of
from andon.stores.redis import reserving
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.reading import states
from andon.stores.redis.records import body, packed_entry, records_in

_CREATED = Created(CreateKind.CREATED)


async def create(at: Partitions, tasks: Sequence[Task]) -> list[Created]:
    """Write new records with their events and index entries; outcomes in order."""
    entries = [entry_of(task) for task in tasks]
    if at.count > 1 and any(entry.unique_key for entry in entries):
        outcomes: dict[int, Created] = {}
        for positions in rounds_of([task.id for task in tasks]):
            found = await _create_apart(
                at, [tasks[i] for i in positions], [entries[i] for i in positions]
            )
            outcomes.update(zip(positions, found, strict=True))
        return [outcomes[position] for position in range(len(tasks))]
    items = [_item(task, entry, keeps_key=True) for task, entry in zip(tasks, entries, strict=True)]
    replies = await at.spread("create", items, [task.definition.id for task in tasks])
    return [_outcome(reply) for reply in replies]


async def _create_apart(
    at: Partitions, tasks: Sequence[Task], entries: Sequence[IndexEntry]
) -> list[Created]:
    """The same where unique keys are reserved in partitions of their own; no id comes twice."""
    known = await states(at, [task.id for task in tasks])
    wishes = [
        wish
        for task, entry, state in zip(tasks, entries, known, strict=True)
        if state is None  # else the id is taken, which create will say
        and (wish := reserving.wish_of(entry, task.id, at.clock.now())) is not None
    ]
    refused = await reserving.reserve(at, wishes)
    items = [
        _item(task, entry, keeps_key=False)
        for task, entry in zip(tasks, entries, strict=True)
        if task.id not in refused
    ]
    written = [task.id for task in tasks if task.id not in refused]
    replies = iter(await at.spread("create", items, written))
    outcomes = [
        Created(CreateKind.KEY_HELD, holder=refused[task.id])
        if task.id in refused
        else _outcome(next(replies))
        for task in tasks
    ]
    in_vain = [
        (entry.unique_key, task.id)
        for task, entry, outcome in zip(tasks, entries, outcomes, strict=True)
        if entry.unique_key is not None and outcome.kind in (CreateKind.FULL, CreateKind.EXISTS)
    ]
    await reserving.let_go(at, in_vain)
    return outcomes


def _item(task: Task, entry: IndexEntry, *, keeps_key: bool) -> tuple[Any, ...]:
    """One record as `create.lua` takes it; `keeps_key` if its unique key is in its partition."""
    definition, status = task.definition, task.status
    return (
        definition.id,
        body(encode(definition)),
        body(encode(status)),
        packed_entry(entry, task, status),
        body(encode_event(status.events[-1], definition.id)),
        keeps_key,
        f"{status.revision} {status.created_at} ",
        definition.digest,
    )


def _outcome(reply: Any) -> Created:
    if reply == b"c":
        return _CREATED
    kind = reply[0]
    if kind == b"e":
        return Created(CreateKind.EXISTS, reply[1].decode(), State(reply[2].decode()))
    if kind == b"k":
        return Created(CreateKind.KEY_HELD, holder=reply[1].decode())
    return Created(CreateKind.FULL, oldest=tuple(task for _, task in records_in(reply, 1)))
