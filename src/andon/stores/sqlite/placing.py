"""Where a record stands in the ready order, and what its key admits.

A task with a concurrency key counts against the key while it is ready or active. In a queue with
`max_concurrent_per_key`, what is above that is parked outside the ready order, and promoted when
a task of the key leaves (store contract, rule 7).
"""

from typing import Any

from andon.lifecycle.indexes import IndexEntry
from andon.model.fleet import QueueConfig
from andon.stores.sqlite.statements import LIFE
from andon.stores.sqlite.transaction import PARKED, Transaction


def place(tx: Transaction, entry: IndexEntry, seq: int, partition: int) -> None:
    """Put a pending record in the ready order, or park it."""
    ready = entry.ready
    assert ready is not None
    queue, kind = tx.name_id(entry.queue), tx.name_id(entry.name)
    level = -ready.priority
    if entry.key is not None:
        if _limit(tx, entry.queue) is not None:
            # All of the key compete by their order for what room there is.
            tx.db.execute(
                LIFE.insert_parked,
                (queue, entry.key, level, ready.order, seq, kind, partition, ready.dead_at,
                 ready.first_limit),
            )  # fmt: skip
            tx.count(queue, PARKED, 1)
            promote(tx, entry.queue, entry.key)
            return
        tx.db.execute(LIFE.admit, (queue, entry.key, 1))
    tx.db.execute(
        LIFE.insert_ready,
        (tx.lane(queue, partition), level, ready.order, seq, kind, ready.dead_at,
         ready.first_limit),
    )  # fmt: skip
    tx.hint_ready(entry.queue)


def unplace(tx: Transaction, entry: IndexEntry, seq: int, partition: int, *, returns: bool) -> None:
    """Take a record that was pending out of the ready order, or out of the park; `returns` as in
    `leave_key`."""
    ready = entry.ready
    assert ready is not None
    queue = tx.name_id(entry.queue)
    level = -ready.priority
    place_in_lane = (tx.lane(queue, partition), level, ready.order, seq)
    was_ready = tx.db.execute(LIFE.delete_ready, place_in_lane).rowcount
    if entry.key is None:
        return
    if was_ready:
        leave_key(tx, entry.queue, entry.key, returns=returns)
    else:
        tx.db.execute(LIFE.delete_parked, (queue, entry.key, level, ready.order, seq))
        tx.count(queue, PARKED, -1)


def leave_key(tx: Transaction, queue_name: str, key: str, *, returns: bool) -> None:
    """A task of the key is no longer ready or active: promote the first that is parked. If it
    `returns` to pending in the same step, `place` promotes, so that it keeps its own place."""
    queue = tx.name_id(queue_name)
    tx.db.execute(LIFE.admit, (queue, key, -1))
    tx.db.execute(LIFE.admitted_none, (queue, key))
    if not returns:
        promote(tx, queue_name, key)


def promote(tx: Transaction, queue_name: str, key: str) -> None:
    """Admit parked tasks of a key while its limit has room."""
    queue = tx.name_id(queue_name)
    limit = _limit(tx, queue_name)
    room = 1_000_000 if limit is None else limit - _admitted(tx, queue, key)
    if room <= 0:
        return
    rows = tx.db.execute(LIFE.first_parked, (queue, key, room)).fetchall()
    for level, order, seq, kind, partition, dead_at, first_limit in rows:
        tx.db.execute(LIFE.delete_parked, (queue, key, level, order, seq))
        tx.db.execute(
            LIFE.insert_ready,
            (tx.lane(queue, partition), level, order, seq, kind, dead_at, first_limit),
        )
        tx.db.execute(LIFE.admit, (queue, key, 1))
        tx.count(queue, PARKED, -1)
    if rows:
        tx.hint_ready(queue_name)


def readmit(tx: Transaction, config: QueueConfig) -> None:
    """A queue's limit per key changed: park what is above it, promote what fits."""
    queue = tx.name_id(config.name)
    limit = config.max_concurrent_per_key
    if limit is not None:
        for row in tx.db.execute(LIFE.ready_keyed, tx.lanes(queue)).fetchall():
            if _admitted(tx, queue, row[7]) > limit:
                _park(tx, queue, row)
    for (key,) in tx.db.execute(LIFE.parked_keys, (queue,)).fetchall():
        promote(tx, config.name, key)


def admit_run(tx: Transaction, entry: IndexEntry) -> None:
    """A record came in with its run in hand: it counts against its key, if it has one, and what
    is ready of that key above the limit is parked."""
    if entry.key is None:
        return
    queue = tx.name_id(entry.queue)
    tx.db.execute(LIFE.admit, (queue, entry.key, 1))
    limit = _limit(tx, entry.queue)
    surplus = 0 if limit is None else _admitted(tx, queue, entry.key) - limit
    if surplus > 0:
        place = (*tx.lanes(queue), entry.key, surplus)
        for row in tx.db.execute(LIFE.worst_ready, place).fetchall():
            _park(tx, queue, row)


def _park(tx: Transaction, queue: int, row: tuple[Any, ...]) -> None:
    """Take a row of `LIFE.ready_keyed` out of the ready order, to wait for room under its key."""
    lane, level, order, seq, kind, dead_at, first_limit, key, partition = row
    tx.db.execute(LIFE.delete_ready, (lane, level, order, seq))
    tx.db.execute(
        LIFE.insert_parked,
        (queue, key, level, order, seq, kind, partition, dead_at, first_limit),
    )
    tx.db.execute(LIFE.admit, (queue, key, -1))
    tx.count(queue, PARKED, 1)


def _limit(tx: Transaction, queue_name: str) -> int | None:
    config = tx.configs.get(queue_name)
    return None if config is None else config.max_concurrent_per_key


def _admitted(tx: Transaction, queue: int, key: str) -> int:
    row = tx.db.execute(LIFE.admitted, (queue, key)).fetchone()
    return row[0] if row else 0
