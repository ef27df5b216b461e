"""What records made before schema 5 stand in of the lists by name, entered once.

Which lists those are is told by the record alone (`lifecycle.indexes.lists_of`). Only tasks that
may stand in one are read: those that have ended so that they may be dead letters, and those of a
group, as all tasks of a flow are. This is part of the migration's transaction.
"""

import json
import sqlite3

from andon.lifecycle.indexes import lists_of
from andon.model.words import DEAD_LETTER_STATES, State
from andon.stores.kit.codec import Undecodable, decode_definition
from andon.stores.sqlite.statements import LIFE

_PAGE = 2_000
_MAY_BE_LISTED = """
SELECT t.seq, t.state, CAST(d.body AS BLOB) FROM task t JOIN definition d USING (seq)
WHERE (t.state IN (SELECT value FROM json_each(?)) OR t."group" IS NOT NULL) AND t.seq > ?
ORDER BY t.seq LIMIT ?
"""


def enter_lists(db: sqlite3.Connection) -> None:
    """Enter every record in the lists that it stands in."""
    last = 0
    ends = json.dumps(sorted(DEAD_LETTER_STATES))
    while rows := db.execute(_MAY_BE_LISTED, (ends, last, _PAGE)).fetchall():
        entered: list[tuple[str, int]] = []
        for seq, state, body in rows:
            last = seq
            try:
                definition = decode_definition(body)
            except Undecodable:
                continue  # set aside by whoever meets it, and in no list
            entered += [(name, seq) for name in lists_of(definition, State(state))]
        db.executemany(LIFE.enter_list, entered)
