"""Committing: decided moves written if the record is still what they were decided on.

A batch is first written with guarded statements; only if one of them did not match is each change
looked at alone, so the common case costs no reads.
"""

import sqlite3
from collections.abc import Sequence

import msgspec

from andon.lifecycle.apply import set_aside as set_aside_event
from andon.lifecycle.indexes import IndexEntry, entry_of
from andon.model.task import Task
from andon.model.words import TERMINAL, State
from andon.stores.base import Change, Changed, ChangeKind, control_topic
from andon.stores.sqlite.creating import hold_key
from andon.stores.sqlite.fleet import QueueConfigs
from andon.stores.sqlite.placing import leave_key, place, unplace
from andon.stores.sqlite.reading import read_task, read_task_by_seq
from andon.stores.sqlite.records import encode
from andon.stores.sqlite.statements import CONFIG, EDGES, LIFE, READING
from andon.stores.sqlite.transaction import DEAD, Transaction

_APPLIED = Changed(ChangeKind.APPLIED)
_HAS_DEPENDENTS = Changed(ChangeKind.APPLIED, has_dependents=True)
_GONE = Changed(ChangeKind.GONE)


class Prepared(msgspec.Struct, frozen=True):
    """A change with its index entries before and after, encoded before the transaction."""

    change: Change
    before: IndexEntry
    after: IndexEntry | None
    status: bytes


def prepare(changes: Sequence[Change]) -> list[Prepared]:
    """Derive entries and encode outside the transaction."""
    prepared: list[Prepared] = []
    for change in changes:
        after, status = None, b""
        if change.after is not None:
            record = Task(
                definition=change.before.definition, status=change.after, cell=change.before.cell
            )
            after, status = entry_of(record), encode(change.after)
        prepared.append(Prepared(change, entry_of(change.before), after, status))
    return prepared


def commit(tx: Transaction, prepared: Sequence[Prepared], configs: QueueConfigs) -> list[Changed]:
    """Write the changes; outcomes in order."""
    if not all(_is_plain(p) for p in prepared):
        return [_commit_alone(tx, p, configs) for p in prepared]
    tx.db.execute("SAVEPOINT batch")
    hints = set(tx.hints)
    outcomes = _commit_plain(tx, prepared, configs)
    if outcomes is not None:
        tx.db.execute("RELEASE batch")
        return outcomes
    tx.db.execute("ROLLBACK TO batch")
    tx.db.execute("RELEASE batch")
    tx.hints = hints
    return [_commit_alone(tx, p, configs) for p in prepared]


def _is_plain(p: Prepared) -> bool:
    """A worker's report on a run in hand: the hot path."""
    c = p.change
    return (
        c.before.ref > 0
        and c.after is not None
        and c.seen_lease is None
        and c.discard is None
        and p.before.state is State.ACTIVE
        and p.after is not None
        and p.after.ready is None
        and p.before.key is None
        and p.before.unique_key is None
        and p.after.unique_key is None
        and c.after.state is not State.ACTIVE
    )


def _commit_plain(
    tx: Transaction, prepared: Sequence[Prepared], configs: QueueConfigs
) -> list[Changed] | None:
    """All at once; None, to be rolled back, if any guard did not hold."""
    db = tx.db
    moves: list[tuple[object, ...]] = []
    events: list[tuple[int, Prepared]] = []
    results: list[tuple[int, bytes]] = []
    for p in prepared:
        seq = p.change.before.ref
        events.append((seq, p))
        assert p.after is not None
        assert p.change.after is not None
        moves.append(
            (seq, p.change.before.status.revision, p.after.state.value, p.change.after.revision,
             p.after.timer, 1 if p.after.dead_letter else None, None, p.status, None, None)
        )  # fmt: skip
        if p.change.sets_result and p.change.result is not None:
            results.append((seq, p.change.result))
    if db.executemany(LIFE.move, moves).rowcount != len(moves):
        return None
    if results:
        db.executemany(LIFE.put_result, results)
    _chain_events(tx, events)
    ended = False
    for p in prepared:
        assert p.after is not None
        queue = tx.name_id(p.before.queue)
        tx.count(queue, State.ACTIVE, -1)
        tx.count(queue, p.after.state, 1)
        if p.after.dead_letter:
            tx.count(queue, DEAD, 1)
        ended = ended or p.after.state in TERMINAL
        tx.hint_timer(p.after.timer)
        _hint_room(tx, p, configs)
    if ended and tx.db.execute(EDGES.any_edges).fetchone()[0]:
        return [_told(tx, p) for p in prepared]
    return [_APPLIED] * len(prepared)
