"""What records made before schema 5 stand in of the lists by name, entered once.

Which lists those are is told by the record alone (`lifecycle.indexes.lists_of`), so every
definition is read. This is part of the migration's transaction.
"""

import sqlite3

from andon.stores.kit.listing import lists_of_rows
from andon.stores.sqlite.statements import LIFE, READING

_PAGE = 2_000


def enter_lists(db: sqlite3.Connection) -> None:
    """Enter every record in the lists that it stands in."""
    last = 0
    while rows := db.execute(READING.definitions_after, (last, _PAGE)).fetchall():
        db.executemany(LIFE.enter_list, lists_of_rows(rows))
        last = rows[-1][0]
