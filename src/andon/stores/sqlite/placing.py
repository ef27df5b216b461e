"""Places records in the ready order, as far as their concurrency keys admit.

A task with a concurrency key counts against the key while it is ready or active. In a queue with
`max_concurrent_per_key`, what is above that is parked outside the ready order, and promoted when
a task of the key leaves (docs/store-contract.md, 7).
"""

from collections.abc import Sequence
from typing import NamedTuple

from andon.lifecycle.effects import Effects
from andon.lifecycle.indexes import IndexEntry
from andon.stores.kit.codec import Row
from andon.stores.sqlite.lanes import lane_of, wake
from andon.stores.sqlite.statements import LANES
from andon.stores.sqlite.transaction import PARKED, Transaction

MOST_MOVED = 200
"""How many tasks one transaction parks or lets through; other writers must not wait for longer
ones."""


class Progress(NamedTuple):
    """How far a queue has come on the way to a new limit per key: first the tasks above it are
    parked, beginning with the key that has most, then those that fit are let through, key by
    key."""

    parks: bool = True
    n: int = 2**62
    key: str = ""  #: the last that is done with


def place(tx: Transaction, entry: IndexEntry, seq: int, partition: int) -> None:
    """Put a pending record in the ready order, or park it."""
    ready = entry.ready
    assert ready is not None
    queue = tx.name_id(entry.queue)
    lane = lane_of(tx, tx.place(queue, partition), ready.kind)
    level, key = -ready.priority, entry.key
    stands = (lane, level, ready.order, seq, ready.dead_at, ready.first_limit)
    if key is None:
        tx.db.execute(LANES.insert_ready, stands)
    else:
        if _limit(tx, entry.queue) is not None:
            # All of the key compete by their order for what room there is.
            tx.db.execute(
                LANES.insert_parked,
                (queue, key, level, ready.order, seq, lane, ready.dead_at, ready.first_limit),
            )
            tx.count(queue, PARKED, 1)
            promote(tx, entry.queue, key)
            return
        tx.db.execute(LANES.admit, (queue, key, 1))
        tx.db.execute(LANES.insert_keyed, (*stands, queue, key))
    wake(tx, {lane: (level, ready.order)})
    tx.hint_ready(entry.queue)


def unplace(tx: Transaction, effects: Effects, seq: int, partition: int) -> None:
    """Take a record that was pending out of the ready order, or out of the park."""
    ready, key, returns = effects.ready_out, effects.key, effects.ready_in is not None
    assert ready is not None
    queue = tx.name_id(effects.queue)
    where = tx.place(queue, partition)
    stands = (-ready.priority, ready.order, seq)
    was_ready = tx.db.execute(LANES.delete_ready, (lane_of(tx, where, ready.kind), *stands))
    if not was_ready.rowcount:
        if key is not None:
            parked = tx.db.execute(LANES.delete_parked, (queue, key, *stands))
            if parked.rowcount:
                tx.count(queue, PARKED, -1)
                return
        tx.db.execute(LANES.delete_ready_elsewhere, (where, *stands))
    if key is not None:
        leave_key(tx, effects.queue, key, returns=returns)


def leave_key(tx: Transaction, queue_name: str, key: str, *, returns: bool) -> None:
    """A task of the key is no longer ready or active: promote the first that is parked. If it
    `returns` to pending in the same step, `place` promotes, so that it keeps its own place."""
    queue = tx.name_id(queue_name)
    tx.db.execute(LANES.admit, (queue, key, -1))
    tx.db.execute(LANES.admitted_none, (queue, key))
    if not returns:
        promote(tx, queue_name, key)


