"""The event log's horizon: what may still appear is not passed by."""

import asyncpg
import pytest
from conformance.kit import PATIENCE_S, Kit

from andon import Andon
from andon.contract.topics import ready_topic


async def test_events_of_a_transaction_that_ends_late_are_not_lost(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    """Somebody's transaction got its place in the log first, and commits last."""
    late = kit.record()
    await kit.submit("before")
    cursor = (await kit.read_events("")).cursor
    transaction = db.transaction()
    await transaction.start()
    await db.execute(
        f"INSERT INTO {schema}.event (place, pos, seq, at, task, source, revision) "
        f"VALUES ({schema}.place_of(0), nextval('{schema}.event_pos'), 0, 0, $1, 'pending', 1)",
        late.id,
    )
    await kit.submit("after")
    held = await kit.store.events(cursor)
    assert [event.task for event in held.events] == []
    await transaction.commit()
    page = await kit.read_events(cursor)
    assert [event.task for event in page.events] == [late.id, "after"]


async def test_the_end_is_not_beyond_what_may_still_appear(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    transaction = db.transaction()
    await transaction.start()
    await db.execute(
        f"INSERT INTO {schema}.event (place, pos, seq, at, task, source, revision) "
        f"VALUES ({schema}.place_of(0), nextval('{schema}.event_pos'), 0, 0, 'late', 'pending', 1)"
    )
    end = await kit.store.events_end()
    await transaction.commit()
    assert [event.task for event in (await kit.read_events(end)).events] == ["late"]


async def test_a_transaction_that_is_rolled_back_holds_nothing_up_for_long(
    kit: Kit, db: asyncpg.Connection
) -> None:
    transaction = db.transaction()
    await transaction.start()
    await db.execute("SELECT pg_current_xact_id()")
    await kit.submit("after")
    assert (await kit.store.events("")).events == ()
    await transaction.rollback()
    assert [event.task for event in (await kit.read_events("")).events] == ["after"]


async def test_the_first_event_of_all_wakes_who_begins_to_listen_after_it(kit: Kit) -> None:
    other = await kit.again()
    await kit.submit()
    with other.listen([ready_topic("default")]) as listener:
        assert await listener.wait(PATIENCE_S)


async def test_calls_in_one_transaction_have_places_of_their_own(
    url: str, kit: Kit, db: asyncpg.Connection
) -> None:
    app = Andon(url)
    async with db.transaction():
        first = await app.submit("send", connection=db)
        second = await app.submit("send", connection=db)
        transaction = db.transaction()  # a savepoint
        await transaction.start()
        await app.submit("send", connection=db)
        await transaction.rollback()
        third = await app.submit("send", connection=db)
    events = (await kit.read_events("")).events
    assert [event.task for event in events] == [first.id, second.id, third.id]
    for task in await kit.claim(limit=3):
        moves = (await kit.store.history(task.id)).events
        assert [(e.task, e.revision) for e in moves] == [(task.id, 1), (task.id, 2)]
    await app.close()


async def test_a_transaction_with_more_events_than_it_can_hold_is_told_so(
    url: str, kit: Kit, db: asyncpg.Connection
) -> None:
    app = Andon(url)
    transaction = db.transaction()
    await transaction.start()
    await db.execute(f"SELECT set_config('andon.places', '{2**20 - 1}', true)")
    await app.submit("send", connection=db)
    with pytest.raises(asyncpg.ProgramLimitExceededError, match="commit before the next"):
        await app.submit("send", connection=db)
    await transaction.rollback()
    assert await kit.store.stats() == []
    await app.close()
