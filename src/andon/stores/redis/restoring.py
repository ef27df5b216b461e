"""What restore sends."""

from typing import Any

from andon.lifecycle.indexes import IndexEntry, entry_of
from andon.model.task import Task
from andon.model.words import State
from andon.stores.base import Edge, Snapshot
from andon.stores.redis.committing import FIRST_APART
from andon.stores.redis.records import (
    body,
    encode,
    packed_cell,
    packed_entry,
    packed_event,
)
from andon.stores.redis.reserving import Wish

LOADS, ANY_END, SETTLED = 1, 2, 4
"""What the scripts add up to the flags of an edge."""


def flags(edge: Edge) -> int:
    """An edge's flags, as scripts keep them."""
    return LOADS * edge.loads + ANY_END * edge.any_end + SETTLED * edge.settled


def wish(task: Task) -> Wish | None:
    """The unique key that a restored record holds."""
    entry = entry_of(task)
    if entry.unique_key is None:
        return None
    return Wish(entry.unique_key, entry.unique_until, task.definition.id)


def item(snapshot: Snapshot, entry: IndexEntry, *, keeps_key: bool) -> tuple[Any, ...]:
    """One record as `restore.lua` takes it; `keeps_key` if its unique key is in its partition."""
    task = snapshot.task
    definition, status, cell = task.definition, task.status, task.cell
    moves = snapshot.history
    blocked = status.state is State.BLOCKED
    satisfied = set(snapshot.satisfied) & set(definition.dependencies) if blocked else ()
    return (
        definition.id,
        body(encode(definition)),
        body(encode(status)),
        body(packed_entry(entry, task, status)),
        str(status.revision),
        [body(packed_event(event, definition.id)) for event in moves],
        _is_apart(snapshot),
        None if cell is None else body(packed_cell(cell, status)),
        None if task.result is None else body(task.result),
        status.cancel_requested_at is not None and cell is not None,
        [(edge.child, flags(edge)) for edge in snapshot.edges],
        tuple(satisfied),
        status.worker,
        status.events[-1].write_id if status.events else "",
        keeps_key,
    )


def _is_apart(snapshot: Snapshot) -> bool:
    """Whether the moves are kept apart: all that the status does not carry, or will not for long."""
    status = snapshot.task.status
    kept = [event.revision for event in snapshot.history]
    carried = [event.revision for event in status.events]
    return status.revision >= FIRST_APART or kept != carried