def promote(tx: Transaction, queue_name: str, key: str) -> int:
    """Admit parked tasks of a key while its limit has room, and up to `MOST_MOVED`. Returns how
    many."""
    queue = tx.name_id(queue_name)
    limit = _limit(tx, queue_name)
    room = MOST_MOVED if limit is None else limit - _admitted(tx, queue, key)
    if room <= 0:
        return 0
    parked = (queue, key, min(room, MOST_MOVED))
    rows = tx.db.execute(LANES.first_parked, parked).fetchall()
    for level, order, seq, lane, dead_at, first_limit in rows:
        tx.db.execute(LANES.delete_parked, (queue, key, level, order, seq))
        ready = (lane, level, order, seq, dead_at, first_limit, queue, key)
        tx.db.execute(LANES.insert_keyed, ready)
        wake(tx, {lane: (level, order)})
    if rows:
        tx.db.execute(LANES.admit, (queue, key, len(rows)))
        tx.count(queue, PARKED, -len(rows))
        tx.hint_ready(queue_name)
    return len(rows)


def readmit(tx: Transaction, queue_name: str, progress: Progress) -> Progress | None:
    """A queue's limit per key changed: park or admit a bounded number of tasks. Returns how far
    that came; None when all is done."""
    queue = tx.name_id(queue_name)
    if progress.parks:
        return _park_surplus(tx, queue, queue_name, progress)
    return _let_through(tx, queue, queue_name, progress)


def _park_surplus(
    tx: Transaction, queue: int, queue_name: str, progress: Progress
) -> Progress | None:
    limit, moved = _limit(tx, queue_name), 0
    keys: list[tuple[int, str]] = []
    if limit is not None:
        asked = (queue, limit, progress.n, progress.key, MOST_MOVED)
        keys = tx.db.execute(LANES.keys_above, asked).fetchall()
    for n, key in keys:
        if moved >= MOST_MOVED:
            return progress
        wanted, most = n - (limit or 0), MOST_MOVED - moved
        rows = tx.db.execute(LANES.worst_ready, (queue, key, min(wanted, most))).fetchall()
        _park(tx, queue, key, rows)
        moved += len(rows)
        if wanted > most and len(rows) == most:  # more of this key; it comes again, with fewer
            return progress
        progress = Progress(n=n, key=key)
    return progress if len(keys) == MOST_MOVED else Progress(parks=False)


def _let_through(
    tx: Transaction, queue: int, queue_name: str, progress: Progress
) -> Progress | None:
    moved, done = 0, progress.key
    while moved < MOST_MOVED:
        (key,) = tx.db.execute(LANES.next_parked_key, (queue, done)).fetchone()
        if key is None:
            tx.db.execute(LANES.readmitted, (queue_name,))
            return None
        promoted = promote(tx, queue_name, key)
        moved += max(promoted, 1)  # to look at a key costs as much
        if promoted < MOST_MOVED:
            done = key
    return Progress(parks=False, key=done)


def admit_run(tx: Transaction, entry: IndexEntry) -> None:
    """A record was restored with its run in hand: it counts against its key, if it has one, and
    ready tasks of that key above the limit are parked."""
    if entry.key is None:
        return
    queue = tx.name_id(entry.queue)
    tx.db.execute(LANES.admit, (queue, entry.key, 1))
    limit = _limit(tx, entry.queue)
    surplus = 0 if limit is None else _admitted(tx, queue, entry.key) - limit
    if surplus > 0:
        worst = tx.db.execute(LANES.worst_ready, (queue, entry.key, surplus)).fetchall()
        _park(tx, queue, entry.key, worst)


def _park(tx: Transaction, queue: int, key: str, rows: Sequence[Row]) -> None:
    """Take rows of `LANES.worst_ready` out of the ready order, to wait for room under their key."""
    for lane, level, order, seq, dead_at, first_limit in rows:
        tx.db.execute(LANES.delete_ready, (lane, level, order, seq))
        tx.db.execute(
            LANES.insert_parked, (queue, key, level, order, seq, lane, dead_at, first_limit)
        )
    if rows:
        tx.db.execute(LANES.admit, (queue, key, -len(rows)))
        tx.count(queue, PARKED, len(rows))


def _limit(tx: Transaction, queue_name: str) -> int | None:
    config = tx.configs.get(queue_name)
    return None if config is None else config.max_concurrent_per_key


def _admitted(tx: Transaction, queue: int, key: str) -> int:
    row = tx.db.execute(LANES.admitted, (queue, key)).fetchone()
    return row[0] if row else 0
