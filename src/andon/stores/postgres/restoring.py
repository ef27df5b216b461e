"""Restores records copied from another store, in whatever state they were there."""

from collections.abc import Sequence
from typing import Any

from andon.contract.requests import Snapshot
from andon.lifecycle.daily import tally_of
from andon.model.task import Task
from andon.stores.kit.codec import encode_event
from andon.stores.postgres.creating import Creation
from andon.stores.postgres.names import Names


async def arguments(
    snapshots: Sequence[Snapshot], names: Names, partitions: int
) -> tuple[list[Any], set[str]]:
    """Arguments of the statement after its first two, and the topics of its hints."""
    creation = Creation([snapshot.task for snapshot in snapshots], partitions)
    columns, topics = await creation.columns(names)
    cells = [_cell(snapshot.task) for snapshot in snapshots]
    moves = [
        (i, event.at, encode_event(event, s.task.definition.id), tally_of(event))
        for i, s in enumerate(snapshots, 1)
        for event in s.history
    ]
    satisfied = [
        (i, parent)
        for i, s in enumerate(snapshots, 1)
        for parent in set(s.satisfied) & set(s.task.definition.dependencies)
    ]
    edges = [
        (i, e.child, e.loads, e.any_end, e.settled)
        for i, s in enumerate(snapshots, 1)
        for e in s.edges
    ]
    return [
        *columns,
        *_columns(cells, 10),
        *_columns(moves, 4),
        *_columns(satisfied, 2),
        *_columns(edges, 5),
    ], topics


def _cell(task: Task) -> tuple[Any, ...]:
    """What a record has beside its status: the run in hand, its fence, its result."""
    status, cell = task.status, task.cell
    asked = status.cancel_requested_at is not None
    if cell is None:
        return (asked, status.fence, None, None, None, None, None, None, None, task.result)
    return (
        asked,
        status.fence,
        cell.run,
        status.worker,
        status.runs[-1].claimed_at,
        cell.lease_until,
        cell.heartbeat_at,
        cell.progress,
        cell.message,
        task.result,
    )


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
