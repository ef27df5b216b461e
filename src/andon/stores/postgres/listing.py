"""What records made before version 6 of the schema stand in of the lists by name, entered once.

Which lists those are is told by the record alone (`lifecycle.indexes.lists_of`). Only tasks that
may stand in one are read: those that have ended so that they may be dead letters, and those of a
group, as all tasks of a flow are. This is part of the migration's transaction.
"""

from typing import Any

from andon.lifecycle.indexes import lists_of
from andon.model.words import DEAD_LETTER_STATES, State
from andon.stores.kit.codec import Undecodable, decode_definition

_PAGE = 2_000

_MAY_BE_LISTED = """
SELECT t.seq, t.state, d.body FROM task t JOIN definition d USING (seq)
WHERE (t.state = ANY ($1) OR t."group" IS NOT NULL) AND t.seq > $2 ORDER BY t.seq LIMIT $3
"""

_ENTER = """
INSERT INTO listed (list, seq) SELECT * FROM unnest($1::text[], $2::bigint[]) ON CONFLICT DO NOTHING
"""


async def enter_lists(db: Any) -> None:
    """Enter every record in the lists that it stands in."""
    last = 0
    ends = [state.value for state in DEAD_LETTER_STATES]
    while rows := await db.fetch(_MAY_BE_LISTED, ends, last, _PAGE):
        entered: list[tuple[str, int]] = []
        for seq, state, body in rows:
            last = seq
            try:
                definition = decode_definition(body)
            except Undecodable:
                continue  # set aside by whoever meets it, and in no list
            entered += [(name, seq) for name in lists_of(definition, State(state))]
        await db.execute(_ENTER, [name for name, _ in entered], [seq for _, seq in entered])
