"""The server goes away, refuses or is full: bounded retries, nothing twice, and clear words."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from conformance.kit import PATIENCE_S, Kit, StoreFactory, ids, opened
from servers.postgres import PostgresServer

from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.contract.topics import ready_topic
from andon.lifecycle.commands import Complete
from andon.model.errors import StoreIncompatible, StoreUnavailable
from andon.model.words import State
from andon.stores.postgres import PostgresStore, connections

from .conftest import TellOfStatements
from .hurting import connected


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine takes its time to start a server again; that is no defect of the store."""
    monkeypatch.setattr(connections, "PATIENCE_S", 30.0)


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is away for good is noticed soon."""
    monkeypatch.setattr(connections, "PATIENCE_S", 1.0)


def on(
    server: PostgresServer, namespace: str, options: str = ""
) -> AbstractAsyncContextManager[Kit]:
    return opened(f"{server.url(namespace)}{options}")


async def end_sessions(db: asyncpg.Connection) -> int:
    return len(
        await db.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' "
            "AND application_name LIKE 'andon%'"
        )
    )


async def test_connections_that_were_ended_are_made_anew(
    hurt_server: PostgresServer,
) -> None:
    async with on(hurt_server, "ended") as kit, connected(hurt_server) as admin:
        task = await kit.active()
        assert await end_sessions(admin) >= 1
        assert await kit.renew(task) is Verdict.OK
        await end_sessions(admin)
        assert (await kit.moved(task, Complete())).state is State.COMPLETED


async def test_a_renewal_from_a_thread_survives_the_end_of_its_connection(
    hurt_server: PostgresServer,
) -> None:
    async with on(hurt_server, "thread") as kit, connected(hurt_server) as admin:
        task = await kit.active()
        renewal = Renewal(task=task.id, run=task.status.run, lease_ms=30_000)
        for _ in range(2):
            verdicts = await asyncio.to_thread(kit.store.renew_blocking, [renewal])
            assert verdicts == [Verdict.OK]
            await end_sessions(admin)


async def test_a_listener_is_woken_after_its_connection_was_made_anew(
    hurt_server: PostgresServer,
) -> None:
    async with on(hurt_server, "listener") as kit, connected(hurt_server) as admin:
        other = await kit.again()

        async def listening() -> bool:
            return await admin.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'andon listener'"
            )

        with other.listen([ready_topic("default")]) as listener:
            await kit.until(listening)
            await end_sessions(admin)
            waiting = asyncio.ensure_future(listener.wait(PATIENCE_S))
            await kit.submit()
            assert await waiting
            assert ids(await kit.claim_from(other)) != []


async def test_a_server_that_is_started_again_is_found_again(hurt_server: PostgresServer) -> None:
    async with on(hurt_server, "restart") as kit:
        first = await kit.submit()
        hurt_server.kill()
        submitting = asyncio.ensure_future(kit.submit())
        await asyncio.to_thread(hurt_server.start)
        second = await submitting
        assert ids(await kit.claim(limit=5)) == [first.id, second.id]


@pytest.mark.usefixtures("impatience")
@pytest.mark.parametrize("limit", ["statement_timeout", "lock_timeout"])
async def test_a_statement_given_up_for_a_limit_of_the_user_says_which(
    hurt_server: PostgresServer, limit: str
) -> None:
    async with connected(hurt_server) as admin:
        async with on(hurt_server, limit):
            await admin.execute(f"ALTER DATABASE postgres SET {limit} = 200")
        async with on(hurt_server, limit) as kit, admin.transaction():
            await admin.execute(f"LOCK TABLE {limit}.definition")
            with pytest.raises(StoreUnavailable, match=f"gave a statement up.*{limit}"):
                await kit.submit()
        async with on(hurt_server, limit) as kit:
            await kit.submit()


@pytest.mark.usefixtures("impatience")
async def test_a_server_that_stays_away_is_reported(hurt_server: PostgresServer) -> None:
    async with on(hurt_server, "away") as kit:
        hurt_server.stop()
        try:
            with pytest.raises(StoreUnavailable, match="does not answer"):
                await kit.submit()
        finally:
            hurt_server.start()
        await kit.until(lambda: submitted(kit))


async def submitted(kit: Kit) -> bool:
    try:
        await kit.submit()
    except StoreUnavailable:
        return False
    return True


async def test_nothing_is_done_twice_when_the_reply_was_lost(
    kit: Kit, tell_of_statements: TellOfStatements
) -> None:
    """Every reply is lost once, after its statement was committed."""
    lost: list[str] = []

    def lose(sql: str) -> None:
        if sql not in lost:
            lost.append(sql)
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle")

    tell_of_statements(lose)
    tasks = [kit.record() for _ in range(3)]
    await kit.store.create(tasks)
    claimed = await kit.claim(limit=2)
    assert len(claimed) == 2
    assert (await kit.moved(claimed[0], Complete())).state is State.COMPLETED
    assert (await kit.stats()).counts == {"pending": 1, "active": 1, "completed": 1}
    assert len((await kit.store.history(claimed[0].id)).events) == 3
    assert len(lost) > 3


async def test_more_callers_than_connections_wait_their_turn(
    hurt_server: PostgresServer,
) -> None:
    async with on(hurt_server, "crowd", "&pool=2") as kit, connected(hurt_server) as admin:
        await asyncio.gather(*(kit.submit() for _ in range(100)))
        used = await admin.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'andon'"
        )
        assert used <= 2
        assert (await kit.stats()).counts == {"pending": 100}


async def test_a_server_without_connections_to_spare_is_waited_for(
    hurt_server: PostgresServer,
) -> None:
    async with on(hurt_server, "spare") as kit, connected(hurt_server) as admin:
        await kit.submit()
        await end_sessions(admin)
        async with AsyncExitStack() as taken:
            with contextlib.suppress(asyncpg.TooManyConnectionsError):
                while True:
                    await taken.enter_async_context(connected(hurt_server))
            submitting = asyncio.ensure_future(kit.submit())
            await asyncio.sleep(0.1)
        await submitting


@pytest.mark.usefixtures("impatience")
async def test_a_server_that_takes_no_writes_is_reported_and_recovers(
    hurt_server: PostgresServer,
) -> None:
    async with on(hurt_server, "standby") as kit, connected(hurt_server) as admin:
        task = await kit.submit()
        await admin.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
        await end_sessions(admin)
        with pytest.raises(StoreUnavailable, match="no writes"):
            await kit.submit()
        assert await kit.get(task.id) == task
        await admin.execute("SET default_transaction_read_only = off")
        await admin.execute("ALTER DATABASE postgres RESET default_transaction_read_only")
        await end_sessions(admin)
        await kit.submit()


async def test_deadlocks_are_tried_again(kit: Kit, schema: str, db: asyncpg.Connection) -> None:
    """The application holds one row and wants the other; the store's commit wants both."""
    one, two = await kit.active(), await kit.active()
    await db.execute("SET deadlock_timeout = '10s'")  # the store's session notices first, and loses
    transaction = db.transaction()
    await transaction.start()
    await db.execute(f"SELECT 1 FROM {schema}.task WHERE seq = $1 FOR UPDATE", two.ref)
    changes = [kit.change(one, Complete()), kit.change(two, Complete())]
    committing = asyncio.ensure_future(kit.store.commit(changes))

    async def waits() -> bool:
        return await db.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        )

    await kit.until(waits)
    await db.execute(f"SELECT 1 FROM {schema}.task WHERE seq = $1 FOR UPDATE", one.ref)
    await transaction.rollback()
    await committing
    assert {await kit.state(one.id), await kit.state(two.id)} == {State.COMPLETED}


