"""The event log's horizon: what may still appear is not passed by."""

import asyncpg
from conformance.kit import PATIENCE_S, Kit

from andon.stores.base import ready_topic


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
