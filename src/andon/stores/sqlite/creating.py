"""Creating records: idempotent by id, unique by key, bounded by queue."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from andon.contract.outcomes import Created, CreateKind
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.lifecycle.indexes import IndexEntry, entry_of
from andon.lifecycle.unique import keeps_from_others, lapsed
from andon.model.task import Task
from andon.model.words import State
from andon.stores.codec import Undecodable, decode_definition, encode
from andon.stores.sqlite.lanes import Bound, lane_of, wake
from andon.stores.sqlite.placing import place
from andon.stores.sqlite.reading import read_task
from andon.stores.sqlite.rows import write
from andon.stores.sqlite.statements import EDGES, LANES, LIFE
from andon.stores.sqlite.transaction import DEAD, Transaction

_CREATED = Created(CreateKind.CREATED)
_MOST_OFFERED = 8
"""How many of the oldest tasks a full queue names, for `discard-old` to evict."""


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A record ready to be written, encoded before the transaction begins."""

    task: Task
    entry: IndexEntry
    partition: int
    definition: bytes
    status: bytes


def prepare(tasks: Sequence[Task], partition_of: Callable[[str], int]) -> list[Prepared]:
    """Encode records outside the transaction; a status that tasks share only once."""
    prepared: list[Prepared] = []
    last, status = None, b""
    for task in tasks:
        definition = task.definition
        if task.status is not last:
            last, status = task.status, encode(task.status)
        partition = partition_of(definition.id)
        prepared.append(Prepared(task, entry_of(task), partition, encode(definition), status))
    return prepared


def invalid(_task: Task, why: str) -> Created:
    """The outcome of a record that cannot be written."""
    return Created(CreateKind.INVALID, why=why)


def create(tx: Transaction, prepared: Sequence[Prepared]) -> list[Created]:
    """Write new records with their events and index entries; outcomes in order."""
    if not tx.any_tombstone() and all(_is_plain(tx, p) for p in prepared):
        first = _insert_definitions(tx, prepared)
        if first is not None:
            count(tx, prepared)
            _tally(tx, prepared)
            _write(tx, prepared, first)
            return [_CREATED] * len(prepared)
    return _create_each(tx, prepared)


def _is_plain(tx: Transaction, p: Prepared) -> bool:
    """Whether nothing but its id can be taken: the hot path, which looks for nothing before it
    writes and lets the unique index say what is there already."""
    if p.entry.unique_key is not None:
        return False
    config = tx.configs.get(p.entry.queue)
    return config is None or config.max_size is None


def _insert_definitions(tx: Transaction, fresh: Sequence[Prepared]) -> int | None:
    """Write the definitions; the first of their keys, or None, nothing written, if an id is
    taken."""
    first = tx.take_seqs(len(fresh))
    rows = [(seq, p.task.definition.id, p.definition) for seq, p in enumerate(fresh, first)]
    if len(rows) == 1:  # a statement that fails leaves nothing behind
        try:
            tx.db.execute(LIFE.insert_definition, rows[0])
        except sqlite3.IntegrityError:
            return None
        return first
    tx.db.execute("SAVEPOINT definitions")
    try:
        write(tx.db, LIFE.insert_definition, rows)
    except sqlite3.IntegrityError:
        tx.db.execute("ROLLBACK TO definitions")
        return None
    finally:
        tx.db.execute("RELEASE definitions")
    return first


def _create_each(tx: Transaction, prepared: Sequence[Prepared]) -> list[Created]:
    """Look for what is taken first, and write the rest."""
    taken = already_there(tx, prepared)
    outcomes: list[Created] = []
    fresh: list[Prepared] = []
    keys: dict[str, str] = {}
    for p in prepared:
        task_id = p.task.definition.id
        outcome = taken.get(task_id) or _refused(tx, p, keys)
        if outcome is None:
            outcome = _CREATED
            fresh.append(p)
            taken[task_id] = Created(
                CreateKind.EXISTS, p.task.definition.digest, p.task.status.state
            )
            count(tx, [p])
        outcomes.append(outcome)
    if fresh:
        first = _insert_definitions(tx, fresh)
        assert first is not None, "nobody else writes, and these ids were free"
        _tally(tx, fresh)
        _write(tx, fresh, first)
    return outcomes


def already_there(tx: Transaction, prepared: Sequence[Prepared]) -> dict[str, Created]:
    """Ids that are there already, or were until a moment ago (R31)."""
    ids = json.dumps([p.task.definition.id for p in prepared])
    taken: dict[str, Created] = {}
    for task_id, digest, state in tx.db.execute(LIFE.stubs, (ids, tx.now - SUBMIT_WINDOW_MS)):
        taken[task_id] = Created(CreateKind.EXISTS, digest, State(state))
    for task_id, _seq, body, state in tx.db.execute(LIFE.existing, (ids,)):
        try:
            digest = decode_definition(body).digest
        except Undecodable:
            digest = ""
        taken[task_id] = Created(CreateKind.EXISTS, digest, State(state))
    return taken


