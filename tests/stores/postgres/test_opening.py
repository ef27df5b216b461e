"""Opening: the schema is made once, brought up to date, or refused in one sentence."""

import asyncio
import subprocess
import sys

import asyncpg
import msgspec
import pytest
from conformance.kit import Kit, StoreFactory

from andon.contract.queries import Query
from andon.lifecycle.admission import admit
from andon.lifecycle.commands import Cancel, Complete, Fail
from andon.model.code import Code
from andon.model.errors import ConfigurationError, StoreIncompatible
from andon.model.fleet import QueueConfig
from andon.model.headers import FLOW_TAG
from andon.model.policy import Policy
from andon.model.task import Definition, TaskError
from andon.model.urls import shown
from andon.model.words import State
from andon.stores.kit.codec import encode
from andon.stores.postgres import PostgresStore, migrating, statements
from andon.stores.postgres.location import parse


async def refused(url: str, kind: type[Exception]) -> str:
    """What opening says, which must be one sentence or two."""
    store = PostgresStore(url)
    with pytest.raises(kind) as caught:
        await store.open()
    await store.close()
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith(".")
    return said


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("namespace=Robert'); drop", "namespace"),
        ("namespace=pg_temp", "namespace"),
        ("partitions=0", "partitions"),
        ("pool=none", "pool"),
        ("synchronous_commit=maybe", "synchronous_commit"),
        ("pgbouncer=1", "pgbouncer"),
        ("namespce=a", "namespce"),
    ],
)
def test_an_option_that_cannot_be_is_named(query: str, word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        PostgresStore(f"postgresql://localhost/x?{query}")


def test_what_is_shown_has_no_password() -> None:
    location = parse("postgresql://me:s3cret@host/db?namespace=a&sslmode=disable")
    assert "s3cret" not in location.shown
    assert "s3cret" in location.dsn
    assert "namespace" not in location.dsn
    assert "s3cret" not in shown("postgresql://host/db?user=me&password=s3cret")


async def test_a_database_that_does_not_exist_is_named(url: str) -> None:
    said = await refused(url.replace("/postgres?", "/absent?"), ConfigurationError)
    assert "absent" in said


async def test_a_user_that_may_not_enter_is_told_so(url: str) -> None:
    said = await refused(url.replace("postgres@", "nobody:s3cret@"), ConfigurationError)
    assert "password" in said
    assert "s3cret" not in said


async def test_a_user_without_the_right_to_create_is_told_so(
    url: str, db: asyncpg.Connection
) -> None:
    await db.execute(
        "DO $$ BEGIN CREATE ROLE modest LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation "
        "THEN NULL; END $$"
    )
    said = await refused(url.replace("postgres@", "modest@"), ConfigurationError)
    assert "CREATE" in said


async def test_a_schema_of_somebody_else_is_left_alone(
    url: str, schema: str, db: asyncpg.Connection
) -> None:
    await db.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.customer (id int)")
    said = await refused(url, StoreIncompatible)
    assert "namespace" in said
    assert await db.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = $1", schema) == 1


async def test_a_table_that_is_named_like_ours_is_not_ours(
    url: str, schema: str, db: asyncpg.Connection
) -> None:
    await db.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.meta (id int)")
    await refused(url, StoreIncompatible)


async def test_an_empty_schema_that_was_made_before_is_used(
    url: str, schema: str, db: asyncpg.Connection
) -> None:
    await db.execute(f"CREATE SCHEMA {schema}")
    store = PostgresStore(url)
    await store.open()
    assert (await store.info()).entries == 0
    await store.close()


async def test_a_schema_of_a_newer_release_is_refused(
    kit: Kit, url: str, schema: str, db: asyncpg.Connection
) -> None:
    await kit.submit()
    await db.execute(
        f"UPDATE {schema}.meta SET value = '99' WHERE name IN ('schema_version', 'min_writer')"
    )
    said = await refused(url, StoreIncompatible)
    assert "99" in said


async def test_a_newer_schema_that_old_writers_may_use_is_used(
    kit: Kit, url: str, schema: str, db: asyncpg.Connection
) -> None:
    task = await kit.submit()
    await db.execute(f"UPDATE {schema}.meta SET value = '99' WHERE name = 'schema_version'")
    other = await kit.again()
    assert await other.get([task.id]) == [task]


async def test_partitions_are_those_the_schema_was_made_with(kit: Kit, url: str) -> None:
    await kit.replace(partitions=1)
    said = await refused(f"{url}&partitions=3", ConfigurationError)
    assert "partitions=1" in said


async def test_partitions_are_recorded_and_found_again(url: str) -> None:
    made = PostgresStore(f"{url}&partitions=4")
    await made.open()
    await made.close()
    again = PostgresStore(url)
    await again.open()
    assert again.partitions == 4
    await again.close()


async def test_a_migration_that_fails_leaves_nothing(
    url: str, schema: str, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = statements.migrations()
    broken = {1: [*scripts[1], "SELECT nonsense"], 2: scripts[2]}
    monkeypatch.setattr(migrating, "migrations", lambda: broken)
    await refused(url, Exception)
    assert await db.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema) == 0
    monkeypatch.undo()
    store = PostgresStore(url)
    await store.open()
    await store.close()


async def test_a_new_version_is_added_while_old_workers_run(
    kit: Kit, schema: str, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await kit.submit()
    scripts = {**statements.migrations(), 99: ["CREATE TABLE novelty (x int)"]}
    monkeypatch.setattr(migrating, "migrations", lambda: scripts)
    await asyncio.gather(*(kit.again() for _ in range(3)))
    version = await db.fetchval(f"SELECT value FROM {schema}.meta WHERE name = 'schema_version'")
    assert version == "99"
    assert [t.id for t in await kit.claim()] == [task.id]


def test_processes_that_open_at_once_make_it_once(url: str) -> None:
    script = (
        "import asyncio, sys\n"
        "from andon.stores.postgres import PostgresStore\n"
        "async def main():\n"
        "    store = PostgresStore(sys.argv[1])\n"
        "    await store.open()\n"
        "    print((await store.info()).schema_version)\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    said = [process.communicate(timeout=60) for process in running]
    assert "".join(errors for _, errors in said) == ""
    assert [version for version, _ in said] == [f"{migrating.newest()}\n"] * 4


async def test_a_schema_that_another_process_makes_meanwhile_is_no_stranger(url: str) -> None:
    location = parse(url)
    db = await asyncpg.connect(location.dsn)
    other = PostgresStore(url)

    class Slow:
        """A connection whose first answer is on its way while another process makes the schema."""

        transaction = db.transaction

        async def fetchval(self, *words: str) -> object:
            found = await db.fetchval(*words)
            await other.open()
            return found

    assert await migrating.read(Slow(), location) is None  # type: ignore[arg-type]
    found = await migrating.read(db, location)
    assert found is not None
    assert found.version == migrating.newest()
    await other.close()
    await db.close()


# --- a schema of version 1 ---


async def _made_by_version_1(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the schema as the first release did, without what it had for functions."""
    scripts = statements.migrations()
    monkeypatch.setattr(migrating, "migrations", lambda: {1: scripts[1]})
    monkeypatch.setattr(migrating, "functions", lambda: ["CREATE FUNCTION put_clock_offset() "
        "RETURNS void LANGUAGE sql AS ''"])  # fmt: skip
    db = await asyncpg.connect(parse(url).dsn)
    try:
        await migrating.prepare(db, parse(url))
    finally:
        await db.close()
        monkeypatch.undo()


async def test_what_was_ready_in_version_1_is_sorted_by_kind(
    url: str, schema: str, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _made_by_version_1(url, monkeypatch)
    kit = Kit(StoreFactory(url, shared=True, durable=True))
    tasks = [
        admit(
            Definition(id=f"t{n}", name=name, version=version, key=key, policy=policy),
            1_000 + n,
            "w",
        )
        for n, (name, version, key, policy) in enumerate(
            [
                ("known", 0, None, Policy()),
                ("unknown", 0, None, Policy()),
                ("known", 2, None, Policy()),
                ("dropped", 0, None, Policy(on_unknown="drop")),
                ("known", 0, "k", Policy()),
                ("known", 0, "k", Policy()),
            ]
        )
    ]
    await db.execute(f"SET search_path = {schema}")
    await db.execute("INSERT INTO name (name) VALUES ('default'), ('job')")
    await db.execute("INSERT INTO lane (queue, partition, level) VALUES (1, 0, 0)")
    await db.execute(
        "INSERT INTO queue (id, body, paused, per_key) VALUES (1, $1, false, 1)",
        msgspec.msgpack.encode(QueueConfig(name="default", max_concurrent_per_key=1)),
    )
    await db.execute("INSERT INTO admitted VALUES (1, 'k', 1)")
    for seq, task in enumerate(tasks, 1):
        await db.execute(
            "INSERT INTO definition VALUES ($1, $2, $3)", seq, task.id, encode(task.definition)
        )
        await db.execute(
            "INSERT INTO task (seq, partition, queue, kind, revision, created, fence, dead, asked, "
            "state, key, body) VALUES ($1, 0, 1, 2, 1, $2, 0, false, false, 'pending', $3, $4)",
            seq,
            task.status.created_at,
            task.definition.key,
            encode(task.status),
        )
        place = [seq, task.status.order]
        if seq == len(tasks):
            await db.execute(
                "INSERT INTO parked VALUES (1, 'k', 0, $2, $1, 1, 2, NULL, NULL, 0)", *place
            )
        else:
            await db.execute("INSERT INTO ready VALUES (1, 2, $2, $1, NULL, NULL, 0)", *place)
    await db.execute("SELECT setval('task_seq', 1024)")
    await kit.open()
    try:
        code = Code.of([("known", 0)])
        assert [t.id for t in await kit.claim(10, code=code)] == ["t0", "t3", "t4"]
        await kit.moved(await kit.there("t4"), Complete())
        assert [t.id for t in await kit.claim(10, code=code)] == ["t5"]
        await kit.moved(await kit.there("t1"), Cancel())
        kinds = [kind.kind for kind in await kit.store.ready_kinds()]
        assert kinds == ["known@2"]
        assert [t.id for t in await kit.claim(10)] == ["t2"]
    finally:
        await kit.close()


async def test_what_others_have_in_the_schema_is_left_alone(
    url: str, schema: str, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await db.execute(f"CREATE SCHEMA {schema}")
    theirs = f"{schema}.theirs()"
    await db.execute(f"CREATE FUNCTION {theirs} RETURNS integer LANGUAGE sql AS 'SELECT 7'")
    await _made_by_version_1(url, monkeypatch)
    store = PostgresStore(url)
    await store.open()
    await store.close()
    assert await db.fetchval(f"SELECT {theirs}") == 7


async def test_a_process_of_version_1_is_told_that_the_schema_is_another(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    """It would enter tasks where nobody looks for them."""
    gone = (
        f"{schema}.claim_tasks(1, '', '', '', '{{1}}', 1, 1, '{{}}', '{{}}', 0, '{{}}', 0, 0, 0)",
        f"{schema}.create_one(1, '', '', '', 0, 1, 1, '', 1, 1, 1, '', '', '', 1, 1, 1, 1, 1)",
        f"{schema}.lane_ids('{{1}}', '{{0}}', '{{0}}')",
    )
    for call in gone:
        with pytest.raises(asyncpg.UndefinedFunctionError):
            await db.execute(f"SELECT {call}")


async def test_every_function_is_known_by_name_and_so_made_anew(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    there = await db.fetch(
        "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = $1::text::regnamespace", schema
    )
    named = {
        name for script in statements.functions() for name in statements.function_names(script)
    }
    assert {row[0] for row in there} == named


async def test_failures_and_flows_of_version_5_are_found_by_name(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    final = Fail(error=TaskError(message="no"), retryable=False)
    await kit.moved(await kit.active("failed", name="mine"), final)
    await kit.moved(await kit.active("other"), final)
    await kit.submit("flow:0", tags=(FLOW_TAG,), group="flow")
    await kit.submit("flow:1", group="flow")
    await kit.store.close()
    await db.execute(f"DROP TABLE {schema}.listed")
    await db.execute(f"UPDATE {schema}.meta SET value = '5' WHERE name = 'schema_version'")
    again = await kit.again()
    failed = await again.find(Query(name="mine", states=(State.FAILED,)))
    assert [task.id for task in failed.tasks] == ["failed"]
    assert [task.id for task in (await again.find(Query(tag=FLOW_TAG))).tasks] == ["flow:0"]


async def test_a_store_of_version_7_pays_no_longer_for_the_index_of_active_keys(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    await kit.submit("t1", key="a")
    await kit.claim()
    await kit.store.close()
    await db.execute(
        f"CREATE INDEX task_active_key ON {schema}.task (queue, key) "
        "WHERE key IS NOT NULL AND state = 'active'"
    )
    await db.execute(f"UPDATE {schema}.meta SET value = '7' WHERE name = 'schema_version'")
    again = await kit.again()
    assert await db.fetchval("SELECT to_regclass($1)", f"{schema}.task_active_key") is None
    assert [task.id for task in (await again.find(Query(queue="default"))).tasks] == ["t1"]
