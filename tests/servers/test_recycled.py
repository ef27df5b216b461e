"""A schema that goes from one test to the next is as new, or does not go."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from conformance.kit import Kit, StoreFactory
from conftest import selected_stores
from psycopg import sql

from servers import Servers
from servers.recycled import NAME, Recycled

_numbers = itertools.count()


@pytest.fixture
def server(request: pytest.FixtureRequest, servers: Servers) -> Any:
    if "postgres" not in selected_stores(request.config):
        pytest.skip("another --store was asked for")
    return servers.running("postgres")


@pytest.fixture
def recycled(server: Any) -> Iterator[Recycled]:
    recycled = new_recycled(server, patience_s=60)
    yield recycled
    recycled.close()


def new_recycled(server: Any, *, patience_s: float) -> Recycled:
    return Recycled(
        server.dsn, server.url, lambda: f"recycled_{next(_numbers)}", patience_s=patience_s
    )


def namespace_after(recycled: Recycled, act: Callable[[str], object]) -> tuple[str, str]:
    """Where that was done, and what the next one gets."""
    with recycled.url() as url:
        act(url)
    with recycled.url() as after:
        return url, after


async def _use(url: str) -> None:
    """Leave rows in many tables, and take of most numbers."""
    kit = Kit(StoreFactory(url, shared=True, durable=True))
    await kit.open()
    try:
        await kit.configure(name="default", max_concurrent=3, max_concurrent_per_key=1)
        await kit.submit_many(3, key="k")
        await kit.submit("later", run_at=kit.store.now() + 60_000, tags=("a",))
        await kit.claim()
    finally:
        await kit.close()


def _everything(server: Any, url: str) -> dict[str, Any]:
    """All that is stored, and which numbers come next; but for what differs at each making."""
    schema = url.partition("namespace=")[2]
    found: dict[str, Any] = {}
    with psycopg.connect(server.dsn) as db:
        tables = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema])
        for (name,) in tables.fetchall():
            rows = db.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, name)))
            found[name] = sorted(row for row in rows if row[0] != "birth")
        numbers = db.execute(
            "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = %s", [schema]
        )
        return {**found, **dict(numbers.fetchall())}


def _birth(server: Any, url: str) -> str:
    with psycopg.connect(server.dsn) as db:
        meta = sql.Identifier(url.partition("namespace=")[2], "meta")
        row = db.execute(sql.SQL("SELECT value FROM {} WHERE name = 'birth'").format(meta))
        return row.fetchall()[0][0]


def test_what_was_stored_is_gone_and_numbers_begin_again(server: Any, recycled: Recycled):
    with recycled.url() as url:
        new, birth = _everything(server, url), _birth(server, url)
        asyncio.run(_use(url))
        used = _everything(server, url)
    assert {name for name in used if used[name] != new[name]} >= {"task", "name", "task_seq"}
    with recycled.url() as after:
        assert after == url
        assert _everything(server, after) == new
        assert _birth(server, after) != birth


def test_two_at_once_are_two(recycled: Recycled):
    with recycled.url() as one, recycled.url() as other:
        assert one != other


def test_schemas_made_with_different_options_are_kept_apart(recycled: Recycled):
    with recycled.url("&partitions=4") as four:
        pass
    with recycled.url() as one:
        assert one.partition("&")[0] != four.partition("&")[0]
    with recycled.url("&partitions=4") as again:
        assert again == four


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE {schema}.task ADD COLUMN more integer",
        "CREATE INDEX ON {schema}.task (created, seq)",
        "DROP TABLE {schema}.sleeper",
        "CREATE TABLE {schema}.another (id integer)",
        "ALTER FUNCTION {schema}.server_clock() STABLE",
    ],
)
def test_a_schema_that_was_changed_goes_to_nobody(recycled: Recycled, change: str):
    def alter(url: str) -> None:
        dsn, _, name = url.partition("?namespace=")
        with psycopg.connect(dsn, autocommit=True) as db:
            db.execute(change.format(schema=name).encode())

    before, after = namespace_after(recycled, alter)
    assert after != before


def test_while_a_session_of_that_time_is_left_it_is_not_handed_on(server: Any):
    recycled = new_recycled(server, patience_s=0)
    sessions: list[Any] = []
    before, after = namespace_after(
        recycled, lambda url: sessions.append(psycopg.connect(url.partition("?")[0]))
    )
    sessions[0].close()
    recycled.close()
    assert after != before


def test_sessions_of_others_that_began_later_are_none_of_its(server: Any, recycled: Recycled):
    with recycled.url() as before:
        pass
    with psycopg.connect(server.dsn), recycled.url() as after:
        assert after == before


def test_it_goes_on_when_its_session_was_ended(server: Any, recycled: Recycled):
    with recycled.url() as before, psycopg.connect(server.dsn, autocommit=True) as db:
        ended = db.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            "WHERE application_name = %s",
            [NAME],
        ).fetchall()
        assert ended
    with recycled.url() as after:
        assert after == before
