"""Plans are made once in a session, often over empty tables, and must serve when they are full."""

import re
from typing import Any

import asyncpg
import pytest
from conformance.kit import LEASE_MS, Kit, ids

from andon.contract.outcomes import ChangeKind, Verdict
from andon.contract.queries import Query
from andon.contract.requests import Renewal
from andon.lifecycle.commands import Cancel, Complete, Release
from andon.model.task import Task
from andon.model.words import WAITS_FOR_TIME, State
from andon.stores.postgres.statements import Statements

_MANY = 200
_OTHERS = 40 * _MANY
"""Far more than the entries of versions that are gone: each task here has up to five of them, read
again and again while anybody's transaction, of another test too, could still see them."""

_ENTRIES_READ = """
SELECT idx_scan, idx_tup_read FROM pg_stat_all_indexes
WHERE schemaname = $1 AND indexrelname = 'ready_pkey'
"""

_LOOKED = """
SELECT
    (SELECT sum(idx_scan) FROM pg_stat_all_indexes WHERE schemaname = $1
        AND indexrelname IN ('task_pkey', 'definition_pkey', 'definition_id_key')) AS by_key,
    (SELECT sum(idx_tup_read) FROM pg_stat_all_indexes WHERE schemaname = $1
        AND indexrelname IN ('task_pkey', 'definition_pkey', 'definition_id_key')) AS found_by_key,
    (SELECT sum(idx_scan) FROM pg_stat_all_indexes
        WHERE schemaname = $1 AND indexrelname = 'task_state') AS by_state,
    (SELECT sum(seq_tup_read) FROM pg_stat_all_tables
        WHERE schemaname = $1 AND relname IN ('task', 'definition')) AS in_passing
"""


async def _looked(db: asyncpg.Connection, sql: str, schema: str) -> dict[str, Any]:
    """What was counted so far; 0 where nothing was."""
    row = await db.fetchrow(sql, schema)
    assert row is not None
    return {name: count or 0 for name, count in row.items()}


async def _carry_through(kit: Kit, count: int) -> None:
    """Tasks that are claimed, renewed and put back, then claimed, renewed and completed."""
    await kit.submit_many(count)
    for command in (Release(), Complete(result=b"1")):
        tasks = await kit.claim(count)
        assert len(tasks) == count
        verdicts = await kit.store.renew([_renewal(task) for task in tasks])
        assert set(verdicts) == {Verdict.OK}
        told = await kit.store.commit([kit.change(task, command) for task in tasks])
        assert {changed.kind for changed in told} == {ChangeKind.APPLIED}


def _renewal(task: Task) -> Renewal:
    return Renewal(task=task.id, run=task.status.run, lease_ms=LEASE_MS)


