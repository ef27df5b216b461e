"""The store's time when the server's clock is set back: it goes on, for everybody."""

import asyncpg
from conformance.kit import Kit

from andon.model.words import State

HOUR = 3_600_000


async def _set_back(db: asyncpg.Connection, schema: str, by: int) -> None:
    """Set the clock that the store reads back by so many ms."""
    await db.execute(
        f'CREATE OR REPLACE FUNCTION "{schema}".server_clock() RETURNS bigint LANGUAGE sql '
        f"VOLATILE AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - {by}'"
    )


async def _offset(db: asyncpg.Connection, schema: str) -> int:
    return await db.fetchval(f'SELECT "{schema}".clock_offset()')


async def _kept(kit: Kit, db: asyncpg.Connection, schema: str) -> None:
    """Wait until a timekeeper has made up for it."""

    async def is_kept() -> bool:
        await kit.take_due()
        return await _offset(db, schema) > 0

    await kit.until(is_kept)


async def test_time_goes_on_for_everybody_when_the_servers_clock_is_set_back(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    before = kit.store.now() - 1_000  # as far as it may be ahead of what the server told last
    await _set_back(db, schema, HOUR)
    await _kept(kit, db, schema)
    assert HOUR - 5_000 < await _offset(db, schema) < HOUR + 5_000
    told = [await db.fetchval(f'SELECT "{schema}".store_time(0)') for _ in range(2)]
    assert told[0] >= before, "also whoever was told nothing yet gets no earlier time"
    await kit.pass_time(50)
    assert await db.fetchval(f'SELECT "{schema}".store_time(0)') >= told[1] + 40, "it goes on"
    newcomer = await kit.again()
    assert newcomer.now() >= before


async def test_timers_fire_though_the_servers_clock_was_set_back(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    task = await kit.submit(run_at=kit.store.now() + 1_500)
    await _set_back(db, schema, HOUR)
    assert (await kit.due(task.id)).state is State.SCHEDULED


async def test_of_several_who_see_it_one_makes_up_for_it(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    stores = [kit.store, await kit.again(), await kit.again()]
    await kit.take_due()
    await _set_back(db, schema, HOUR)
    for _ in range(3):
        for store in stores:
            await store.take_due(0, 10, 1_000)
        await kit.pass_time(400)
    await _kept(kit, db, schema)
    assert await _offset(db, schema) < HOUR + 5_000
    await _set_back(db, schema, 3 * HOUR)  # and again, by two more

    async def is_kept() -> bool:
        await kit.take_due()
        return await _offset(db, schema) > 2 * HOUR

    await kit.until(is_kept)
    assert 3 * HOUR - 9_000 < await _offset(db, schema) < 3 * HOUR + 5_000


async def test_who_begins_when_it_was_set_back_goes_by_what_was_noted(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    await kit.take_due()
    before = kit.store.now()
    await kit.store.close()
    await _set_back(db, schema, HOUR)
    store = await kit.replace()
    await _kept(kit, db, schema)
    assert store.now() >= before - 5_000
