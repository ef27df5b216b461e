"""Creates records: idempotent by id, unique by key, bounded by queue."""

import json
import sqlite3
from collections.abc import Sequence
from itertools import chain

import msgspec

from andon.contract.notes import PutNote
from andon.contract.outcomes import CREATED, Created, CreateKind
from andon.lifecycle.batches import NewTasks, alike
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.lifecycle.daily import day_of
from andon.lifecycle.effects import Effects
from andon.lifecycle.unique import keeps_from_others
from andon.model.task import Task
from andon.model.words import State
from andon.stores.kit.codec import Undecodable, decode_definition, encode
from andon.stores.kit.partitions import partitions_of
from andon.stores.sqlite import notes
from andon.stores.sqlite.lanes import Bound, lane_of, wake
from andon.stores.sqlite.placing import place
from andon.stores.sqlite.reading import read_task
from andon.stores.sqlite.rows import write
from andon.stores.sqlite.statements import EDGES, LANES, LIFE
from andon.stores.sqlite.transaction import DEAD, Transaction

_NOTE_CHANGED = Created(CreateKind.NOTE_CHANGED)
_MOST_OFFERED = 8
"""How many of the oldest tasks a full queue names, for `discard-old` to evict."""


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """Tasks that begin alike, encoded before the transaction begins."""

    batch: NewTasks
    status: bytes
    ids: Sequence[str]
    partitions: Sequence[int]
    definitions: Sequence[bytes]

    def only(self, places: Sequence[int]) -> "Prepared":
        """The part of it at some places."""
        batch = self.batch
        return Prepared(
            NewTasks(batch.status, batch.effects, [batch.tasks[i] for i in places]),
            self.status,
            [self.ids[i] for i in places],
            [self.partitions[i] for i in places],
            [self.definitions[i] for i in places],
        )


def prepare(tasks: Sequence[Task], partitions: int) -> list[Prepared]:
    """Encode records outside the transaction; shared parts only once."""
    prepared: list[Prepared] = []
    for batch in alike(tasks):
        ids = [task.definition.id for task in batch.tasks]
        definitions = [encode(task.definition) for task in batch.tasks]
        places = partitions_of(ids, partitions)
        prepared.append(Prepared(batch, encode(batch.status), ids, places, definitions))
    return prepared


def create(tx: Transaction, prepared: Sequence[Prepared]) -> list[Created]:
    """Write new records with their events and index entries; outcomes in order."""
    if not tx.any_tombstone() and not _may_be_refused(tx, prepared) and _create_new(tx, prepared):
        return [CREATED] * sum(len(p.batch.tasks) for p in prepared)
    return _create_each(tx, prepared)


def _create_new(tx: Transaction, prepared: Sequence[Prepared]) -> bool:
    """Write records that nothing but their ids can keep from being created; False, and nothing
    written, if an id is taken."""
    first = _insert_definitions(tx, prepared)
    if first is None:
        return False
    for p in prepared:
        count(tx, p.batch.effects, len(p.batch.tasks))
    _write(tx, prepared, first)
    return True


def create_together(tx: Transaction, prepared: Sequence[Prepared]) -> bool:
    """Write new records as `create` does, but all of them or none; whether they were written."""
    if _may_be_refused(tx, prepared):
        return False
    if tx.any_tombstone() and already_there(tx, [i for p in prepared for i in p.ids]):
        return False
    return _create_new(tx, prepared)


def create_with_notes(
    tx: Transaction, puts: Sequence[PutNote], prepared: Sequence[Prepared]
) -> list[Created]:
    """Write notes, and each record whose note was the one that was decided on; outcomes in
    order."""
    kept = notes.put_in_order(tx, puts)
    if all(kept):
        return create(tx, prepared)
    in_turn = iter(kept)
    found = [[next(in_turn) for _ in p.batch.tasks] for p in prepared]
    allowed = [
        p.only([place for place, is_kept in enumerate(of_batch) if is_kept])
        for p, of_batch in zip(prepared, found, strict=True)
        if any(of_batch)
    ]
    outcomes = iter(create(tx, allowed) if allowed else ())
    return [next(outcomes) if is_kept else _NOTE_CHANGED for is_kept in kept]


