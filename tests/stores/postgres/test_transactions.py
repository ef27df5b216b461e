"""Tasks submitted in a transaction of the application's are there if and when that commits."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
from conformance.kit import PATIENCE_S, Kit
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from andon import Andon
from andon.contract.topics import ready_topic
from andon.lifecycle.commands import Complete
from andon.model.errors import (
    ConfigurationError,
    InvalidSubmission,
    QueueFull,
    TaskConflict,
    TaskFailed,
    UniqueKeyHeld,
)
from andon.model.words import State
from andon.signing import SigningKey, TrustedKeys


@pytest.fixture
def app(url: str) -> Iterator[Andon]:
    app = Andon(url)
    yield app
    app.sync.close()


@pytest.fixture
def dsn(url: str) -> str:
    return url.partition("?")[0]


class Rollback(Exception):
    """Ends a transaction without anything of it."""


# --- each kind of connection, whose transaction is ended with or without an error ---


@contextlib.asynccontextmanager
async def of_asyncpg(dsn: str) -> AsyncIterator[Any]:
    db = await asyncpg.connect(dsn)
    try:
        async with db.transaction():
            yield db
    finally:
        await db.close()


@contextlib.asynccontextmanager
async def of_an_asyncpg_pool(dsn: str) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
        pool.acquire() as db,
        db.transaction(),
    ):
        yield db


@contextlib.asynccontextmanager
async def of_async_psycopg(dsn: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn) as db:
        yield db


@contextlib.asynccontextmanager
async def of_async_sqlalchemy(dsn: str, driver: str = "asyncpg") -> AsyncIterator[Any]:
    engine = create_async_engine(dsn.replace("postgresql", f"postgresql+{driver}"))
    try:
        async with engine.begin() as db:
            yield db
    finally:
        await engine.dispose()


@contextlib.asynccontextmanager
async def of_async_sqlalchemy_by_psycopg(dsn: str) -> AsyncIterator[Any]:
    async with of_async_sqlalchemy(dsn, "psycopg") as db:
        yield db


@contextlib.asynccontextmanager
async def of_an_async_session(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(dsn.replace("postgresql", "postgresql+asyncpg"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


ASYNC = [
    of_asyncpg,
    of_an_asyncpg_pool,
    of_async_psycopg,
    of_async_sqlalchemy,
    of_async_sqlalchemy_by_psycopg,
    of_an_async_session,
]


@contextlib.contextmanager
def of_psycopg(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn) as db:
        yield db


@contextlib.contextmanager
def of_sqlalchemy(dsn: str) -> Iterator[Any]:
    engine = create_engine(dsn.replace("postgresql", "postgresql+psycopg"))
    try:
        with engine.begin() as db:
            yield db
    finally:
        engine.dispose()


@contextlib.contextmanager
def of_a_session(dsn: str) -> Iterator[Any]:
    engine = create_engine(dsn.replace("postgresql", "postgresql+psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@contextlib.contextmanager
def of_django(dsn: str) -> Iterator[Any]:
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}})
        django.setup()
    from django.db import connections, transaction
    from django.db.backends.postgresql.base import DatabaseWrapper

    parts = conninfo_to_dict(dsn)
    wrapper = DatabaseWrapper(
        {
            **connections["default"].settings_dict,
            "NAME": parts["dbname"],
            "USER": parts["user"],
            "HOST": parts["host"],
            "PORT": parts["port"],
        },
        alias="andon",
    )
    connections["andon"] = wrapper
    try:
        atomic: Any = transaction.atomic(using="andon")
        with atomic:
            yield wrapper
    finally:
        wrapper.close()
        del connections["andon"]


SYNC = [of_psycopg, of_sqlalchemy, of_a_session, of_django]


async def state(kit: Kit, task_id: str) -> State | None:
    task = await kit.get(task_id)
    return None if task is None else task.state


@pytest.mark.parametrize("opened", ASYNC)
async def test_a_task_of_an_async_transaction_is_there_when_that_commits(
    app: Andon, kit: Kit, dsn: str, opened: Any
) -> None:
    async with opened(dsn) as connection:
        handle = await app.submit("send", {"to": "me"}, connection=connection)
        assert await state(kit, handle.id) is None
        assert await kit.claim(limit=5) == []
    assert await state(kit, handle.id) is State.PENDING
    (task,) = await kit.claim(limit=5)
    assert (await kit.moved(task, Complete())).state is State.COMPLETED
    assert (await kit.stats()).counts == {"completed": 1}
    await app.close()


@pytest.mark.parametrize("opened", ASYNC)
async def test_a_task_of_an_async_transaction_that_fails_never_was(
    app: Andon, kit: Kit, dsn: str, opened: Any
) -> None:
    with contextlib.suppress(Rollback):
        async with opened(dsn) as connection:
            await app.submit("send", id="never", connection=connection)
            raise Rollback
    assert await state(kit, "never") is None
    assert (await kit.read_events("")).events == ()
    assert await kit.store.stats() == []
    await app.close()


@pytest.mark.parametrize("opened", SYNC)
def test_a_task_of_a_transaction_is_there_when_that_commits(
    app: Andon, kit: Kit, runner: asyncio.Runner, dsn: str, opened: Any
) -> None:
    with opened(dsn) as connection:
        handle = app.sync.submit("send", {"to": "me"}, connection=connection)
        assert runner.run(state(kit, handle.id)) is None
    assert runner.run(state(kit, handle.id)) is State.PENDING
    assert handle.status() is State.PENDING


@pytest.mark.parametrize("opened", SYNC)
def test_a_task_of_a_transaction_that_fails_never_was(
    app: Andon, kit: Kit, runner: asyncio.Runner, dsn: str, opened: Any
) -> None:
    with contextlib.suppress(Rollback), opened(dsn) as connection:
        app.sync.submit("send", id="never", connection=connection)
        raise Rollback
    assert runner.run(state(kit, "never")) is None


def test_what_the_application_wrote_and_the_task_are_one(
    app: Andon, kit: Kit, runner: asyncio.Runner, dsn: str, schema: str
) -> None:
    engine = create_engine(dsn.replace("postgresql", "postgresql+psycopg"))
    with engine.begin() as db:
        db.execute(text(f"CREATE TABLE {schema}.orders (id text)"))
    with contextlib.suppress(Rollback), engine.begin() as db:
        db.execute(text(f"INSERT INTO {schema}.orders VALUES ('lost')"))
        app.sync.submit("ship", id="lost", connection=db)
        raise Rollback
    with engine.begin() as db:
        db.execute(text(f"INSERT INTO {schema}.orders VALUES ('kept')"))
        app.sync.submit("ship", id="kept", connection=db)
    with engine.connect() as db:
        orders = [row[0] for row in db.execute(text(f"SELECT id FROM {schema}.orders"))]
    engine.dispose()
    assert orders == ["kept"]
    assert runner.run(kit.find_all()) == ["kept"]


async def test_whoever_sleeps_is_woken_by_the_commit(app: Andon, kit: Kit, dsn: str) -> None:
    with kit.store.listen([ready_topic("default")]) as listener:
        await kit.submit("warm-up")  # the listener's mark is left once this was heard
        assert await listener.wait(PATIENCE_S)
        async with of_asyncpg(dsn) as connection:
            await app.submit("send", connection=connection)
            assert not await listener.wait(0.05)
        assert await listener.wait(PATIENCE_S)
    await app.close()


def signing(url: str, key: SigningKey) -> Andon:
    """An application that signs what it submits, and whose workers take nothing else."""
    app = Andon(url, signing_key=key, max_retries=0)

    @app.task(name="send")
    async def send(to: str) -> str:
        return f"sent to {to}"

    return app


@pytest.mark.parametrize("opened", [of_asyncpg, of_psycopg])
async def test_what_is_submitted_in_a_transaction_is_signed_as_all_else(
    url: str, dsn: str, opened: Any
) -> None:
    key = SigningKey.generate()
    async with asyncio.timeout(PATIENCE_S), signing(url, key) as app:
        send = app.functions["send", 0]
        if opened is of_asyncpg:
            async with opened(dsn) as connection:
                lone = await send.options(connection=connection).submit("ann")
                drafts = [send.options(connection=connection).draft(to) for to in ("bob", "cy")]
                many = await app.submit_many(drafts)
        else:

            def in_a_thread() -> list[Any]:
                with app.sync, opened(dsn) as connection:
                    lone = send.options(connection=connection).sync.submit("ann")
                    drafts = [send.options(connection=connection).draft(to) for to in ("bob", "cy")]
                    return [lone.id, *(one.id for one in app.sync.submit_many(drafts))]

            lone, *many = (app.handle(i, send) for i in await asyncio.to_thread(in_a_thread))
        async with of_asyncpg(dsn) as connection:
            stranger = Andon(url, signing_key=SigningKey.generate(), max_retries=0)
            forged = await stranger.submit("send", {"to": "eve"}, connection=connection)
            await stranger.close()
        async with app.working(trusted_keys=TrustedKeys([key.public])):
            told = [await handle.result() for handle in (lone, *many)]
            assert told == ["sent to ann", "sent to bob", "sent to cy"]
            with pytest.raises(TaskFailed, match="signature-refused"):
                await app.handle(forged.id).result()


async def test_many_drafts_join_one_transaction(app: Andon, kit: Kit, dsn: str) -> None:
    async with of_asyncpg(dsn) as connection:
        drafts = [app.draft("send", {"n": n}, connection=connection) for n in range(300)]
        handles = await app.submit_many(drafts)
    assert len({handle.id for handle in handles}) == 300
    assert (await kit.stats()).counts == {"pending": 300}
    await app.close()


async def test_a_stream_of_drafts_joins_one_transaction(app: Andon, kit: Kit, dsn: str) -> None:
    async with of_asyncpg(dsn) as connection:
        drafts = (app.draft("send", {"n": n}, connection=connection) for n in range(1_000))
        told = [outcome.error async for some in app.submit_stream(drafts) for outcome in some]
        assert told == [None] * 1_000
        assert await kit.find_all() == []
    assert (await kit.stats()).counts == {"pending": 1_000}
    await app.close()


async def test_a_child_may_depend_on_a_parent_of_the_same_transaction(
    app: Andon, kit: Kit, dsn: str
) -> None:
    async with of_asyncpg(dsn) as connection:
        parent = await app.submit("first", connection=connection)
        child = await app.submit("second", depends_on=parent, connection=connection)
    assert await state(kit, child.id) is State.BLOCKED
    assert (await kit.due(child.id)).state is State.BLOCKED  # soon it asks for its parent again
    await app.close()


@pytest.mark.parametrize("opened", ASYNC)
async def test_parents_are_read_on_the_connection_of_an_async_transaction(
    app: Andon, kit: Kit, dsn: str, opened: Any
) -> None:
    before = await app.submit("first")
    async with opened(dsn) as connection:
        parent = await app.submit("first", connection=connection)
        child = await app.submit("second", depends_on=[before, parent], connection=connection)
        with pytest.raises(InvalidSubmission, match="'slip'"):
            await app.submit("second", depends_on="slip", connection=connection)
    assert await state(kit, child.id) is State.BLOCKED
    assert (await kit.stats()).counts == {"pending": 2, "blocked": 1}
    await app.close()


@pytest.mark.parametrize("opened", SYNC)
def test_parents_are_read_on_the_connection_of_a_transaction(
    app: Andon, kit: Kit, runner: asyncio.Runner, dsn: str, opened: Any
) -> None:
    with opened(dsn) as connection:
        parent = app.sync.submit("first", connection=connection)
        child = app.sync.submit("second", depends_on=parent, connection=connection)
        with pytest.raises(InvalidSubmission, match="'slip'"):
            app.sync.submit("second", depends_on="slip", connection=connection)
    assert runner.run(state(kit, child.id)) is State.BLOCKED


async def test_one_call_of_a_transaction_refuses_alone_what_cannot_be(
    app: Andon, kit: Kit, dsn: str
) -> None:
    """What is refused is not written, so the transaction and the others go on."""
    await kit.configure(name="small", max_size=0)
    async with of_asyncpg(dsn) as connection:
        told = [
            one
            async for some in app.submit_stream(
                [
                    app.draft("x", id="c", depends_on="p", connection=connection),
                    app.draft("x", id="p", connection=connection),
                    app.draft("x", id="lone", depends_on="slip", connection=connection),
                    app.draft("x", id="full", queue="small", connection=connection),
                    app.draft("x", id="of-full", depends_on="full", connection=connection),
                    app.draft("x", id="r1", depends_on="r2", connection=connection),
                    app.draft("x", id="r2", depends_on="r1", connection=connection),
                    app.draft(
                        "x",
                        id="kept",
                        depends_on="slip",
                        on_missing_parent="unreachable",
                        connection=connection,
                    ),
                ]
            )
            for one in some
        ]
    errors = {one.id: one.error for one in told}
    assert [one.id for one in told] == ["c", "p", "lone", "full", "of-full", "r1", "r2", "kept"]
    assert {i for i, error in errors.items() if error is None} == {"c", "p", "kept"}
    assert "'slip', which does not exist" in str(errors["lone"])
    assert "'full', which was refused" in str(errors["of-full"])
    assert "circle" in str(errors["r1"])
    assert await state(kit, "c") is State.BLOCKED
    assert await state(kit, "of-full") is None
    await app.close()


async def test_a_repeat_in_a_transaction_is_a_repeat_also_without_its_parent(
    app: Andon, kit: Kit, dsn: str
) -> None:
    asked: dict[str, Any] = {"id": "c", "depends_on": "slip", "on_missing_parent": "unreachable"}
    await app.submit("x", **asked)
    async with of_asyncpg(dsn) as connection:
        again = await app.submit("x", connection=connection, **asked)
    assert not again.created
    await app.close()


async def test_others_submit_while_a_transaction_stays_open(app: Andon, kit: Kit, dsn: str) -> None:
    """No lock of the open transaction is one that submits, claims or reports wait for."""
    await kit.configure(max_concurrent=50, max_size=1_000)
    async with of_asyncpg(dsn) as connection, asyncio.timeout(PATIENCE_S):
        await app.submit("send", connection=connection)
        await kit.submit_many(20)
        claimed = await kit.claim(limit=20)
        for task in claimed:
            await kit.move(task, Complete())
        assert len(claimed) == 20
        await kit.take_due()
    assert (await kit.stats()).counts == {"pending": 1, "completed": 20}
    await app.close()


async def test_a_keyed_task_is_let_through_after_the_commit(app: Andon, kit: Kit, dsn: str) -> None:
    await kit.configure(max_concurrent_per_key=1)
    async with of_asyncpg(dsn) as connection:
        for _ in range(2):
            await app.submit("send", key="k", connection=connection)
    claimed: list[Any] = []

    async def let_through() -> list[Any]:
        await kit.take_due()
        claimed.extend(await kit.claim(limit=5))
        return claimed

    await kit.until(let_through)
    assert len(claimed) == 1
    assert (await kit.stats()).parked == 1
    await kit.move(claimed[0], Complete())
    assert len(await kit.claim(limit=5)) == 1
    await app.close()


async def test_refusals_are_told_in_the_transaction_and_leave_it_whole(
    app: Andon, kit: Kit, dsn: str
) -> None:
    await kit.submit("holder", unique_key="k")
    await kit.configure(name="small", max_size=1)
    await kit.submit(queue="small")
    async with of_asyncpg(dsn) as connection:
        with pytest.raises(UniqueKeyHeld):
            await app.submit("send", unique_key="k", connection=connection)
        with pytest.raises(QueueFull):
            await app.submit("send", queue="small", connection=connection)
        with pytest.raises(TaskConflict):
            await app.submit("send", id="holder", connection=connection)
        handle = await app.submit("send", connection=connection)
    assert await state(kit, handle.id) is State.PENDING
    await app.close()


async def test_what_is_no_connection_is_refused_by_name(app: Andon) -> None:
    with pytest.raises(TypeError, match=r"psycopg.*builtins\.str"):
        await app.submit("send", connection="postgresql://")
    with contextlib.closing(sqlite3.connect(":memory:")) as db, pytest.raises(TypeError):
        await app.submit("send", connection=db)
    await app.close()


async def test_a_store_that_cannot_join_says_so(db: asyncpg.Connection) -> None:
    app = Andon("memory://")
    with pytest.raises(ConfigurationError, match="postgresql"):
        await app.submit("send", connection=db)
    await app.close()


def test_the_sync_face_takes_no_connection_of_a_loop(app: Andon, db: asyncpg.Connection) -> None:
    with pytest.raises(TypeError, match="await"):
        app.sync.submit("send", connection=db)


async def test_a_connection_to_another_database_is_refused(
    app: Andon, db: asyncpg.Connection, dsn: str, schema: str
) -> None:
    await db.execute(f"CREATE DATABASE other_{schema}")
    try:
        async with of_asyncpg(f"{dsn.removesuffix('postgres')}other_{schema}") as connection:
            with pytest.raises(ConfigurationError, match="database"):
                await app.submit("send", connection=connection)
    finally:
        await db.execute(f"DROP DATABASE other_{schema}")
        await app.close()


# --- what cannot be stored ---


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    "spoiled", [{"group": "a\0b"}, {"key": "\udc80"}, {"headers": {"file": "\udc80"}}]
)
async def test_a_task_that_cannot_be_stored_is_refused_before_it_ends_the_transaction(
    kit: Kit, db: asyncpg.Connection, place: int, spoiled: dict[str, Any]
) -> None:
    tasks = [kit.record() for _ in range(2)]
    tasks.insert(place, kit.record(**spoiled))
    async with db.transaction():
        await db.execute("CREATE TEMP TABLE theirs (n int) ON COMMIT DROP")
        with pytest.raises(InvalidSubmission, match="stored"):
            await kit.store.join(tasks)  # type: ignore[attr-defined]
        await db.execute("INSERT INTO theirs VALUES (1)")
        good = [kit.record()]
        joined = await kit.store.join(good)  # type: ignore[attr-defined]
        await joined.create_async(db)
    assert await kit.get(good[0].id) == good[0]
    assert [await kit.get(task.id) for task in tasks] == [None] * 3
