"""Restores records from another store, in the states that they had there."""

from collections.abc import Sequence

from andon.contract.edges import Edge
from andon.contract.requests import Snapshot
from andon.lifecycle.effects import of_new
from andon.lifecycle.indexes import IndexEntry, entry_of
from andon.model.words import State
from andon.stores.kit.codec import encode, encode_event
from andon.stores.kit.daily_sums import summed
from andon.stores.redis import reserving
from andon.stores.redis.dependencies import ANY_END, LOADS, SETTLED
from andon.stores.redis.packed import RestoreItem
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.records import FIRST_APART, body, packed_cell, packed_entry


def _flags(edge: Edge) -> int:
    """An edge's flags, as scripts keep them."""
    return LOADS * edge.loads + ANY_END * edge.any_end + SETTLED * edge.settled


async def restore(at: Partitions, snapshots: Sequence[Snapshot]) -> list[bool]:
    """Write those whose id is free. Returns for each, in order, whether it was."""
    entries = [entry_of(snapshot.task) for snapshot in snapshots]
    items = [
        _item(snapshot, entry, keeps_key=at.count == 1)
        for snapshot, entry in zip(snapshots, entries, strict=True)
    ]
    replies = await at.spread("restore", items, [snapshot.task.id for snapshot in snapshots])
    restored = [reply == 1 for reply in replies]
    if at.count > 1:
        now = at.clock.now()
        effects = [of_new(s.task, e) for s, e in zip(snapshots, entries, strict=True)]
        wishes = [
            wish
            for one, snapshot, done in zip(effects, snapshots, restored, strict=True)
            if done and (wish := reserving.wish_of(one, snapshot.task.id, now)) is not None
        ]
        await reserving.reserve(at, wishes)  # a key that another task holds stays with that task
    return restored


def _item(snapshot: Snapshot, entry: IndexEntry, *, keeps_key: bool) -> RestoreItem:
    """One record as `restore.lua` takes it; `keeps_key` if its unique key is in its partition."""
    task = snapshot.task
    definition, status, cell = task.definition, task.status, task.cell
    moves = snapshot.history
    blocked = status.state is State.BLOCKED
    satisfied = set(snapshot.satisfied) & set(definition.dependencies) if blocked else ()
    tallies = summed((None, move) for move in moves)
    return RestoreItem(
        id=definition.id,
        definition=body(encode(definition)),
        status=body(encode(status)),
        entry=packed_entry(entry, task, status),
        head=f"{status.revision} {status.created_at} ",
        moves=[body(encode_event(event, definition.id)) for event in moves],
        apart=_is_apart(snapshot),
        cell=None if cell is None else body(packed_cell(cell, status)),
        result=None if task.result is None else body(task.result),
        asked=status.run if status.cancel_requested_at is not None and cell is not None else "",
        edges=[(edge.child, _flags(edge)) for edge in snapshot.edges],
        satisfied=tuple(satisfied),
        keeps_key=keeps_key,
        digest=definition.digest,
        tallies=[(day, tally, n) for (_, day, tally), n in tallies.items()],
    )


def _is_apart(snapshot: Snapshot) -> bool:
    """Whether the moves are kept apart: the status does not carry them all, or soon will not."""
    status = snapshot.task.status
    kept = [event.revision for event in snapshot.history]
    carried = [event.revision for event in status.events]
    return status.revision >= FIRST_APART or kept != carried
