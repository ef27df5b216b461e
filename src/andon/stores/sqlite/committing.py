"""Commits decided moves, if the record is still what they were decided on.

Changes that touch only their records are first written together, with guarded statements; only if
one of them did not match is each written alone, as all others are. So the common case costs no
reads.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from andon.contract.outcomes import APPLIED, HAS_DEPENDENTS, Changed, ChangeKind
from andon.contract.requests import Change
from andon.contract.topics import control_topic
from andon.lifecycle.apply import set_aside as set_aside_event
from andon.lifecycle.batches import moved_alike
from andon.lifecycle.constants import DAY_MS, SUBMIT_WINDOW_MS
from andon.lifecycle.daily import Tally, day_of
from andon.lifecycle.effects import Effects, of_discard
from andon.lifecycle.repeats import tombstone_of
from andon.model.task import Task, Tombstone
from andon.model.words import TERMINAL, State
from andon.stores.kit.codec import decode_event, encode
from andon.stores.sqlite.creating import count, hold_key, key_holder
from andon.stores.sqlite.dependencies import unlink
from andon.stores.sqlite.placing import leave_key, place, unplace
from andon.stores.sqlite.reading import read_task_by_seq
from andon.stores.sqlite.rows import write
from andon.stores.sqlite.settling import settle_with_end
from andon.stores.sqlite.statements import CONFIG, EDGES, LANES, LIFE, READING
from andon.stores.sqlite.transaction import DEAD, PARKED, Transaction

_GONE = Changed(ChangeKind.GONE)

_Counted = tuple[str, State | None, State | None, bool, Tally | None]
"""What a move is counted by: its queue, the states that it leaves and enters, whether it makes a
dead letter, and what it is in the daily history."""


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A change with its effects, encoded before the transaction."""

    change: Change
    effects: Effects
    is_bare: bool  #: `Effects.is_bare`, asked once for those that share their effects
    counted: _Counted  #: the same
    status: bytes


def prepare(changes: Sequence[Change]) -> list[Prepared]:
    """Derive what follows and encode it outside the transaction."""
    prepared: list[Prepared] = []
    for batch in moved_alike(changes):
        e = batch.effects
        is_bare, counted = e.is_bare, (e.queue, e.left, e.state, e.dead_letter_in, e.tally)
        for change in batch.moves:
            status = b"" if change.after is None else encode(change.after)
            prepared.append(Prepared(change, e, is_bare, counted, status))
    return prepared


def commit(tx: Transaction, prepared: Sequence[Prepared]) -> list[Changed]:
    """Write the changes; outcomes in order."""
    together = [p for p in prepared if _goes_with_others(p)]
    if len(together) == len(prepared):
        return _commit_together(tx, together)
    written = iter(_commit_together(tx, together) if together else ())
    return [next(written) if _goes_with_others(p) else _commit_alone(tx, p) for p in prepared]


def commit_without_settling(tx: Transaction, prepared: Sequence[Prepared]) -> list[Changed]:
    """The same, and every edge of what ends is left to `settle`."""
    allowed, tx.may_settle = tx.may_settle, 0
    try:
        return commit(tx, prepared)
    finally:
        tx.may_settle = allowed


def _commit_together(tx: Transaction, prepared: Sequence[Prepared]) -> list[Changed]:
    """The changes that can be written together."""
    tx.db.execute("SAVEPOINT batch")
    hints, ready = set(tx.hints), set(tx.ready)
    outcomes = _commit_plain(tx, prepared)
    if outcomes is not None:
        tx.db.execute("RELEASE batch")
        return outcomes
    tx.db.execute("ROLLBACK TO batch")
    tx.db.execute("RELEASE batch")
    tx.hints, tx.ready = hints, ready
    return [_commit_alone(tx, p) for p in prepared]


def _goes_with_others(p: Prepared) -> bool:
    """Whether a statement for many changes can write this one: its record is known by its key, and
    only the revision has to be checked. Most are reports of workers on runs in hand; paying the
    debt of a report is another."""
    change = p.change
    return p.is_bare and change.before.ref > 0 and change.seen_lease is None