def _may_be_refused(tx: Transaction, prepared: Sequence[Prepared]) -> bool:
    """Whether more than an id can be taken. The fast path reads nothing before it writes; the
    unique index shows which ids exist."""
    for p in prepared:
        effects = p.batch.effects
        if effects.takes_key is not None:
            return True
        config = tx.configs.get(effects.queue)
        if config is not None and config.max_size is not None and effects.ready_in is not None:
            return True
    return False


def _insert_definitions(tx: Transaction, fresh: Sequence[Prepared]) -> int | None:
    """Write the definitions; the first of their keys, or None, nothing written, if an id is
    taken."""
    ids = [task_id for p in fresh for task_id in p.ids]
    first = tx.take_seqs(len(ids))
    bodies = chain.from_iterable(p.definitions for p in fresh)
    rows = list(zip(range(first, first + len(ids)), ids, bodies, strict=True))
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
        first = None
    # Not after another error: SQLite may have rolled back all, and the error would be that of this.
    tx.db.execute("RELEASE definitions")
    return first


def _create_each(tx: Transaction, prepared: Sequence[Prepared]) -> list[Created]:
    """Look up taken ids and keys first, and write the rest."""
    taken = already_there(tx, [task.id for p in prepared for task in p.batch.tasks])
    outcomes: list[Created] = []
    fresh: list[Prepared] = []
    keys: dict[str, str] = {}
    for p in prepared:
        effects = p.batch.effects
        written: list[int] = []
        for at, task in enumerate(p.batch.tasks):
            definition = task.definition
            outcome = taken.get(definition.id) or _refused(tx, effects, definition.id, keys)
            if outcome is None:
                outcome = CREATED
                written.append(at)
                taken[definition.id] = Created(
                    CreateKind.EXISTS, definition.digest, task.status.state
                )
                count(tx, effects, 1)
            outcomes.append(outcome)
        if written:
            fresh.append(p.only(written))
    if fresh:
        first = _insert_definitions(tx, fresh)
        assert first is not None, "nobody else writes, and these ids were free"
        _write(tx, fresh, first)
    return outcomes


def already_there(tx: Transaction, wanted: Sequence[str]) -> dict[str, Created]:
    """Ids that exist already, or did until a moment ago (docs/rulings.md, R31)."""
    ids = json.dumps(wanted)
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


def _refused(
    tx: Transaction, effects: Effects, task_id: str, keys: dict[str, str]
) -> Created | None:
    """Why a record cannot be created; None if it can. `keys` are those taken earlier in this
    batch."""
    key = effects.key_to_reserve(tx.now)
    if key is not None:
        # The key first: room made in a full queue for a task whose key is held would be wasted.
        holder = keys.get(key) or key_holder(tx, key, task_id, effects.heir_of)
        if holder is not None:
            return Created(CreateKind.KEY_HELD, holder=holder)
    config = tx.configs.get(effects.queue)
    if config is not None and config.max_size is not None and effects.ready_in is not None:
        queue = tx.name_id(effects.queue)
        if tx.counted(queue, State.PENDING) >= config.max_size:
            discards = config.on_full == "discard-old"
            return Created(CreateKind.FULL, oldest=_oldest(tx, queue) if discards else ())
    if key is not None:
        hold_key(tx, key, task_id, effects)
        keys[key] = task_id
    return None


def key_holder(tx: Transaction, key: str, task_id: str, heir_of: str = "") -> str | None:
    """The task that keeps this one from a unique key: neither itself nor the one it supersedes.

    A reservation is a hint, its holder's record decides: one that is past its period, or whose
    holder is deleted or does not decode, holds nothing.
    """
    row = tx.db.execute(LIFE.key_holder, (key,)).fetchone()
    if row is None:
        return None
    holder, until, state = row
    is_held = holder not in (task_id, heir_of) and keeps_from_others(state, until, tx.now)
    return str(holder) if is_held else None


