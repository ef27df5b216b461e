"""Claims that stand on PostgreSQL: what is left in its tables, and who counts as gone."""

import asyncio
from typing import Any

import asyncpg
import msgspec
import pytest
from conformance.kit import Kit, ids
from conformance.test_parked_claims import Stander, StillTime, begin, nobody_repeats, other_beside

from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Complete
from andon.model.words import State
from andon.stores.postgres import PostgresStore

from .conftest import TellOfStatements

_ROWS = """
SELECT d.body IS NOT NULL, k.partition, k.queue, k.revision, k.created, k.timer, k.fence,
    k.claimed_at, k.lease_until, k.heartbeat_at, k.progress, k.dead, k.asked, k.state, k.key,
    k."group", k.worker, k.message, length(k.body), length(k.run), k.token = c.token, k.run,
    c.seqs = ARRAY[k.seq], k.last = e.place, k.prev = e.prev, f.place = e.prev,
    e.revision, e.run_no, e.task = d.id, e.source, e.worker, e.run = k.run, e.body, e.at,
    e.pos - f.pos, f.revision, f.run_no, f.task, f.source, f.worker, f.run, length(f.body),
    f.prev, f.at,
    (SELECT count(*) FROM {schema}.ready r WHERE r.seq = k.seq)
FROM {schema}.definition d JOIN {schema}.task k USING (seq)
JOIN {schema}.event e ON e.seq = k.seq AND e.place = k.last
JOIN {schema}.event f ON f.seq = k.seq AND f.place = e.prev
JOIN {schema}.claim c ON c.token = k.token WHERE d.id = $1
"""

_COUNTED = """
SELECT queue, x.state, sum(x.n) FROM {schema}.delta d
CROSS JOIN LATERAL (VALUES (d.state, d.n), (d.was, -d.n)) x (state, n)
WHERE x.state IS NOT NULL GROUP BY 1, 2 HAVING sum(x.n) <> 0 ORDER BY 1, 2
"""

_ANY_STANDS = "SELECT count(*) FROM {schema}.standing WHERE until > 0"

_EARS = """
SELECT a.pid FROM pg_stat_activity a JOIN pg_locks l USING (pid), {schema}.standing s
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.classid::bigint << 32 | l.objid::bigint = s.ear
"""


@pytest.mark.parametrize("policy", [{}, {"timeout": 9.0}])
async def test_a_task_handed_over_leaves_what_a_task_created_and_claimed_leaves(
    url: str, schema: str, db: asyncpg.Connection, policy: dict[str, float]
) -> None:
    kit = Kit(StillTime(url, PostgresStore))
    await kit.open()
    try:
        stander = await begin(kit)
        counted = _COUNTED.format(schema=schema)
        found: list[list[tuple[Any, ...]]] = []
        counts: list[list[asyncpg.Record]] = [await db.fetch(counted)]
        for handed in (False, True):
            request = stander.request(token=f"token-of-{handed:d}")
            if handed:
                assert await kit.store.claim(request) == []
            task = await kit.submit(f"task-of-{handed:d}", policy=policy, group="a group")
            if handed:
                run = await stander.handed()
            else:
                (run,) = await kit.store.claim(request)
            rows = await db.fetch(_ROWS.format(schema=schema), task.id)
            found.append([tuple(v for v in row if v != run.status.run) for row in rows])
            counts.append(await db.fetch(counted))
            await kit.moved(run, Complete())
        assert len(found[0]) == 1
        assert found[0] == found[1]
        active = [[n for _, state, n in rows if state == "active"] for rows in counts]
        assert active == [[], [1], [1]]
    finally:
        await kit.close()


async def test_a_task_handed_over_is_sent_and_told_of_in_one_call(
    kit: Kit, tell_of_statements: TellOfStatements
) -> None:
    stander = await begin(kit)
    await stander.stand()
    sent: list[str] = []
    tell_of_statements(sent.append)
    task = await kit.store.create([kit.record()])
    run = await stander.handed()
    assert task
    assert ["create_and_tell" in sql for sql in sent] == [True]
    await kit.moved(run, Complete())


