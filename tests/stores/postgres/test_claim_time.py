"""A claim that had to wait: its runs begin when it has its tasks, not when it was called."""

import asyncio

import asyncpg
from conformance.kit import Kit


async def test_a_claim_that_waited_begins_no_run_before_its_task_was_written(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    await kit.configure(max_concurrent=5)
    queue = await db.fetchval(f"SELECT id FROM \"{schema}\".name WHERE name = 'default'")
    held = "hashtextextended($1 || ' claim ' || $2, 0)"
    await db.execute(f"SELECT pg_advisory_lock({held})", schema, str(queue))
    claiming = asyncio.ensure_future(kit.claim())

    async def waits() -> bool:
        return await db.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")

    await kit.until(waits)
    await kit.pass_time(20)
    submitted = await kit.submit()
    await db.execute(f"SELECT pg_advisory_unlock({held})", schema, str(queue))
    (task,) = await claiming
    assert task.id == submitted.id
    assert (task.status.runs[-1].claimed_at or 0) >= submitted.status.created_at