async def test_a_schema_that_was_dropped_is_reported(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    await kit.submit()
    await db.execute(f"DROP SCHEMA {schema} CASCADE")
    with pytest.raises(StoreIncompatible, match=schema):
        await kit.submit()


async def test_a_schema_that_was_replaced_is_not_written_to(
    kit: Kit, url: str, schema: str, db: asyncpg.Connection
) -> None:
    await kit.submit()
    await db.execute(f"DROP SCHEMA {schema} CASCADE")
    other = PostgresStore(url)
    await other.open()
    await end_sessions(db)
    with pytest.raises(StoreIncompatible, match="replaced"):
        await kit.submit()
    assert (await other.info()).entries == 0
    await other.close()


@pytest.mark.parametrize("doing", ["asks", "submits"])
async def test_a_store_is_closed_soon_though_its_server_has_frozen(
    hurt_server: PostgresServer, doing: str
) -> None:
    """Neither a statement on its way nor the mark of a sleeper keeps a process from leaving."""
    kit = Kit(StoreFactory(hurt_server.url(f"frozen_{doing}"), shared=True, durable=True))
    store = kit.store
    await store.open()
    await kit.submit()
    with store.listen([ready_topic("default")]) as listener:
        await listener.wait(0.2)
        hurt_server.pause()
        try:
            asked = asyncio.create_task(
                kit.create(kit.record()) if doing == "submits" else kit.stats()
            )
            await asyncio.sleep(0)
            async with asyncio.timeout(2 * PATIENCE_S):
                await store.close()
            with pytest.raises(StoreUnavailable):
                await asked
        finally:
            hurt_server.resume()


async def test_a_store_is_closed_at_once_when_its_server_has_gone(
    hurt_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE_S", 600.0)
    store = PostgresStore(hurt_server.url("gone"))
    await store.open()
    await asyncio.to_thread(hurt_server.stop)
    try:
        asked = asyncio.create_task(store.stats())
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.sleep(0)
            await store.close()
        with pytest.raises(StoreUnavailable):
            await asked
    finally:
        hurt_server.start()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes; `enlarge` it to mend what was full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not mounted(folder, "size=6m"):
        pytest.skip("only a user who may mount file systems can have a small one")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def mounted(folder: Path, options: str) -> bool:
    """Mount a file system in memory there; or change the options of the one that is."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.usefixtures("impatience")
async def test_a_full_disk_is_reported_loses_nothing_and_is_got_over(
    hurt_server: PostgresServer, small_disk: Path
) -> None:
    async with database_on(small_disk, hurt_server) as url:
        kit = Kit(StoreFactory(url, shared=True, durable=True))
        await kit.open()
        stored = 0

        async def fill() -> None:
            nonlocal stored
            for _ in range(500):
                await kit.store.create([kit.record(args=b"x" * 4_000) for _ in range(20)])
                stored += 20

        with pytest.raises(StoreUnavailable, match=r"disk of .* is full"):
            await fill()
        assert (await kit.stats()).counts == {"pending": stored}
        assert mounted(small_disk, "remount,size=64m")
        task = await kit.submit()
        assert (await kit.stats()).counts == {"pending": stored + 1}
        assert await kit.get(task.id) == task
        await kit.close()


@asynccontextmanager
async def database_on(folder: Path, server: PostgresServer) -> AsyncIterator[str]:
    """A database of which everything but the write-ahead log is in that folder."""
    async with connected(server) as admin:
        await admin.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
        await admin.execute("CREATE DATABASE full_disk TABLESPACE small")
        try:
            yield server.url("full").replace("/postgres?", "/full_disk?")
        finally:
            await admin.execute("DROP DATABASE full_disk WITH (FORCE)")
            await admin.execute("DROP TABLESPACE small")