@pytest.mark.parametrize("counted_before", [False, True], ids=["empty", "nearly empty"])
async def test_what_was_planned_over_empty_tables_goes_by_keys_when_they_are_full(
    kit: Kit, schema: str, db: asyncpg.Connection, counted_before: bool
) -> None:
    await _carry_through(kit, 4)
    if counted_before:  # and so planned again, knowing that
        for table in ("task", "definition", "ready", "edge"):
            await db.execute(f'VACUUM (ANALYZE, TRUNCATE false) "{schema}".{table}')
        await _carry_through(kit, 1)
    for _ in range(_OTHERS // _MANY):
        await kit.submit_many(_MANY, queue="other")
    await _carry_through(kit, _MANY)
    await kit.store.close()  # what a session has done is counted when it ends

    async def counted() -> bool:
        return (await _looked(db, _LOOKED, schema))["by_key"] >= 8 * _MANY

    await kit.until(counted)
    looked = await _looked(db, _LOOKED, schema)
    assert looked["by_state"] == 0
    assert looked["in_passing"] == 0
    assert looked["found_by_key"] < looked["by_key"] + _OTHERS, "all rows were read once"


async def _cancel(kit: Kit, tasks: list[Task]) -> None:
    found = [task for task in await kit.store.get([task.id for task in tasks]) if task is not None]
    told = await kit.store.commit([kit.change(task, Cancel()) for task in found])
    assert [changed.kind for changed in told] == [ChangeKind.APPLIED] * len(tasks)


async def test_what_was_planned_while_nothing_was_ready_does_not_walk_what_is_ready_later(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    await _cancel(kit, [await kit.submit(queue="other")])
    await db.execute(f'VACUUM (ANALYZE, TRUNCATE false) "{schema}".ready')
    await _cancel(kit, [await kit.submit(queue="other")])
    assert await kit.claim(queues=("other",)) == []
    before = len(await kit.submit_many(_MANY)) + len(await kit.submit_many(_MANY))
    await _cancel(kit, await kit.submit_many(_MANY // 10))
    assert await kit.claim(queues=("other",)) == []
    await kit.store.close()

    async def counted() -> bool:
        return (await _looked(db, _ENTRIES_READ, schema))["idx_scan"] > _MANY // 10

    await kit.until(counted)
    looked = await _looked(db, _ENTRIES_READ, schema)
    assert looked["idx_tup_read"] < before


_BY_STATE = """
SELECT
    (SELECT idx_scan FROM pg_stat_all_indexes
        WHERE schemaname = $1 AND indexrelname = 'task_state') AS by_state,
    (SELECT sum(idx_tup_read) FROM pg_stat_all_indexes
        WHERE schemaname = $1 AND indexrelname IN ('task_state', 'task_key')) AS found,
    (SELECT seq_tup_read FROM pg_stat_all_tables
        WHERE schemaname = $1 AND relname = 'task') AS in_passing
"""


@pytest.mark.parametrize("found_empty", [False, True])
async def test_a_first_limit_per_key_reads_what_its_queue_has_in_hand(
    kit: Kit, schema: str, db: asyncpg.Connection, found_empty: bool
) -> None:
    if found_empty:
        await db.execute(f'VACUUM (ANALYZE, TRUNCATE false) "{schema}".task')
    await kit.submit_many(_MANY, key="a")
    await kit.submit_many(_MANY, queue="other", key="a")
    assert len(await kit.claim(limit=3)) == 3
    await kit.configure(max_concurrent_per_key=4)
    admitted = await db.fetch(f'SELECT n FROM "{schema}".admitted')
    assert [row[0] for row in admitted] == [4]
    await kit.store.close()

    async def counted() -> bool:
        return (await _looked(db, _BY_STATE, schema))["by_state"] > 0

    await kit.until(counted)
    looked = await _looked(db, _BY_STATE, schema)
    assert looked["found"] < _MANY // 2, looked
    assert looked["in_passing"] == 0


async def test_lists_by_due_time_go_by_their_index(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    base = kit.store.now() + 3_600_000
    tasks = [await kit.submit(run_at=base + n) for n in range(5)]
    sql = Statements("reading", schema).by_due
    states = [state.value for state in WAITS_FOR_TIME]
    plan = await db.fetch(f"EXPLAIN {sql}", "default", states, base, 0, 100)
    told = "\n".join(row[0] for row in plan)
    assert "task_due" in told, told
    assert "ROW(" in told, told

    await kit.store.close()
    await db.execute(f'DROP INDEX "{schema}".task_due')
    again = await kit.again()  # made by an older release, it has no such index
    found = await again.find(Query(states=(State.SCHEDULED,), due_first=True))
    assert ids(found.tasks) == ids(tasks)
    assert await db.fetchval("SELECT to_regclass($1)", f'"{schema}".task_due')


_PAGES: dict[str, tuple[tuple[Any, ...], str]] = {
    "by_id_newest": (("a-", 1 << 60, 200), "definition_id_key"),
    "count_begun": (("a-", 10_001), "definition_id_key"),
    "by_list_newest": ((["failed a"], 1 << 60, 200), "listed_pkey"),
    "unsettled": ((200,), "definition_id_key"),
    "by_dead_newest": ((1 << 60, 200), "task_dead"),
    "by_state_newest": ((None, ["failed"], 1 << 60, 200), "task_state"),
    "events": ((0, 500), "event_place"),
}
"""What pages and roll-ups ask, what with, and the index that it goes by."""


@pytest.mark.parametrize("name", _PAGES)
async def test_what_pages_and_rollups_ask_can_go_by_an_index(
    kit: Kit, schema: str, db: asyncpg.Connection, name: str
) -> None:
    given, index = _PAGES[name]
    sql = getattr(Statements("reading", schema), name)
    await db.execute("SET enable_seqscan = off")  # a table this small is read whole otherwise
    plan = "\n".join(row[0] for row in await db.fetch(f"EXPLAIN {sql}", *given))
    assert index in plan, plan
    scanned = re.findall(r"Seq Scan on (\w+)", plan)
    assert not {"task", "definition", "event"} & set(scanned), plan


@pytest.mark.parametrize("table", ["ready", "task", None], ids=["ready", "task", "both"])
@pytest.mark.parametrize("room", [{}, {"a": 20}], ids=["unlimited", "limited"])
async def test_lanes_that_come_mixed_keep_their_order_where_tables_were_found_empty(
    kit: Kit, schema: str, db: asyncpg.Connection, table: str | None, room: dict[str, int]
) -> None:
    await _cancel(kit, await kit.submit_many(_MANY))
    await db.execute(f'DELETE FROM "{schema}".task')
    for one in (table,) if table else ("ready", "task"):
        await db.execute(f'VACUUM (ANALYZE, TRUNCATE false) "{schema}".{one}')
    tasks = [
        await kit.submit(name="abc"[n % 3], priority=(0, 5, -2)[n // 3 % 3]) for n in range(45)
    ]
    in_order = sorted(tasks, key=lambda task: -task.definition.priority)
    assert ids(await kit.claim(limit=50, room=room)) == ids(in_order)
