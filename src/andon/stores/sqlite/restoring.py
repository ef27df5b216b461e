"""Restoring: records moved in from another store, in whatever state they were there."""

from collections.abc import Callable, Sequence

from andon.contract.requests import Snapshot
from andon.lifecycle.unique import lapsed
from andon.model.words import TERMINAL, State
from andon.stores.sqlite.creating import (
    Prepared,
    already_there,
    count,
    hold_key,
    key_holder,
)
from andon.stores.sqlite.creating import prepare as prepare_records
from andon.stores.sqlite.placing import admit_run, place
from andon.stores.sqlite.rows import write
from andon.stores.sqlite.statements import EDGES, LIFE
from andon.stores.sqlite.transaction import Transaction

Arrival = tuple[Prepared, Snapshot]


def prepare(snapshots: Sequence[Snapshot], partition_of: Callable[[str], int]) -> list[Arrival]:
    """Encode records outside the transaction."""
    prepared = prepare_records([snapshot.task for snapshot in snapshots], partition_of)
    return list(zip(prepared, snapshots, strict=True))


def restore(tx: Transaction, arrivals: Sequence[Arrival]) -> list[bool]:
    """Write those whose id is free; which they were, in order."""
    taken = set(already_there(tx, [p for p, _ in arrivals]))
    outcomes: list[bool] = []
    fresh: list[Arrival] = []
    for p, snapshot in arrivals:
        outcomes.append(p.task.id not in taken)
        if outcomes[-1]:
            taken.add(p.task.id)
            fresh.append((p, snapshot))
    if fresh:
        _write(tx, fresh)
    return outcomes


def _write(tx: Transaction, fresh: Sequence[Arrival]) -> None:
    seqs = range(first := tx.take_seqs(len(fresh)), first + len(fresh))
    definitions = [(seq, p.task.id, p.definition) for seq, (p, _) in zip(seqs, fresh, strict=True)]
    write(tx.db, LIFE.insert_definition, definitions)
    rows = [_row(tx, seq, p, snapshot) for seq, (p, snapshot) in zip(seqs, fresh, strict=True)]
    write(tx.db, LIFE.restore_task, rows)
    for seq, (p, snapshot) in zip(seqs, fresh, strict=True):
        _index(tx, seq, p, snapshot)


def _row(tx: Transaction, seq: int, p: Prepared, snapshot: Snapshot) -> tuple[object, ...]:
    """Parameters of `LIFE.restore_task`; the task's moves are added to the log on the way."""
    entry, status, cell = p.entry, p.task.status, p.task.cell
    last = None
    for event in snapshot.history:
        last = tx.add_event(seq, p.task.id, event, last)
    tx.tally((entry.queue, event) for event in snapshot.history)
    run: tuple[object, ...] = (None, status.fence, None, None, None, None, None, None)
    if cell is not None:
        run = (cell.run, status.fence, status.worker, status.runs[-1].claimed_at,
               cell.lease_until, cell.heartbeat_at, cell.progress, cell.message)  # fmt: skip
    return (
        seq, p.partition, tx.name_id(entry.queue), entry.state.value, status.revision,
        entry.timer, entry.key, entry.group, 1 if entry.dead_letter else None, last,
        *run, p.status,
    )  # fmt: skip


def _index(tx: Transaction, seq: int, p: Prepared, snapshot: Snapshot) -> None:
    """All that is derived from a record, and what was known beside it."""
    entry, task_id = p.entry, p.task.id
    count(tx, [p])
    tx.hint_timer(entry.timer)
    if p.task.result is not None:
        tx.db.execute(LIFE.put_result, (seq, p.task.result))
    if entry.unique_key is not None and not lapsed(
        entry, tx.now
    ):  # held by nobody else, it is ours
        holder = key_holder(tx, entry, task_id)
        if holder is None:
            hold_key(tx, entry, task_id)
    if entry.state is State.PENDING:
        place(tx, entry, seq, p.partition)
    elif entry.state is State.ACTIVE:
        admit_run(tx, entry)
    elif entry.state is State.BLOCKED:
        satisfied = set(snapshot.satisfied) & set(p.task.definition.dependencies)
        tx.db.execute(EDGES.start_fan_in, (task_id, entry.remaining - len(satisfied)))
        tx.db.executemany(EDGES.satisfy, [(task_id, parent) for parent in satisfied])
    _link(tx, task_id, entry.state, snapshot)


def _link(tx: Transaction, task_id: str, state: State, snapshot: Snapshot) -> None:
    edges = [(task_id, e.child, e.loads, e.any_end, e.settled) for e in snapshot.edges]
    tx.db.executemany(EDGES.restore_edge, edges)
    if state in TERMINAL and not all(edge.settled for edge in snapshot.edges):
        tx.db.execute(EDGES.mark_unsettled, (task_id,))
