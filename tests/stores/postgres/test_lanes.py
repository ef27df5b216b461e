"""Lanes by kind: what a claim reads, in which order it takes, which lanes it does not look at."""

import asyncio
from random import Random
from typing import Any

import asyncpg
import pytest
from conformance.kit import Kit, ids

from andon.contract.outcomes import CreateKind
from andon.lifecycle.commands import Cancel, Complete
from andon.model.code import Code
from andon.model.task import Task

KNOWN = Code.of([("known", 0)])

_READ = """
SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_all_indexes
WHERE schemaname = $1 AND relname = 'ready'
"""

_QUIET = 'SELECT count(*) FROM "{schema}".lane WHERE quiet = 2'


async def _entries_read(kit: Kit, db: asyncpg.Connection, schema: str) -> int:
    """How many entries were read so far, told when all sessions have ended."""
    await kit.store.close()
    own = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'andon'"

    async def told() -> bool:
        return await db.fetchval(own) == 0

    await kit.until(told)
    await db.execute("SELECT pg_stat_clear_snapshot()")
    found: int = await db.fetchval(_READ, schema)
    await kit.open()
    return found


async def _finish(kit: Kit, tasks: list[Task]) -> None:
    for task in tasks:
        await kit.move(task, Complete())


@pytest.mark.parametrize("types", [1, 40])
async def test_a_claim_reads_no_more_when_more_waits_that_it_cannot_take(
    kit: Kit, schema: str, db: asyncpg.Connection, types: int
) -> None:
    read: list[int] = []
    for _ in range(2):
        for n in range(800):
            if n % 200 == 0:
                await kit.submit_many(200, name=f"unknown{n // 200 % types}")
        await kit.submit(name="known")
        before = await _entries_read(kit, db, schema)
        for _ in range(10):
            await kit.claim(5, code=KNOWN)
            await kit.claim(5, code=None, room={f"unknown{n}": 0 for n in range(types)})
        read.append(await _entries_read(kit, db, schema) - before)
        await _finish(kit, await kit.claim(5, code=KNOWN))
    assert max(read) < 400, read


