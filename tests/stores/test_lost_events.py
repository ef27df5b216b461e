"""A log that lost its newest events tells those who had read them.

So it is after a server was replaced by a copy of it from a moment before: by its replica (Redis),
by a restored backup (SQLite, PostgreSQL).
"""

import asyncio
import contextlib
import itertools
import os
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from conformance.kit import Kit, StoreFactory
from conftest import selected_stores
from servers import Servers
from servers.postgres import PostgresServer
from servers.redis import RedisServer, until

Copy = Callable[[], Awaitable[str]]
"""Makes a copy of what is stored now; its URL."""
Origin = tuple[str, Copy]

_numbers = itertools.count()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "origin" in metafunc.fixturenames:
        kinds = [k for k in selected_stores(metafunc.config) if k in ORIGINS]
        metafunc.parametrize("kind", kinds)
        metafunc.parametrize("options", ["", "partitions=4"])


@pytest.fixture
def origin(kind: str, tmp_path: Path, servers: Servers, runner: asyncio.Runner) -> Iterator[Origin]:
    """The URL of a store, and what copies it."""
    at_the_end = AsyncExitStack()
    yield runner.run(ORIGINS[kind](tmp_path, servers, at_the_end))
    runner.run(at_the_end.aclose())


async def _sqlite(folder: Path, servers: Servers, at_the_end: AsyncExitStack) -> Origin:
    async def copy() -> str:
        with (
            contextlib.closing(sqlite3.connect(folder / "origin.db")) as origin,
            contextlib.closing(sqlite3.connect(folder / "copy.db")) as copy,
        ):
            origin.backup(copy)
        return f"sqlite:///{folder / 'copy.db'}"

    return f"sqlite:///{folder / 'origin.db'}", copy


async def _postgres(folder: Path, servers: Servers, at_the_end: AsyncExitStack) -> Origin:
    server = servers.running("postgres")
    assert isinstance(server, PostgresServer)
    origin = f"origin_{os.getpid()}_{next(_numbers)}"
    admin = await asyncpg.connect(server.dsn)
    at_the_end.push_async_callback(admin.close)

    async def create(name: str, template: str) -> str:
        await admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        at_the_end.push_async_callback(admin.execute, f"DROP DATABASE {name} WITH (FORCE)")
        return server.dsn.removesuffix("postgres") + name

    return await create(origin, "template0"), lambda: create(f"{origin}_copy", origin)


async def _redis(folder: Path, servers: Servers, at_the_end: AsyncExitStack) -> Origin:
    primary = RedisServer(folder / "primary")
    replica = RedisServer(folder / "replica", settings=[f"replicaof 127.0.0.1 {primary.port}"])
    for server in (primary, replica):
        at_the_end.callback(server.stop)
        server.start()

    async def copy() -> str:
        until(lambda: _offset(replica) == _offset(primary), "the replica does not catch up")
        replica.ask("REPLICAOF", "NO", "ONE")
        return replica.url("t")

    return primary.url("t"), copy


def _offset(server: RedisServer) -> int:
    facts = server.ask("INFO", "replication").decode().splitlines()
    name = "slave_repl_offset:" if "role:slave" in facts else "master_repl_offset:"
    (offset,) = [line.removeprefix(name) for line in facts if line.startswith(name)]
    return int(offset)


ORIGINS: dict[str, Callable[[Path, Servers, AsyncExitStack], Coroutine[Any, Any, Origin]]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "redis": _redis,
}


@pytest.fixture
def two(origin: Origin, options: str, runner: asyncio.Runner) -> Iterator[tuple[Kit, Kit]]:
    """A store with some tasks, and a copy of it that knows nothing of what is written hence."""
    kits: list[Kit] = []

    async def opened(url: str) -> Kit:
        joint = "&" if "?" in url else "?"
        kit = Kit(StoreFactory(f"{url}{joint}{options}", shared=True, durable=True))
        await kit.open()
        kits.append(kit)
        return kit

    async def parted() -> tuple[Kit, Kit]:
        url, copy = origin
        first = await opened(url)
        await _submit(first, "before", 20)
        await first.close()  # a database that is in use is not copied
        after = await copy()
        return await opened(url), await opened(after)

    yield runner.run(parted())
    for kit in kits:
        runner.run(kit.close())


async def _submit(kit: Kit, word: str, count: int) -> set[str]:
    tasks = [kit.record(kit.fresh(word)) for _ in range(count)]
    if tasks:
        await kit.store.create(tasks)
    return {task.id for task in tasks}


@pytest.mark.parametrize("since", [0, 3, 4, 40])
async def test_who_read_what_was_lost_is_told_of_a_gap(two: tuple[Kit, Kit], since: int) -> None:
    lost, kept = two
    await _submit(lost, "lost", 4)
    cursor = (await lost.read_events("")).cursor
    await _submit(kept, "since", since)
    page = await kept.store.events(cursor)
    assert page.gap
    following = await _submit(kept, "following", 40)
    page = await kept.read_events(page.cursor)
    assert {event.task for event in page.events} >= following
    assert not page.gap


async def test_who_was_at_the_end_of_what_was_lost_is_told_of_a_gap(two: tuple[Kit, Kit]) -> None:
    lost, kept = two
    await _submit(lost, "lost", 4)
    cursor = await lost.store.events_end()
    await _submit(kept, "since", 40)
    assert (await kept.store.events(cursor)).gap


async def test_who_had_read_only_what_was_kept_goes_on(two: tuple[Kit, Kit]) -> None:
    lost, kept = two
    cursors = [(await lost.read_events("")).cursor, await lost.store.events_end()]
    await _submit(lost, "lost", 4)
    following = await _submit(kept, "following", 40)
    for cursor in cursors:
        page = await kept.read_events(cursor)
        assert {event.task for event in page.events} == following
        assert not page.gap
