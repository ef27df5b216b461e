"""The daily history: reading it, and dropping the days that are not kept any more."""

import json
import sqlite3

from andon.lifecycle.daily import day_of, first_day
from andon.model.fleet import Tallied
from andon.stores.sqlite.statements import DAILY
from andon.stores.sqlite.transaction import Transaction


def read(db: sqlite3.Connection, queue: str | None, since: int, now: int) -> list[Tallied]:
    """What was counted of a queue, or of all, from a day on."""
    if queue is None:
        return [Tallied(*row) for row in db.execute(DAILY.of_all, (since,))]
    days = json.dumps([*range(max(since, first_day(now)), day_of(now) + 1)])
    return [Tallied(*row) for row in db.execute(DAILY.of_queue, (days, queue))]


def trim(tx: Transaction, limit: int) -> None:
    """Drop up to `limit` counts of days that are not kept any more."""
    tx.db.execute(DAILY.drop, (first_day(tx.now), limit))