async def test_a_full_queue_and_a_paused_one_cost_no_reading(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    await kit.configure(name="paused", paused=True)
    await kit.configure(name="full", max_concurrent=1)
    for queue in ("paused", "full"):
        for _ in range(4):
            await kit.submit_many(200, queue=queue)
    assert len(await kit.claim(5, queues=("paused", "full"))) == 1
    before = await _entries_read(kit, db, schema)
    for _ in range(20):
        assert await kit.claim(5, queues=("paused", "full")) == []
    assert await _entries_read(kit, db, schema) - before < 50


@pytest.mark.parametrize("seed", range(4))
async def test_lanes_are_merged_by_level_place_and_key(kit: Kit, seed: int) -> None:
    random = Random(seed)
    names = [f"type{n}" for n in range(random.choice((2, 9, 30)))]
    order: list[tuple[int, int, int, str]] = []
    for n in range(160):
        name, priority = random.choice(names), random.choice((0, 0, 0, 3))
        task = await kit.submit(name=name, priority=priority)
        order.append((-priority, task.status.order, n, task.id))
    room = {names[0]: 3}
    seen = 0
    expected: list[str] = []
    by_id = {task_id: None for *_, task_id in order}
    for *_, task_id in sorted(order):
        task = await kit.there(task_id)
        if task.definition.name == names[0]:
            seen += 1
            if seen > room[names[0]]:
                continue
        expected.append(task_id)
    claimed = await kit.claim(7, room=room)
    room = {names[0]: 3 - sum(task.definition.name == names[0] for task in claimed)}
    claimed += await kit.claim(100, room=room)
    assert ids(claimed) == expected[: len(claimed)]
    assert len(claimed) == min(107, len(expected))
    assert set(ids(claimed)) <= by_id.keys()


async def test_claims_at_once_take_everything_from_mixed_lanes(kit: Kit) -> None:
    stores = [kit.store, await kit.again(), await kit.again()]
    tasks = [kit.record(name=f"type{n % 7}") for n in range(180)]
    await kit.create(*tasks)

    async def work(store: Any) -> list[str]:
        taken: list[str] = []
        while claimed := await kit.claim_from(store, 6):
            taken += ids(claimed)
        return taken

    taken = [i for some in await asyncio.gather(*map(work, stores * 2)) for i in some]
    assert sorted(taken) == sorted(ids(tasks))


async def _let_fall_quiet(kit: Kit, db: asyncpg.Connection, schema: str) -> None:
    """As if nothing had been there for half a minute."""

    async def is_quiet() -> bool:
        await db.execute(f'UPDATE "{schema}".lane SET busy = 1 WHERE busy > 1')
        await kit.take_due()
        return await db.fetchval(_QUIET.format(schema=schema)) > 0

    await kit.until(is_quiet)


async def test_a_lane_that_fell_quiet_is_looked_at_when_something_enters_it(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    await _finish(kit, [await kit.active()])
    await _let_fall_quiet(kit, db, schema)
    assert await kit.store.ready_kinds() == []
    task = await kit.submit()
    assert [kind.kind for kind in await kit.store.ready_kinds()] == ["job"]
    assert ids(await kit.claim()) == [task.id]


async def test_what_an_open_transaction_enters_keeps_a_lane_from_falling_quiet(
    url: str, kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    """It looked at the lane before that began to fall quiet, and commits long after."""
    await _finish(kit, [await kit.active()])
    task = kit.record()
    transaction = db.transaction()
    await transaction.start()
    joined = await kit.store.join([task])  # type: ignore[attr-defined]
    await joined.create_async(db)
    other = await asyncpg.connect(url.partition("?")[0])
    try:
        for _ in range(4):
            await other.execute(f'UPDATE "{schema}".lane SET busy = 1 WHERE busy > 1')
            await kit.pass_time(1_100)
            await kit.take_due()
        assert await other.fetchval(_QUIET.format(schema=schema)) == 0
        await transaction.commit()

        async def claimed() -> list[str]:
            await kit.take_due()
            return ids(await kit.claim())

        assert await kit.until(claimed) == [task.id]
    finally:
        await other.close()


async def test_a_new_kind_is_decided_once_and_a_list_forgotten_again(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    await kit.submit(name="unknown")
    known = await kit.submit(name="known")
    assert ids(await kit.claim(5, code=KNOWN)) == [known.id]
    decided = await db.fetch(f'SELECT may FROM "{schema}".claimable ORDER BY may')
    assert [row["may"] for row in decided] == [False, True]
    await db.execute(f'DELETE FROM "{schema}".code; DELETE FROM "{schema}".claimable')
    again = await kit.submit(name="known")
    assert ids(await kit.claim(5, code=KNOWN)) == [again.id]


async def test_a_limit_on_keys_looks_at_what_has_a_key(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    for _ in range(5):
        await kit.submit_many(200)
    await kit.submit_many(3, key="k")
    done = await kit.submit_many(3, key="l")
    for task in done:
        await kit.move(task, Cancel())
    before = await _entries_read(kit, db, schema)
    await kit.configure(max_concurrent_per_key=1)
    await kit.configure(max_concurrent_per_key=2)
    await kit.configure(max_concurrent_per_key=2, weight=3)
    assert await _entries_read(kit, db, schema) - before < 100
    assert (await kit.stats()).parked == 1


async def test_a_refusal_by_a_full_queue_reads_a_few_entries(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    await kit.configure(max_size=800)
    for _ in range(4):
        await kit.submit_many(200)
    before = await _entries_read(kit, db, schema)
    for _ in range(20):
        (created,) = await kit.create(kit.record())
        assert created.kind is CreateKind.FULL
    assert await _entries_read(kit, db, schema) - before < 20 * 2 * 10