def _commit_plain(tx: Transaction, prepared: Sequence[Prepared]) -> list[Changed] | None:
    """All at once; None, to be rolled back, if any guard did not hold."""
    db = tx.db
    positions = tx.chain_events(
        [(p.change.before.ref, p.change.before.definition.id, p.change.event) for p in prepared]
    )
    moves: list[tuple[object, ...]] = []
    results: list[tuple[int, bytes]] = []
    lists: list[tuple[str, int]] = []
    for p, pos in zip(prepared, positions, strict=True):
        seq = p.change.before.ref
        moves.append(_move_row(p, seq, pos))
        _hint_worker(tx, p.effects)
        if p.effects.lists_in:
            lists += [(name, seq) for name in p.effects.lists_in]
        if p.change.sets_result and p.change.result is not None:
            results.append((seq, p.change.result))
    if write(db, LIFE.move, moves) != len(moves):
        return None
    if results:
        write(db, LIFE.put_result, results)
    if lists:
        write(db, LIFE.enter_list, lists)
    ended = _count_together(tx, prepared)
    tx.hint_timers([p.effects.timer for p in prepared])
    if tx.configs:
        for p in prepared:
            if p.effects.frees_slot:
                _hint_room(tx, p.effects)
    if ended and db.execute(EDGES.any_edges).fetchone()[0]:
        return [_told(tx, p) for p in prepared]
    return [APPLIED] * len(prepared)


