"""Takes, holds and sets timers; gives leases more time after the store was away (docs/rulings.md,
R19)."""

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.contract.outcomes import Due
from andon.model.words import State
from andon.stores.sqlite.committing import set_aside
from andon.stores.sqlite.reading import read_task_by_seq
from andon.stores.sqlite.statements import LIFE
from andon.stores.sqlite.transaction import Transaction

if TYPE_CHECKING:
    from andon.model.task import Task


def take_due(
    tx: Transaction, partition: int, limit: int, hold_ms: int, leases_wait_until: int
) -> tuple[Due, dict[str, int]]:
    """Tasks whose timer has passed, and the timers they are held at. A lease that ran out while
    the store was away waits until `leases_wait_until`."""
    held_at = tx.now + hold_ms
    tasks: list[Task] = []
    held: dict[str, int] = {}
    for seq, state, lease_until in tx.db.execute(LIFE.due, (partition, tx.now, limit)).fetchall():
        if state == State.ACTIVE and tx.now < leases_wait_until and lease_until <= tx.now:
            tx.db.execute(LIFE.set_timer, (seq, leases_wait_until))
            continue
        task = read_task_by_seq(tx.db, seq)
        if task is None:
            continue
        if task.state is State.UNKNOWN:
            set_aside(tx, seq)
            continue
        tx.db.execute(LIFE.set_timer, (seq, held_at))
        held[task.id] = held_at
        tasks.append(task)
    (next_at,) = tx.db.execute(LIFE.next_timer, (partition, tx.now)).fetchone()
    return Due(tuple(tasks), tx.now, next_at), held


def first_timer(db: sqlite3.Connection, partition: int) -> int | None:
    """The earliest timer of a partition, passed or not."""
    (first,) = db.execute(LIFE.first_timer, (partition,)).fetchone()
    return first


def rearm(
    tx: Transaction, timers: Sequence[tuple[str, int | None]], held: dict[str, int]
) -> list[None]:
    """Set timers anew, unless a move has set its own since they were taken."""
    for task_id, timer in timers:
        held_at = held.get(task_id)
        if held_at is not None:
            tx.db.execute(LIFE.rearm, (task_id, timer, held_at))
            tx.hint_timer(timer)
    return [None] * len(timers)
