"""Migration to version 2 of the schema: sorts ready tasks into lanes by kind.

Only the record says its kind, so each is read, once. This is part of the migration's transaction,
during which no other process can create or claim.
"""

from typing import Any

from andon.lifecycle.indexes import entry_of
from andon.lifecycle.routing import Kind, name_of_kind
from andon.stores.kit.codec import task_of_row

_PAGE = 2_000

_ANYBODYS = str(Kind("", is_open=True))
"""For a record that does not decode: the claim that reads it sets it aside (docs/rulings.md,
R28)."""

_READ = """
SELECT r.*, u.queue AS of_queue, u.partition, u.level FROM (
    SELECT * FROM unsorted WHERE seq > $1 ORDER BY seq LIMIT $2
) u JOIN task_record r ON r.seq = u.seq ORDER BY u.seq
"""


_ENTER = """
WITH u AS (
    SELECT u.*, s.lane FROM unnest($1::bigint[], $2::integer[]) s (seq, lane)
    JOIN unsorted u USING (seq)
), enter AS (
    INSERT INTO ready (lane, ord, seq, dead_at, first_limit, run_no, frees, key)
    SELECT u.lane, u.ord, u.seq, u.dead_at, u.first_limit, u.run_no, u.frees, u.key
    FROM u WHERE NOT u.is_parked
)
INSERT INTO parked (queue, key, level, ord, seq, lane, dead_at, first_limit, run_no, frees)
SELECT u.queue, u.key, u.level, u.ord, u.seq, u.lane, u.dead_at, u.first_limit, u.run_no, u.frees
FROM u WHERE u.is_parked
"""


async def sort_by_kind(db: Any) -> None:
    """Enter every unsorted task in its lane."""
    last = 0
    while rows := await db.fetch(_READ, last, _PAGE):
        places = [(row["of_queue"], row["partition"], row["level"], _kind(row)) for row in rows]
        lanes = await _lanes(db, sorted(set(places)))
        await db.execute(_ENTER, [row["seq"] for row in rows], [lanes[place] for place in places])
        last = rows[-1]["seq"]
    await db.execute("DROP TABLE unsorted")


def _kind(row: Any) -> str:
    ready = entry_of(task_of_row(row)).ready
    return _ANYBODYS if ready is None else ready.kind


async def _lanes(db: Any, places: list[tuple[int, int, int, str]]) -> dict[tuple[Any, ...], int]:
    queues, partitions, levels, kinds = (list(column) for column in zip(*places, strict=True))
    types = [name_of_kind(kind) for kind in kinds]
    named = await db.fetch("SELECT id, name FROM name_ids($1)", sorted({*kinds, *types}))
    ids = {row["name"]: row["id"] for row in named}
    numbers = [[ids[name] for name in names] for names in (kinds, types)]
    rows = await db.fetch(
        "SELECT l.id, l.queue, l.partition, l.level, k.name FROM lane_ids($1, $2, $3, $4, $5) l "
        "JOIN name k ON k.id = l.kind",
        queues,
        partitions,
        levels,
        *numbers,
    )
    return {tuple(row)[1:]: row[0] for row in rows}
