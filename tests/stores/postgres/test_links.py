"""Links are written for all children in one statement, which locks as commits do."""

import asyncio

import asyncpg
from conformance.kit import Kit

from andon.contract.edges import Link

from .conftest import TellOfStatements


async def test_parents_are_locked_in_one_order_whatever_the_order_of_the_links(
    kit: Kit, url: str, schema: str, db: asyncpg.Connection
) -> None:
    """A commit holds the first and wants the second: it must not find the link holding that."""
    first, second = [await kit.active() for _ in range(2)]
    children = [await kit.submit(dependencies=(p.id,)) for p in (second, first)]
    links = [Link(children[0].id, (second.id,)), Link(children[1].id, (first.id,))]
    lock = f'SELECT FROM "{schema}".task WHERE seq = $1 FOR UPDATE NOWAIT'
    transaction = db.transaction()
    await transaction.start()
    await db.fetch(lock, first.ref)
    linking = asyncio.ensure_future(kit.store.link(links))
    other = await asyncpg.connect(url.partition("?")[0])
    try:

        async def waits() -> bool:
            return await other.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")

        await kit.until(waits)
        await db.fetch(lock, second.ref)
    finally:
        await transaction.rollback()
        await other.close()
    assert await linking == []
    for parent, child in ((second, children[0]), (first, children[1])):
        assert [e.child for e in await kit.store.dependents(parent.id)] == [child.id]


async def test_many_links_are_one_statement(kit: Kit, tell_of_statements: TellOfStatements) -> None:
    parents = [await kit.submit() for _ in range(3)]
    ids = tuple(parent.id for parent in parents)
    children = [kit.record(dependencies=ids) for _ in range(150)]
    await kit.create(*children)
    sent: list[str] = []
    tell_of_statements(sent.append)
    assert await kit.store.link([Link(child.id, ids) for child in children]) == []
    assert len(sent) == 1
    assert len(await kit.store.dependents(parents[1].id)) == 150
