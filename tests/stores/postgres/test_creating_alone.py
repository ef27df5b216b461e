"""One plain record is created by a call of its own, and leaves what one in a batch leaves."""

from typing import Any

import asyncpg
import msgspec
import pytest
from conformance.kit import Kit

from andon.model.task import Task
from andon.stores.base import CreateKind

from .conftest import TellOfStatements

_ROWS = """
SELECT d.body IS NOT NULL, k.partition, k.queue, k.kind, k.revision, k.created, k.timer, k.fence,
    k.prev, k.claimed_at, k.lease_until, k.heartbeat_at, k.progress, k.dead, k.asked, k.state,
    k.key, k."group", k.run, k.worker, k.token, k.message, length(k.body), k.last = e.place, e.prev,
    e.revision, e.run_no, e.task, e.source, e.worker, e.run, length(e.body), r.lane, r.kind, r.ord,
    r.dead_at, r.first_limit, r.run_no, r.frees
FROM {schema}.definition d JOIN {schema}.task k USING (seq) JOIN {schema}.event e USING (seq)
LEFT JOIN {schema}.ready r USING (seq) WHERE d.id = $1
"""

_COUNTED = "SELECT queue, state, sum(n) FROM {schema}.delta GROUP BY 1, 2 ORDER BY 1, 2"

HOUR_MS = 3_600_000


def renamed(task: Task, name: str) -> Task:
    """The same record with another id."""
    definition = msgspec.structs.replace(task.definition, id=name)
    return msgspec.structs.replace(task, definition=definition)


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ({}, "create_alike"),
        ({}, "create_tasks"),
        ({"priority": 3, "group": "a group"}, "create_alike"),
        ({"priority": 3, "group": "a group"}, "create_tasks"),
        ({"run_at": HOUR_MS}, "create_tasks"),
        ({"deadline": HOUR_MS}, "create_tasks"),
    ],
    ids=[
        "pending, alike",
        "pending",
        "with a priority and a group, alike",
        "with a priority and a group",
        "scheduled",
        "with a deadline",
    ],
)
async def test_a_record_created_alone_leaves_what_it_leaves_in_a_batch(
    kit: Kit,
    schema: str,
    db: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    *,
    tell_of_statements: TellOfStatements,
    given: dict[str, Any],
    call: str,
) -> None:
    if call == "create_tasks":
        monkeypatch.setattr("andon.stores.postgres.alike.are_alike", lambda *_: False)
    times = {name: kit.store.now() + HOUR_MS for name in given if given[name] == HOUR_MS}
    first = kit.record("first", **{**given, **times})
    records = [first, *(renamed(first, name) for name in ("other", "third"))]
    sent: list[str] = []
    tell_of_statements(sent.append)
    assert [c.kind for c in await kit.store.create(records[:1])] == [CreateKind.CREATED]
    assert any("create_one" in sql for sql in sent)
    assert not any(call in sql for sql in sent)
    counted = await db.fetch(_COUNTED.format(schema=schema))
    await kit.store.create(records[1:])
    assert any(call in sql for sql in sent)
    rows = [await db.fetch(_ROWS.format(schema=schema), record.id) for record in records]
    assert [len(found) for found in rows] == [1, 1, 1]
    assert rows[1] == rows[0]
    assert rows[2] == rows[0]
    threefold = [(queue, state, 3 * n) for queue, state, n in counted]
    assert [tuple(row) for row in await db.fetch(_COUNTED.format(schema=schema))] == threefold
