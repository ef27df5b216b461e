"""What create sends and what comes back."""

from typing import Any

from andon.lifecycle.indexes import IndexEntry
from andon.model.task import Task
from andon.model.words import State
from andon.stores.base import Created, CreateKind
from andon.stores.redis.records import body, encode, packed_entry, packed_event, records_in

CREATED = Created(CreateKind.CREATED)


def item(task: Task, entry: IndexEntry, *, keeps_key: bool) -> tuple[Any, ...]:
    """One record as `create.lua` takes it; `keeps_key` if its unique key is in its partition."""
    definition, status = task.definition, task.status
    return (
        definition.id,
        body(encode(definition)),
        body(encode(status)),
        body(packed_entry(entry, task, status)),
        body(packed_event(status.events[-1], definition.id)),
        keeps_key,
        str(status.revision),
    )


def outcome(reply: Any) -> Created:
    """The outcome of one creation."""
    if reply == b"c":
        return CREATED
    kind = reply[0]
    if kind == b"e":
        return Created(CreateKind.EXISTS, reply[1].decode(), State(reply[2].decode()))
    if kind == b"k":
        return Created(CreateKind.KEY_HELD, holder=reply[1].decode())
    return Created(CreateKind.FULL, oldest=tuple(task for _, task in records_in(reply, 1)))
