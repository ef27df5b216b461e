"""Looks begin at marks, and miss nothing, not what an open transaction left behind one either."""

import time
from typing import Any

import asyncpg
import pytest
from conformance.kit import Kit

from andon import Andon
from andon.lifecycle.commands import Complete
from andon.model.words import State


async def _told(db: asyncpg.Connection, schema: str, what: str) -> Any:
    return await db.fetchval(what.format(schema=f'"{schema}"'))


async def _timers_from(db: asyncpg.Connection, schema: str) -> int:
    return await _told(db, schema, "SELECT coalesce(max(mark), 0) FROM {schema}.timekept")


async def _ready_from(db: asyncpg.Connection, schema: str) -> int:
    return await _told(db, schema, "SELECT max(mark) FROM {schema}.lane")


async def test_the_marks_follow_the_work(kit: Kit, schema: str, db: asyncpg.Connection) -> None:
    begun = kit.store.now()
    await kit.moved(await kit.active(), Complete())

    async def all_passed() -> bool:
        await kit.take_due()
        moved = await _told(
            db, schema, "SELECT value::bigint FROM {schema}.meta WHERE name = 'counts_from'"
        )
        timers, ready = await _timers_from(db, schema), await _ready_from(db, schema)
        return moved > 0 and timers > begun and ready > begun

    await kit.until(all_passed)
    assert (await kit.stats()).counts == {State.COMPLETED: 1}


async def test_a_start_that_passes_while_its_transaction_is_open_is_due_when_that_commits(
    url: str, kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    app = Andon(url)
    await kit.take_due()
    transaction = db.transaction()
    await transaction.start()
    handle = await app.submit("send", delay=0.5, connection=db)
    start = kit.store.now() + 500
    other = await asyncpg.connect(url.partition("?")[0])
    for _ in range(3):  # the mark would move on each time, but for that transaction
        await kit.pass_time(1_200)
        assert await kit.take_due() == []
    assert kit.store.now() > start + 2_000
    await transaction.commit()
    (task,) = await kit.take_due()
    assert task.id == handle.id

    async def passed() -> bool:
        await kit.take_due()
        return await _timers_from(other, schema) > start

    await kit.until(passed)  # and does, now that it is over
    await other.close()
    await app.close()


@pytest.mark.parametrize("since", [-120_000, 3_600_000], ids=["unseen", "seen"])
async def test_a_timer_that_a_clock_gone_back_set_before_the_mark_is_due(
    url: str, kit: Kit, schema: str, db: asyncpg.Connection, since: int
) -> None:
    app = Andon(url)
    await kit.take_due()
    now = kit.store.now()
    await db.execute(
        f'UPDATE "{schema}".timekept SET mark = {now + 3_590_000}, since = {now + since}'
    )
    handle = await app.submit("send", delay=0.2)

    async def due() -> list[str]:
        return [task.id for task in await kit.take_due()]

    assert await kit.until(due) == [handle.id]
    await app.close()


async def test_a_task_whose_transaction_was_open_while_others_were_claimed_is_claimed(
    url: str, kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    app = Andon(url)
    transaction = db.transaction()
    await transaction.start()
    handle = await app.submit("send", connection=db)
    submitted = kit.store.now()
    other = await asyncpg.connect(url.partition("?")[0])

    async def passed() -> bool:
        await kit.moved(await kit.active(), Complete())
        await kit.take_due()
        return await _ready_from(other, schema) > submitted

    await kit.until(passed)
    await transaction.commit()

    async def claimed() -> list[str]:
        await kit.take_due()
        return [task.id for task in await kit.claim()]

    assert await kit.until(claimed) == [handle.id]
    await other.close()
    await app.close()


async def test_counts_are_right_while_a_transaction_that_counts_stays_open(
    url: str, kit: Kit, db: asyncpg.Connection
) -> None:
    app = Andon(url)
    transaction = db.transaction()
    await transaction.start()
    await app.submit("send", connection=db)
    until = time.monotonic() + 2.5
    done = 0
    while time.monotonic() < until:
        await kit.moved(await kit.active(), Complete())
        done += 1
        await kit.take_due()
        assert (await kit.stats()).counts == {State.COMPLETED: done}
    await transaction.commit()
    await kit.take_due()
    counts = (await kit.stats()).counts
    assert counts == {State.COMPLETED: done, State.PENDING: 1}
    await app.close()


@pytest.mark.parametrize("ahead", [1_000, 10_000_000])
async def test_counts_are_folded_on_a_server_whose_transactions_have_lower_numbers(
    kit: Kit, schema: str, db: asyncpg.Connection, ahead: int
) -> None:
    """A namespace that was dumped and restored elsewhere."""
    await db.execute(
        f'UPDATE "{schema}".meta SET value = '
        f"(pg_current_xact_id()::text::bigint + {ahead})::text WHERE name = 'counts_from'"
    )
    await kit.submit()

    async def counted() -> bool:
        await kit.take_due()
        return (await kit.stats()).counts == {State.PENDING: 1}

    await kit.until(counted)
