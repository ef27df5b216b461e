"""Migration to version 6 of the schema: enters older records in the lists by name, once.

Only the record says which lists those are (`lifecycle.indexes.lists_of`), so every definition is
read. This is part of the migration's transaction.
"""

from typing import Any

from andon.stores.kit.listing import lists_of_rows

_PAGE = 2_000

_DEFINITIONS = """
SELECT t.seq, t.state, d.body FROM task t JOIN definition d USING (seq)
WHERE t.seq > $1 ORDER BY t.seq LIMIT $2
"""

_ENTER = """
INSERT INTO listed (list, seq) SELECT * FROM unnest($1::text[], $2::bigint[]) ON CONFLICT DO NOTHING
"""


async def enter_lists(db: Any) -> None:
    """Enter every record in the lists that it belongs to."""
    last = 0
    while rows := await db.fetch(_DEFINITIONS, last, _PAGE):
        entered = lists_of_rows(rows)
        last = rows[-1][0]
        await db.execute(_ENTER, [name for name, _ in entered], [seq for _, seq in entered])