def hold_key(tx: Transaction, key: str, task_id: str, effects: Effects) -> None:
    """Reserve a unique key, which no other task holds, for as long as these effects say."""
    assert effects.entry is not None
    tx.db.execute(LIFE.hold_key, (key, task_id, effects.entry.unique_until))


def _oldest(tx: Transaction, queue: int) -> tuple[Task, ...]:
    rows = tx.db.execute(LIFE.oldest_pending, (queue, _MOST_OFFERED)).fetchall()
    return tuple(task for (task_id,) in rows if (task := read_task(tx.db, task_id)) is not None)


def count(tx: Transaction, effects: Effects, n: int) -> None:
    """Add so many records to the counts, by the states that they enter."""
    assert effects.state is not None
    queue = tx.name_id(effects.queue)
    tx.count(queue, effects.state, n)
    if effects.dead_letter_in:
        tx.count(queue, DEAD, n)


def _write(tx: Transaction, fresh: Sequence[Prepared], first: int) -> None:
    rows = _Rows()
    for p in fresh:
        _add_rows(tx, p, first, rows)
        first += len(p.batch.tasks)
    write(tx.db, LIFE.insert_task, rows.tasks)
    write(tx.db, LANES.insert_ready, rows.ready)
    if rows.lists:
        write(tx.db, LIFE.enter_list, rows.lists)
    wake(tx, rows.firsts)


class _Rows:
    """The rows collected from all batches, to be written at once."""

    def __init__(self) -> None:
        self.tasks: list[tuple[object, ...]] = []
        self.ready: list[tuple[object, ...]] = []
        self.lists: list[tuple[str, int]] = []
        self.firsts: dict[int, Bound] = {}  #: of the lanes that got tasks


def _add_rows(tx: Transaction, p: Prepared, first: int, rows: _Rows) -> None:
    """Add the rows of tasks that begin alike, the first of them under the record key `first`."""
    batch, body = p.batch, p.status
    effects, entry, status = batch.effects, batch.entry, batch.status
    queue, ready_in, event = tx.name_id(entry.queue), effects.ready_in, status.events[-1]
    state, revision, timer, key, group = (
        entry.state, status.revision, entry.timer, entry.key, entry.group,
    )  # fmt: skip
    dead = 1 if entry.dead_letter else None
    tx.tally(queue, day_of(event.at), effects.tally, len(batch.tasks))
    tx.hint_timer(timer)
    seqs = range(first, first + len(p.ids))
    positions = tx.begin_events(seqs, p.ids, event)
    rows.tasks += [
        (seq, partition, queue, state, revision, timer, key, group, dead, pos, body)
        for seq, partition, pos in zip(seqs, p.partitions, positions, strict=True)
    ]
    if entry.lists:
        rows.lists += [(name, seq) for seq in seqs for name in entry.lists]
    if ready_in is None:
        if entry.remaining:
            fan_in = [(task_id, entry.remaining, entry.spare) for task_id in p.ids]
            write(tx.db, EDGES.start_fan_in, fan_in)
    elif key is not None:
        for seq, partition in zip(seqs, p.partitions, strict=True):
            place(tx, entry, seq, partition)
    else:
        lanes = {
            partition: lane_of(tx, tx.place(queue, partition), ready_in.kind)
            for partition in dict.fromkeys(p.partitions)
        }
        level, order = -ready_in.priority, ready_in.order
        dead_at, first_limit = ready_in.dead_at, ready_in.first_limit
        rows.ready += [
            (lanes[partition], level, order, seq, dead_at, first_limit)
            for seq, partition in zip(seqs, p.partitions, strict=True)
        ]
        for lane in lanes.values():
            rows.firsts[lane] = min(rows.firsts.get(lane, (level, order)), (level, order))
        tx.hint_ready(entry.queue)
