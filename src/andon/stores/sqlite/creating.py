"""Creating records: idempotent by id, unique by key, bounded by queue."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from andon.lifecycle.indexes import IndexEntry, entry_of
from andon.model.task import Task
from andon.model.words import State
from andon.stores.base import SUBMIT_WINDOW_MS, Created, CreateKind
from andon.stores.codec import Undecodable, decode_definition, encode
from andon.stores.sqlite.placing import place
from andon.stores.sqlite.reading import read_task
from andon.stores.sqlite.rows import write
from andon.stores.sqlite.statements import EDGES, LIFE
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


def create(tx: Transaction, prepared: Sequence[Prepared]) -> list[Created]:
    """Write new records with their events and index entries; outcomes in order."""
    if all(_is_plain(tx, p) for p in prepared) and tx.db.execute(LIFE.any_stub).fetchone() is None:
        first = _insert_definitions(tx, prepared)
        if first is not None:
            count(tx, prepared)
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
        if holder is not None and not lapsed(tx, entry):
            return Created(CreateKind.KEY_HELD, holder=holder)
    config = tx.configs.get(entry.queue)
    if config is not None and config.max_size is not None and entry.ready is not None:
        queue = tx.name_id(entry.queue)
        if tx.counted(queue, State.PENDING) >= config.max_size:
            return Created(CreateKind.FULL, oldest=_oldest(tx, queue))
    if entry.unique_key is not None and not lapsed(tx, entry):
        hold_key(tx, entry, p.task.definition.id)
        keys[entry.unique_key] = p.task.definition.id
    return None


def lapsed(tx: Transaction, entry: IndexEntry) -> bool:
    """Whether the period for which the record's unique key holds has passed."""
    return entry.unique_until is not None and entry.unique_until <= tx.now


def key_holder(tx: Transaction, entry: IndexEntry, task_id: str) -> str | None:
    """The other task that holds the record's unique key.

    A reservation is a hint, its holder's record the truth: one that is past its period, or whose
    holder is gone or does not decode, holds nothing.
    """
    row = tx.db.execute(LIFE.key_holder, (entry.unique_key,)).fetchone()
    if row is None:
        return None
    holder, until, state = row
    lives = state is not None and state != State.UNKNOWN
    held = lives and (until is None or until > tx.now)
    return str(holder) if held and holder != task_id else None


def hold_key(tx: Transaction, entry: IndexEntry, task_id: str) -> None:
    """Reserve the record's unique key, which nobody else holds."""
    tx.db.execute(LIFE.hold_key, (entry.unique_key, task_id, entry.unique_until))


def _oldest(tx: Transaction, queue: int) -> tuple[Task, ...]:
    rows = tx.db.execute(LIFE.oldest_pending, (*tx.lanes(queue), _MOST_OFFERED)).fetchall()
    return tuple(task for (task_id,) in rows if (task := read_task(tx.db, task_id)) is not None)


def count(tx: Transaction, fresh: Sequence[Prepared]) -> None:
    """Count records that come in."""
    alike = Counter((p.entry.queue, p.entry.state, p.entry.dead_letter) for p in fresh)
    for (queue_name, state, dead), n in alike.items():
        queue = tx.name_id(queue_name)
        tx.count(queue, state, n)
        if dead:
            tx.count(queue, DEAD, n)


def _write(tx: Transaction, fresh: Sequence[Prepared], first: int) -> None:
    db = tx.db
    tasks: list[tuple[object, ...]] = []
    ready: list[tuple[object, ...]] = []
    queues: set[str] = set()  # that got something to claim
    for seq, p in enumerate(fresh, first):
        entry, task_id, status = p.entry, p.task.definition.id, p.task.status
        queue = tx.name_id(entry.queue)
        pos = tx.add_event(seq, task_id, status.events[-1], None)
        tasks.append(
            (seq, p.partition, queue, entry.state, status.revision, entry.timer,
             entry.key, entry.group, 1 if entry.dead_letter else None, pos, p.status)
        )  # fmt: skip
        if entry.timer is not None:
            tx.hint_timer(entry.timer)
        if entry.ready is not None:
            if entry.key is not None:
                place(tx, entry, seq, p.partition)
                continue
            r = entry.ready
            ready.append(
                (tx.lane(queue, p.partition), -r.priority, r.order, seq, tx.name_id(entry.name),
                 r.dead_at, r.first_limit)
            )  # fmt: skip
            queues.add(entry.queue)
        elif entry.remaining:
            db.execute(EDGES.start_fan_in, (task_id, entry.remaining))
    for name in queues:
        tx.hint_ready(name)
    write(db, LIFE.insert_task, tasks)
    write(db, LIFE.insert_ready, ready)
