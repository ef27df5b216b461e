"""Creating records: idempotent by id, unique by key, bounded by queue."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from andon.contract.outcomes import Created, CreateKind
from andon.lifecycle.daily import day_of, tally_of
from andon.lifecycle.indexes import IndexEntry, entry_of
from andon.model.task import Status, Task
from andon.model.words import State
from andon.stores.codec import encode, encode_event
from andon.stores.kit.partitions import rounds_of
from andon.stores.redis import reserving
from andon.stores.redis.partitions import Partitions, Parts, is_short
from andon.stores.redis.reading import states
from andon.stores.redis.records import body, damage, packed_entry, records_in, score_of

if TYPE_CHECKING:
    from types import CoroutineType

_HANDED_OVER = b"h"
"""What is said of a record that was created as the run of a worker."""

_CREATED = Created(CreateKind.CREATED)


def create(at: Partitions, tasks: Sequence[Task]) -> "CoroutineType[Any, Any, list[Created]]":
    """Write new records with their events and index entries; outcomes in order."""
    if len(tasks) == 1:
        beginning = _beginning_of(tasks[0])
        if beginning is not None:
            return _create_alone(at, tasks[0], beginning)
    return _create(at, tasks, [entry_of(task) for task in tasks])


async def _create(
    at: Partitions, tasks: Sequence[Task], entries: Sequence[IndexEntry]
) -> list[Created]:
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
    else:
        pairs = zip(tasks, entries, strict=True)
        items = [_item(task, entry, keeps_key=True) for task, entry in pairs]
        replies = await at.spread("create", items, ids)
    return [_CREATED if reply is None else _outcome(reply) for reply in replies]


async def _create_alone(
    at: Partitions, task: Task, beginning: tuple[bytes, bytes, bytes]
) -> list[Created]:
    """The same for one plain task, as most that are awaited one after another: what batches need
    and it does not costs a tenth of the whole submit."""
    definition = task.definition
    partition = 0 if at.count == 1 else at.of(definition.id)
    packed, status_body, begun = beginning
    parts = (status_body, begun, definition.id, encode(definition), definition.digest)
    reply = await at.run_packed(
        "create", partition, packed, parts, last=at.hands_over_now, awake=True
    )
    at.hands_over_now = reply[1:] == [_HANDED_OVER]
    return [_CREATED if len(reply) == 1 else _outcome(reply[1])]


class _Beginnings:
    """What a lone task begins with, packed, if it is plain: its group, its status, and its event as
    far as the id. Tasks submitted within a millisecond mostly have the same, made only once."""

    def __init__(self) -> None:
        self._last: tuple[Status | None, IndexEntry | None, int, tuple[bytes, bytes, bytes] | None]
        self._last = (None, None, 0, None)  # one, for threads

    def __call__(self, task: Task) -> tuple[bytes, bytes, bytes] | None:
        entry, status, task_id = entry_of(task), task.status, task.definition.id
        last_status, last_entry, length, packed = self._last
        if status is not last_status or entry is not last_entry or len(task_id) != length:
            packed = None
            if _is_plain(entry):
                group = _group(packed_entry(entry, task, status), entry, status, 1)
                packed = (encode((group,)), *_in_common(status, task_id))
            self._last = (status, entry, len(task_id), packed)
        return packed


_beginning_of = _Beginnings()


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
    """Tasks as `create_plain.lua` takes them: what all have in common, if they do, then what each
    has alone. A group shares an entry and a revision."""
    groups: list[list[Any]] = []
    shared = _shared_status(places, tasks)
    parts: list[bytes | str] = [b"", b""]
    if shared is not None:
        parts = [*_in_common(shared, tasks[places[0]].definition.id)]
    last_entry, last_status, last, last_revision = None, None, None, 0
    for place in places:
        task, entry = tasks[place], entries[place]
        definition, status = task.definition, task.status
        if entry is not last_entry or status is not last_status:
            last_entry, last_status = entry, status
            packed = packed_entry(entry, task, status)
            if packed is not last or status.revision != last_revision:
                last, last_revision = packed, status.revision
                groups.append(_group(packed, entry, status, 0))
        groups[-1][-1] += 1
        parts += (definition.id, encode(definition), definition.digest)
        if shared is None:
            parts += (encode(status), encode_event(status.events[-1], definition.id))
    return groups, parts


def _group(packed: msgspec.Raw, entry: IndexEntry, status: Status, size: int) -> list[Any]:
    assert entry.ready is not None
    created = str(status.created_at)
    head = f"{status.revision} {created} "
    kind, score = entry.ready.kind, score_of(entry.ready)
    event = status.events[-1]
    day, tally = day_of(event.at), tally_of(event)
    return [packed, head, entry.queue, kind, created, score, day, tally, size]


def _in_common(status: Status, task_id: str) -> tuple[bytes, bytes]:
    """A status, and its event as far as the id; after that comes only that there is no result."""
    event = encode_event(status.events[-1], task_id)
    return encode(status), event.rpartition(task_id.encode())[0]


def _shared_status(places: Sequence[int], tasks: Sequence[Task]) -> Status | None:
    """The status of all these tasks, if it is one and their ids are equally long: then their
    events differ in the id only."""
    first = tasks[places[0]]
    status, length = first.status, len(first.definition.id)
    for place in places:
        task = tasks[place]
        if task.status is not status or len(task.definition.id) != length:
            return None
    return status


async def _create_apart(
    at: Partitions, tasks: Sequence[Task], entries: Sequence[IndexEntry]
) -> list[Created]:
    """The same where unique keys are reserved in partitions of their own; no id comes twice."""
    pairs = zip(tasks, entries, strict=True)
    items = {task.id: _item(task, entry, keeps_key=False) for task, entry in pairs}
    known = await states(at, [task.id for task in tasks])
    wishes = [
        wish
        for task, entry, state in zip(tasks, entries, known, strict=True)
        if state is None  # else the id is taken, which create will say
        and (wish := reserving.wish_of(entry, task.id, at.clock.now())) is not None
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
        (entry.unique_key, task.id)
        for task, entry, outcome in zip(tasks, entries, outcomes, strict=True)
        if entry.unique_key is not None and outcome.kind in (CreateKind.FULL, CreateKind.EXISTS)
    ]
    await reserving.let_go(at, in_vain)
    return outcomes


def refused(task: Task | None, why: str) -> Created:
    """The outcome of a record that cannot be written."""
    return Created(CreateKind.INVALID, why=why)


def _item(task: Task, entry: IndexEntry, *, keeps_key: bool) -> tuple[Any, ...]:
    """One record as `create.lua` takes it; `keeps_key` if its unique key is in its partition."""
    definition, status = task.definition, task.status
    return (  # in the order of `CreateItem`
        definition.id,
        body(encode(definition)),
        body(encode(status)),
        packed_entry(entry, task, status),
        body(encode_event(status.events[-1], definition.id)),
        keeps_key,
        f"{status.revision} {status.created_at} ",
        definition.digest,
        day_of(status.events[-1].at),
        tally_of(status.events[-1]),
    )


def _outcome(reply: Any) -> Created:
    if reply in (b"c", _HANDED_OVER):
        return _CREATED
    kind = reply[0]
    if kind == b"e":
        return Created(CreateKind.EXISTS, reply[1].decode(), State(reply[2].decode()))
    if kind == b"k":
        return Created(CreateKind.KEY_HELD, holder=reply[1].decode())
    if kind == b"i":
        return refused(None, damage(reply[1]))
    return Created(CreateKind.FULL, oldest=tuple(task for _, task in records_in(reply, 1)))
