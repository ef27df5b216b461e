"""What records made before schema 5 stand in of the lists by name, entered once.

Which lists those are is told by the record alone (`lifecycle.indexes.lists_of`), so every
definition is read. This is part of the migration's transaction.
"""

import sqlite3

from andon.lifecycle.indexes import lists_of
from andon.model.words import State
from andon.stores.kit.codec import Undecodable, decode_definition
from andon.stores.sqlite.statements import LIFE, READING

_PAGE = 2_000


def enter_lists(db: sqlite3.Connection) -> None:
    """Enter every record in the lists that it stands in."""
    last = 0
    while rows := db.execute(READING.definitions_after, (last, _PAGE)).fetchall():
        entered: list[tuple[str, int]] = []
        for seq, state, body in rows:
            last = seq
            try:
                definition = decode_definition(body)
            except Undecodable:
                continue  # set aside by whoever meets it, and in no list
            entered += [(name, seq) for name in lists_of(definition, State(state))]
        db.executemany(LIFE.enter_list, entered)