def _count_together(tx: Transaction, prepared: Sequence[Prepared]) -> bool:
    """Count moves; whether any of them ends its task."""
    moved = Counter([(p.counted, p.change.event.at // DAY_MS) for p in prepared])
    any_end = False
    for ((name, left, state, dead_letter, tally), day), n in moved.items():
        assert left is not None
        assert state is not None
        queue = tx.name_id(name)
        tx.count(queue, left, -n)
        tx.count(queue, state, n)
        if dead_letter:
            tx.count(queue, DEAD, n)
        tx.tally(queue, day, tally, n)
        any_end = any_end or state in TERMINAL
    return any_end


def _move_row(p: Prepared, seq: int, pos: int) -> tuple[object, ...]:
    """Parameters of `LIFE.move`."""
    after, status = p.effects.entry, p.change.after
    assert after is not None
    assert status is not None
    return (
        seq,
        p.change.before.status.revision,
        after.state,
        status.revision,
        after.timer,
        1 if after.dead_letter else None,
        p.status,
        status.run or None,
        status.worker or None,
        pos,
    )


def _commit_alone(tx: Transaction, p: Prepared) -> Changed:
    """One change, every guard looked at."""
    change = p.change
    task_id = change.before.definition.id
    seq = _seq(tx, change)
    row = None if seq is None else tx.db.execute(LIFE.standing, (seq,)).fetchone()
    if seq is None or row is None:
        stub = tx.db.execute(LIFE.stub_write_id, (task_id, tx.now - SUBMIT_WINDOW_MS)).fetchone()
        write_id = change.event.write_id
        repeated = stub is not None and write_id and write_id in stub[0].split()
        return APPLIED if repeated else _GONE
    revision, lease_until, state, partition, last = row
    if change.before.state is State.UNKNOWN and state != State.UNKNOWN:
        # The caller found that it does not decode, and no claim or timer has read it yet.
        set_aside(tx, seq)
        return _conflict(tx, seq, change)
    lease_moved = change.seen_lease is not None and lease_until != change.seen_lease
    if revision != change.before.status.revision or lease_moved:
        return _conflict(tx, seq, change)
    if change.after is None and not change.force and _is_needed(tx, task_id):
        tx.db.execute(EDGES.put_off, (task_id,))
        return _conflict(tx, seq, change)
    effects = p.effects
    key = effects.key_to_reserve(tx.now)
    if key is not None:
        holder = key_holder(tx, key, task_id)
        if holder is not None:
            return Changed(ChangeKind.KEY_HELD, holder=holder)
        hold_key(tx, key, task_id, effects)
    _hint_worker(tx, effects)
    tx.tally(tx.name_id(effects.queue), day_of(change.event.at), effects.tally)
    _leave(tx, effects, task_id, seq, partition)
    if change.after is None:
        writes = f"{_write_id_at(tx, last)} {change.event.write_id}"
        left = replace(tombstone_of(change.before.status), state=State(state))
        delete(tx, change.before, seq, writes, left)
        tx.add_event(seq, task_id, change.event, last)
        return APPLIED
    pos = tx.add_event(seq, task_id, change.event, last)
    _enter(tx, p, seq, partition, pos)
    outcome = _told(tx, p)
    if change.discard is not None:
        if _is_needed(tx, task_id):
            tx.db.execute(EDGES.put_off, (task_id,))
        else:
            _discard(tx, p, seq, partition, pos)
    return outcome


def _seq(tx: Transaction, change: Change) -> int | None:
    if change.before.ref:
        return change.before.ref
    row = tx.db.execute(LIFE.seq_of, (change.before.definition.id,)).fetchone()
    return row[0] if row else None


def _conflict(tx: Transaction, seq: int, change: Change) -> Changed:
    """What is there now; or applied, if what is there is this very write (docs/rulings.md, R31)."""
    tx.flush_events()
    current = read_task_by_seq(tx.db, seq)
    if current is None:
        return _GONE
    if any(e.write_id == change.event.write_id for e in current.status.events if e.write_id):
        row = tx.db.execute(EDGES.has_edges, (current.definition.id,)).fetchone()
        told = current.state in TERMINAL and row[0] is not None
        return HAS_DEPENDENTS if told else APPLIED
    return Changed(ChangeKind.CONFLICT, current=current)


def _is_needed(tx: Transaction, task_id: str) -> bool:
    """Whether an unsettled edge, or a live dependent that loads the result, holds the record."""
    return tx.db.execute(EDGES.holding, (task_id,)).fetchone() is not None


def _leave(tx: Transaction, effects: Effects, task_id: str, seq: int, partition: int) -> None:
    """Remove what the change removes from indexes and counts."""
    queue = tx.name_id(effects.queue)
    assert effects.left is not None
    tx.count(queue, effects.left, -1)
    if effects.dead_letter_out:
        tx.count(queue, DEAD, -1)
    for name in effects.lists_out:
        tx.db.execute(LIFE.leave_list, (name, seq))
    if effects.ready_out is not None:
        unplace(tx, effects, seq, partition)
    elif effects.frees_slot:
        if effects.key is not None:
            leave_key(tx, effects.queue, effects.key, returns=effects.ready_in is not None)
        _hint_room(tx, effects)
    elif effects.unblocks:
        tx.db.execute(EDGES.drop_fan_in, (task_id,))
        tx.db.execute(EDGES.drop_satisfied, (task_id,))
    elif effects.revives:  # its children wait on
        tx.db.execute(EDGES.drop_unsettled, (task_id,))
    if effects.frees_key is not None:
        tx.db.execute(LIFE.free_key, (effects.frees_key, task_id))


def _enter(tx: Transaction, p: Prepared, seq: int, partition: int, pos: int) -> None:
    """Add what the change adds to indexes and counts."""
    change, effects = p.change, p.effects
    assert effects.entry is not None
    tx.db.execute(LIFE.move, _move_row(p, seq, pos))
    if change.sets_result:
        if change.result is None:
            tx.db.execute(LIFE.drop_result, (seq,))
        else:
            tx.db.execute(LIFE.put_result, (seq, change.result))
    count(tx, effects, 1)
    for name in effects.lists_in:
        tx.db.execute(LIFE.enter_list, (name, seq))
    if effects.ready_in is not None:
        place(tx, effects.entry, seq, partition)
    tx.hint_timer(effects.timer)


def _told(tx: Transaction, p: Prepared) -> Changed:
    """Whether the end that was written has dependents that are still to be notified."""
    if not p.effects.ends:
        return APPLIED
    task_id = p.change.before.definition.id
    unsettled = tx.db.execute(EDGES.has_edges, (task_id,)).fetchone()[0]
    if unsettled is None:
        return APPLIED
    assert p.effects.state is not None
    if settle_with_end(tx, task_id, p.effects.state, lambda change: _is_written(tx, change)):
        return APPLIED
    if unsettled:
        tx.db.execute(EDGES.mark_unsettled, (task_id,))
    return HAS_DEPENDENTS


def _is_written(tx: Transaction, change: Change) -> bool:
    """Write a change that follows from one of this transaction; whether it was applied."""
    try:
        [prepared] = prepare([change])
    except Exception:
        return False  # it must not fail what it follows from
    return _commit_alone(tx, prepared).kind is ChangeKind.APPLIED


def _hint_worker(tx: Transaction, effects: Effects) -> None:
    """A caller other than the run's worker made this move: the worker whose run it ends or asks to
    stop is to be hinted."""
    if effects.interrupts:
        tx.hints.add(control_topic(effects.interrupts))


def _hint_room(tx: Transaction, effects: Effects) -> None:
    """A run ended: a queue that is limited fleet-wide may have room again."""
    config = tx.configs.get(effects.queue)
    if config is not None and config.max_concurrent is not None:
        tx.hint_ready(effects.queue)


def _discard(tx: Transaction, p: Prepared, seq: int, partition: int, pos: int) -> None:
    """Delete right after the end was written, so that watchers saw it first."""
    change = p.change
    assert change.discard is not None
    assert change.after is not None
    assert p.effects.entry is not None
    task_id = change.before.definition.id
    _leave(tx, of_discard(p.effects.entry, change.discard), task_id, seq, partition)
    gone = tx.add_event(seq, task_id, change.discard, pos)
    delete(
        tx, change.before, seq, change.event.write_id, tombstone_of(change.after), discarded_at=gone
    )


def _write_id_at(tx: Transaction, pos: int) -> str:
    """The write id of a task's newest event: its end, whose reply may be lost too (docs/rulings.md,
    R31)."""
    tx.flush_events()
    row = tx.db.execute(READING.event, (pos,)).fetchone()
    return "" if row is None else decode_event(row[1]).write_id


def delete(
    tx: Transaction,
    task: Task,
    seq: int,
    writes: str,
    left: Tombstone,
    *,
    discarded_at: int | None = None,
) -> None:
    """Remove a record with everything that is its own, leaving a stub for the submit window.
    `writes` are the ids of the writes that ended and deleted it, with a space between;
    `discarded_at` is where the event is that discards it."""
    task_id = task.definition.id
    tx.flush_events()
    _drop_trimmed_events(tx, seq)
    for statement in (LIFE.drop_task, LIFE.drop_definition, LIFE.drop_result):
        tx.db.execute(statement, (seq,))
    unlink(tx, [(parent, task_id) for parent in task.definition.dependencies])
    tx.db.execute(EDGES.drop_edges, (task_id,))
    tx.db.execute(EDGES.drop_unsettled, (task_id,))
    tx.db.execute(EDGES.drop_put_off, (task_id,))
    tx.memory.has_no_tombstones = False
    tx.db.execute(
        LIFE.put_stub,
        (
            task_id,
            task.definition.digest,
            left.state.value,
            writes,
            tx.now,
            left.run,
            left.report,
            discarded_at,
        ),
    )


def _drop_trimmed_events(tx: Transaction, seq: int) -> None:
    """Events that the log has trimmed were kept for the record's history; they are deleted with
    it."""
    row = tx.db.execute(CONFIG.meta, ("log_start",)).fetchone()
    log_start = row[0] if row else 0
    if not log_start:
        return
    last = tx.db.execute("SELECT last FROM task WHERE seq = ?", (seq,)).fetchone()
    pos = last[0] if last else None
    trimmed: list[tuple[int]] = []
    while pos is not None:
        found = tx.db.execute(READING.event, (pos,)).fetchone()
        if found is None:
            break
        if pos <= log_start:
            trimmed.append((pos,))
        pos = found[0]
    tx.db.executemany(CONFIG.drop_event, trimmed)


def set_aside(tx: Transaction, seq: int, *, stands_ready: bool = True) -> None:
    """Take a record that does not decode out of every index, in one step (docs/rulings.md, R28).
    Not `stands_ready`: its ready entry is gone already."""
    row = tx.db.execute(LIFE.queue_place, (seq,)).fetchone()
    if row is None:
        return
    queue, queue_name, state, partition, key, dead, last, revision, task_id = row
    tx.count(queue, state, -1)
    tx.count(queue, State.UNKNOWN, 1)
    if dead:
        tx.count(queue, DEAD, -1)
    admitted = state == State.ACTIVE
    if state == State.PENDING:
        parked = 0
        if stands_ready and key is not None:
            parked = tx.db.execute(LANES.delete_parked_of, (queue, key, seq)).rowcount
            tx.count(queue, PARKED, -parked)
        if stands_ready and not parked:
            tx.db.execute(LANES.delete_ready_of, (tx.place(queue, partition), seq))
        admitted = not parked
    if admitted:
        if key is not None:
            leave_key(tx, queue_name, key, returns=False)
        tx.hint_ready(queue_name)
    tx.db.execute(EDGES.drop_fan_in, (task_id,))
    tx.db.execute(EDGES.drop_satisfied, (task_id,))
    tx.db.execute(LIFE.leave_lists, (seq,))
    event = set_aside_event(revision, State(state), tx.now, "")
    pos = tx.add_event(seq, task_id, event, last)
    tx.db.execute(LIFE.set_aside, (seq, pos))
