"""Migration to schema 5: enters older records in the lists by name, once.

Only the record says which lists those are (`lifecycle.indexes.lists_of`), so every definition is
read. This is part of the migration's transaction.
"""

import sqlite3

from andon.stores.kit.listing import lists_of_rows
from andon.stores.sqlite.statements import LIFE, READING

_PAGE = 2_000


def enter_lists(db: sqlite3.Connection) -> None:
    """Enter every record in the lists that it belongs to."""
    last = 0
    while rows := db.execute(READING.definitions_after, (last, _PAGE)).fetchall():
        db.executemany(LIFE.enter_list, lists_of_rows(rows))
        last = rows[-1][0]
