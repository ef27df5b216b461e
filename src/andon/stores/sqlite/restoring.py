"""Restores records copied from another store, in whatever state they were there."""

from collections.abc import Sequence

from andon.contract.requests import Snapshot
from andon.model.words import TERMINAL, State
from andon.stores.kit.daily_sums import summed
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
"""One record that moves in: a batch of its own, since no two lives are alike."""


def prepare(snapshots: Sequence[Snapshot], partitions: int) -> list[Arrival]:
    """Encode records outside the transaction."""
    return [(prepare_records([s.task], partitions)[0], s) for s in snapshots]


def restore(tx: Transaction, arrivals: Sequence[Arrival]) -> list[bool]:
    """Write those whose id is free. Returns which were, in order."""
    taken = set(already_there(tx, [snapshot.task.id for _, snapshot in arrivals]))
    outcomes: list[bool] = []
    fresh: list[Arrival] = []
    for p, snapshot in arrivals:
        outcomes.append(snapshot.task.id not in taken)
        if outcomes[-1]:
            taken.add(snapshot.task.id)
            fresh.append((p, snapshot))
    if fresh:
        _write(tx, fresh)
    return outcomes


def _write(tx: Transaction, fresh: Sequence[Arrival]) -> None:
    seqs = range(first := tx.take_seqs(len(fresh)), first + len(fresh))
    definitions = [
        (seq, snapshot.task.id, p.definitions[0])
        for seq, (p, snapshot) in zip(seqs, fresh, strict=True)
    ]
    write(tx.db, LIFE.insert_definition, definitions)
    rows = [_row(tx, seq, p, snapshot) for seq, (p, snapshot) in zip(seqs, fresh, strict=True)]
    write(tx.db, LIFE.restore_task, rows)
    for seq, (p, snapshot) in zip(seqs, fresh, strict=True):
        _index(tx, seq, p, snapshot)


def _row(tx: Transaction, seq: int, p: Prepared, snapshot: Snapshot) -> tuple[object, ...]:
    """Parameters of `LIFE.restore_task`; the task's moves are added to the log on the way."""
    task, entry = snapshot.task, p.batch.entry
    status, cell = task.status, task.cell
    last = None
    for event in snapshot.history:
        last = tx.add_event(seq, task.id, event, last)
    queue = tx.name_id(entry.queue)
    for (_, day, tally), times in summed((queue, e) for e in snapshot.history).items():
        tx.tally(queue, day, tally, times)
    run: tuple[object, ...] = (None, status.fence, None, None, None, None, None, None)
    if cell is not None:
        run = (cell.run, status.fence, status.worker, status.runs[-1].claimed_at,
               cell.lease_until, cell.heartbeat_at, cell.progress, cell.message)  # fmt: skip
    return (
        seq, p.partitions[0], queue, entry.state.value, status.revision,
        entry.timer, entry.key, entry.group, 1 if entry.dead_letter else None, last,
        *run, p.status,
    )  # fmt: skip


def _index(tx: Transaction, seq: int, p: Prepared, snapshot: Snapshot) -> None:
    """All that is derived from a record, and what was known beside it."""
    task, entry, effects = snapshot.task, p.batch.entry, p.batch.effects
    task_id = task.id
    count(tx, effects, 1)
    for name in effects.lists_in:
        tx.db.execute(LIFE.enter_list, (name, seq))
    tx.hint_timer(entry.timer)
    if task.result is not None:
        tx.db.execute(LIFE.put_result, (seq, task.result))
    key = effects.key_to_reserve(tx.now)
    if key is not None and key_holder(tx, key, task_id) is None:
        hold_key(tx, key, task_id, effects)  # no other task holds it, so it is this one's
    if entry.state is State.PENDING:
        place(tx, entry, seq, p.partitions[0])
    elif entry.state is State.ACTIVE:
        admit_run(tx, entry)
    elif entry.state is State.BLOCKED:
        satisfied = set(snapshot.satisfied) & set(task.definition.dependencies)
        left = entry.remaining - len(satisfied)
        tx.db.execute(EDGES.start_fan_in, (task_id, left, entry.spare))
        tx.db.executemany(EDGES.satisfy, [(task_id, parent) for parent in satisfied])
    _link(tx, task_id, entry.state, snapshot)


def _link(tx: Transaction, task_id: str, state: State, snapshot: Snapshot) -> None:
    edges = [(task_id, e.child, e.loads, e.any_end, e.settled) for e in snapshot.edges]
    tx.db.executemany(EDGES.restore_edge, edges)
    if state in TERMINAL and not all(edge.settled for edge in snapshot.edges):
        tx.db.execute(EDGES.mark_unsettled, (task_id,))
