"""The daily history: reading it, and dropping days that are not kept."""

import sqlite3

from andon.lifecycle.daily import first_day
from andon.model.fleet import Tallied
from andon.stores.sqlite.statements import DAILY
from andon.stores.sqlite.transaction import Transaction, counted_as


def read(db: sqlite3.Connection, queue: str | None, since: int, now: int) -> list[Tallied]:
    """What was counted of a queue, or of all, from a day on."""
    first = counted_as(max(since, first_day(now)))
    rows = (
        db.execute(DAILY.of_all, (first,))
        if queue is None
        else db.execute(DAILY.of_queue, (queue, first))
    )
    return [Tallied(*row) for row in rows]


def trim(tx: Transaction, limit: int) -> None:
    """Drop up to `limit` counts of days that are not kept any more; looked for once a day."""
    first = first_day(tx.now)
    if first == tx.memory.days_from:
        return
    dropped = tx.db.execute(DAILY.drop, (counted_as(first), limit)).rowcount
    if dropped < limit:
        tx.memory.days_from = first
