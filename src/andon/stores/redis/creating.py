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
from andon.stores.redis.partitions import Partitions, Parts, is_short
from andon.stores.redis.reading import states
from andon.stores.redis.records import body, packed_entry, records_in, score_of

_HANDED_OVER = b"h"
"""What is said of a record that was created as the run of a worker."""

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
    ids = [task.definition.id for task in tasks]
    if all(map(_is_plain, entries)) and is_short(ids):
        replies = await at.spread_parts("create", ids, lambda here: _parts(here, tasks, entries))
        at.hands_over_now = replies == [_HANDED_OVER]
    else:
        pairs = zip(tasks, entries, strict=True)
        items = [_item(task, entry, keeps_key=True) for task, entry in pairs]
        replies = await at.spread("create", items, ids)
    return [_CREATED if reply is None else _outcome(reply) for reply in replies]


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


def _parts(places: Sequence[int], tasks: Sequence[Task], entries: Sequence[IndexEntry]) -> Parts:
    """Tasks as `create_plain.lua` takes them; a group shares an entry and a revision."""
    groups: list[list[Any]] = []
    parts: list[bytes | str] = []
    last, last_revision = None, 0
    for place in places:
        task, entry = tasks[place], entries[place]
        definition, status = task.definition, task.status
        packed = packed_entry(entry, task, status)
        if packed is not last or status.revision != last_revision:
            assert entry.ready is not None
            last, last_revision = packed, status.revision
            head, created = f"{status.revision} {status.created_at} ", str(status.created_at)
            score = score_of(entry.ready)
            groups.append([packed, head, entry.queue, entry.name, created, score, 0])
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
    if reply in (b"c", _HANDED_OVER):
        return _CREATED
    kind = reply[0]
    if kind == b"e":
        return Created(CreateKind.EXISTS, reply[1].decode(), State(reply[2].decode()))
    if kind == b"k":
        return Created(CreateKind.KEY_HELD, holder=reply[1].decode())
    return Created(CreateKind.FULL, oldest=tuple(task for _, task in records_in(reply, 1)))
