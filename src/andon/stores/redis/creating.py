"""Creating records: idempotent by id, unique by key, bounded by queue."""

import asyncio
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
from andon.stores.redis.records import body, packed_entry, records_in, score_of

_CREATED = Created(CreateKind.CREATED)

MOST_PLAIN = 500
"""Most tasks that `create_plain.lua` takes at once: it hands two words of each to one command."""


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
    if len(tasks) <= MOST_PLAIN and all(map(_is_plain, entries)):
        return await _create_plain(at, tasks, entries)
    items = [_item(task, entry, keeps_key=True) for task, entry in zip(tasks, entries, strict=True)]
    replies = await at.spread("create", items, [task.definition.id for task in tasks])
    return [_outcome(reply) for reply in replies]


async def _create_plain(
    at: Partitions, tasks: Sequence[Task], entries: Sequence[IndexEntry]
) -> list[Created]:
    """The same for tasks that `create_plain.lua` may write, each in the partition of its id."""
    ids = [task.definition.id for task in tasks]
    outcomes = [_CREATED] * len(tasks)

    async def one(partition: int, places: Sequence[int]) -> None:
        groups, parts = _groups([tasks[i] for i in places], [entries[i] for i in places])
        reply = await at.run_packed("create", partition, encode(groups), parts)
        for place, outcome in zip(places, reply[1:], strict=False):  # none if all were created
            outcomes[place] = _outcome(outcome)

    if len(set(ids)) < len(ids):
        items = [_item(t, e, keeps_key=True) for t, e in zip(tasks, entries, strict=True)]
        return [_outcome(reply) for reply in await at.spread("create", items, ids)]
    if at.count == 1:
        await one(0, range(len(tasks)))
    else:
        await asyncio.gather(*(one(p, places) for p, places in at.places(ids).items()))
    return outcomes


def _is_plain(entry: IndexEntry) -> bool:
    """Whether a task takes a place in its lane and in its queue's list, and none anywhere else."""
    return (
        entry.state is State.PENDING
        and entry.key is None
        and entry.group is None
        and entry.timer is None
        and entry.unique_key is None
        and not entry.dead_letter
    )


def _groups(
    tasks: Sequence[Task], entries: Sequence[IndexEntry]
) -> tuple[list[list[Any]], list[bytes | str]]:
    """The groups of tasks that share an entry and the head of their version, and the parts of each
    task, as `create_plain.lua` takes them."""
    groups: list[list[Any]] = []
    parts: list[bytes | str] = []
    last: tuple[Any, int] = None, 0
    for task, entry in zip(tasks, entries, strict=True):
        definition, status = task.definition, task.status
        packed = packed_entry(entry, task, status)
        shared = packed, status.revision
        if shared[0] is not last[0] or shared[1] != last[1]:
            last = shared
            created = status.created_at
            head = f"{status.revision} {created} "
            assert entry.ready is not None
            score = score_of(entry.ready)
            groups.append([packed, head, entry.queue, entry.name, str(created), score, 0])
        groups[-1][-1] += 1
        parts += (
            definition.id,
            encode(definition),
            encode(status),
            encode_event(status.events[-1], definition.id),
            definition.digest,
        )
    return groups, parts


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