def _refused(tx: Transaction, p: Prepared, keys: dict[str, str]) -> Created | None:
    """Why a record cannot be created, if so. `keys` are those taken earlier in this batch."""
    entry = p.entry
    if entry.unique_key is not None:
        # First: making room in a full queue for a task whose key is held would be in vain.
        holder = keys.get(entry.unique_key) or key_holder(tx, entry, p.task.definition.id)
        if holder is not None and not lapsed(entry, tx.now):
            return Created(CreateKind.KEY_HELD, holder=holder)
    config = tx.configs.get(entry.queue)
    if config is not None and config.max_size is not None and entry.ready is not None:
        queue = tx.name_id(entry.queue)
        if tx.counted(queue, State.PENDING) >= config.max_size:
            discards = config.on_full == "discard-old"
            return Created(CreateKind.FULL, oldest=_oldest(tx, queue) if discards else ())
    if entry.unique_key is not None and not lapsed(entry, tx.now):
        hold_key(tx, entry, p.task.definition.id)
        keys[entry.unique_key] = p.task.definition.id
    return None


def key_holder(tx: Transaction, entry: IndexEntry, task_id: str) -> str | None:
    """The other task that holds the record's unique key.

    A reservation is a hint, its holder's record the truth: one that is past its period, or whose
    holder is gone or does not decode, holds nothing.
    """
    row = tx.db.execute(LIFE.key_holder, (entry.unique_key,)).fetchone()
    if row is None:
        return None
    holder, until, state = row
    is_held = holder != task_id and keeps_from_others(state, until, tx.now)
    return str(holder) if is_held else None


def hold_key(tx: Transaction, entry: IndexEntry, task_id: str) -> None:
    """Reserve the record's unique key, which nobody else holds."""
    tx.db.execute(LIFE.hold_key, (entry.unique_key, task_id, entry.unique_until))


def _oldest(tx: Transaction, queue: int) -> tuple[Task, ...]:
    rows = tx.db.execute(LIFE.oldest_pending, (queue, _MOST_OFFERED)).fetchall()
    return tuple(task for (task_id,) in rows if (task := read_task(tx.db, task_id)) is not None)


def count(tx: Transaction, fresh: Sequence[Prepared]) -> None:
    """Count records that come in."""
    alike = Counter((p.entry.queue, p.entry.state, p.entry.dead_letter) for p in fresh)
    for (queue_name, state, dead), n in alike.items():
        queue = tx.name_id(queue_name)
        tx.count(queue, state, n)
        if dead:
            tx.count(queue, DEAD, n)


def _tally(tx: Transaction, fresh: Sequence[Prepared]) -> None:
    # Tasks that are submitted together mostly share their status and their entry.
    last, n = fresh[0], 0
    for p in fresh:
        if p.task.status is not last.task.status or p.entry is not last.entry:
            tx.tally([(last.entry.queue, last.task.status.events[-1])], n)
            last, n = p, 0
        n += 1
    tx.tally([(last.entry.queue, last.task.status.events[-1])], n)


def _write(tx: Transaction, fresh: Sequence[Prepared], first: int) -> None:
    tasks: list[tuple[object, ...]] = []
    ready: list[tuple[object, ...]] = []
    firsts: dict[int, Bound] = {}  # of the lanes that got something
    last: IndexEntry | None = None  # that of the task before, mostly the same
    queue = lane = level = order = 0
    partition = -1  # of the lane
    for seq, p in enumerate(fresh, first):
        entry, task_id, status, ready_entry = p.entry, p.task.id, p.task.status, p.entry.ready
        if entry is not last:
            last, queue, partition = entry, tx.name_id(entry.queue), -1
        pos = tx.add_event(seq, task_id, status.events[-1], None)
        tasks.append(
            (seq, p.partition, queue, entry.state, status.revision, entry.timer,
             entry.key, entry.group, 1 if entry.dead_letter else None, pos, p.status)
        )  # fmt: skip
        if entry.timer is not None:
            tx.hint_timer(entry.timer)
        if ready_entry is None:
            if entry.remaining:
                tx.db.execute(EDGES.start_fan_in, (task_id, entry.remaining))
        elif entry.key is not None:
            place(tx, entry, seq, p.partition)
        else:
            if p.partition != partition:
                partition = p.partition
                level, order = bound = -ready_entry.priority, ready_entry.order
                lane = lane_of(tx, tx.place(queue, partition), ready_entry.kind)
                firsts[lane] = min(firsts.get(lane, bound), bound)
                tx.hint_ready(entry.queue)
            ready.append((lane, level, order, seq, ready_entry.dead_at, ready_entry.first_limit))
    write(tx.db, LIFE.insert_task, tasks)
    write(tx.db, LANES.insert_ready, ready)
    wake(tx, firsts)