async def test_a_worker_whose_listening_session_has_ended_gets_nothing(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    await begin(kit)
    other = await other_beside(kit)
    await other.stand()
    (ear,) = [row["pid"] for row in await db.fetch(_EARS.format(schema=schema))]
    await db.execute("SELECT pg_terminate_backend($1)", ear)

    async def has_ended() -> bool:
        return not await db.fetch("SELECT FROM pg_stat_activity WHERE pid = $1", ear)

    await kit.until(has_ended)
    task = await kit.submit()
    assert await kit.state(task.id) is State.PENDING
    await other.store.claim(other.request(parks=False))
    await other.begin("default")  # it hears again, by another session


async def test_a_claim_stands_only_while_its_process_hears(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    await kit.submit()
    stander = Stander(kit, kit.store, "stander")
    (task,) = await kit.claim()
    await kit.moved(task, Complete())
    other = await kit.again()
    assert await other.claim(stander.request()) == []  # nobody takes anything there
    assert await db.fetchval(_ANY_STANDS.format(schema=schema)) == 0


async def test_a_claim_that_nobody_repeats_falls(url: str) -> None:
    await nobody_repeats(StillTime(url, PostgresStore))


async def test_who_repeats_a_claim_waits_for_what_is_being_handed_over_to_it(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    stander = await begin(kit)
    request = await stander.stand()
    stander.takes(False)
    # The create stops in its transaction, with the run in its hands, where it must wait.
    async with db.transaction():
        await db.execute(f"LOCK TABLE {schema}.delta IN EXCLUSIVE MODE")
        creates = asyncio.ensure_future(kit.store.create([kit.record("held")]))
        await kit.until(lambda: waits_for(db, schema, "delta"))
        claims = asyncio.ensure_future(stander.store.claim(request))
        await kit.until(lambda: waits_for_a_name(db))
        assert not claims.done()
    await creates
    assert ids(await claims) == ["held"]


async def waits_for(db: asyncpg.Connection, schema: str, table: str) -> bool:
    found = await db.fetch(
        "SELECT FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass",
        f"{schema}.{table}",
    )
    return bool(found)


async def waits_for_a_name(db: asyncpg.Connection) -> bool:
    found = await db.fetch("SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory'")
    return bool(found)


async def test_a_create_does_not_wait_for_a_claim_that_is_being_repeated(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    stander = await begin(kit)
    request = await stander.stand()
    async with db.transaction():
        await db.execute(
            "SELECT pg_advisory_xact_lock(held) FROM " + schema + ".standing WHERE token = $1",
            request.token,
        )
        task = await kit.submit()
        assert await kit.state(task.id) is State.PENDING
    assert ids(await stander.store.claim(request)) == [task.id]


def lose_one(tell_of_statements: TellOfStatements, call: str) -> list[str]:
    """The next reply to that call is lost; what was lost."""
    lost: list[str] = []

    def lose(sql: str) -> None:
        if call in sql and not lost:
            lost.append(sql)
            raise ConnectionResetError

    tell_of_statements(lose)
    return lost


async def test_a_standing_claim_survives_a_reply_that_is_lost(
    kit: Kit, tell_of_statements: TellOfStatements
) -> None:
    stander = await begin(kit)
    lost = lose_one(tell_of_statements, "claim_tasks")
    await stander.stand()
    assert lost
    task = await kit.submit()
    assert (await stander.handed()).id == task.id


async def test_a_submit_whose_reply_is_lost_hands_over_once(
    kit: Kit, tell_of_statements: TellOfStatements
) -> None:
    stander = await begin(kit)
    await stander.stand()
    lost = lose_one(tell_of_statements, "create_and_tell")
    record = kit.record()
    await kit.store.create([record])
    assert lost
    run = await stander.handed()
    assert run.id == record.id
    assert not stander.taken
    assert len((await kit.store.history(record.id)).events) == 2


async def test_many_creates_at_once_hand_one_task_over(kit: Kit) -> None:
    stander = await begin(kit)
    others = [await kit.again() for _ in range(3)]
    for _ in range(10):
        request = await stander.stand()
        records = [kit.record() for _ in others]
        await asyncio.gather(*(store.create([r]) for store, r in zip(others, records, strict=True)))
        states = [await kit.state(record.id) for record in records]
        assert states.count(State.ACTIVE) <= 1
        again = msgspec.structs.replace(request, parks=False)
        runs = await stander.store.claim(again) or [await stander.handed()]
        runs += await kit.claim(limit=10)
        assert sorted(ids(runs)) == sorted(record.id for record in records)
        stander.taken.clear()
        for run in runs:
            await kit.moved(run, Complete())


async def test_claims_stand_only_with_one_partition_and_without_a_pooler(url: str) -> None:
    for option, stands in (("partitions=2", False), ("pgbouncer=true", False), ("pool=2", True)):
        store = PostgresStore(f"{url}_{option[:4]}&{option}")
        await store.open()
        assert store.parks_claims is stands
        assert LocalEngine(store).parks_claims is stands
        await store.close()
