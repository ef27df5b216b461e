"""Creates the schema, migrates it step by step, or refuses it.

One process migrates at a time, each version in one transaction. A version changes tables by scripts
of its own, may move their contents, and creates all functions again. Processes of an older release
that call a changed function get an error that says so.
"""

import secrets
from typing import Any

import asyncpg
import msgspec

from andon.model.errors import ConfigurationError, StoreIncompatible
from andon.model.task import RECORD_VERSION
from andon.stores.postgres.listing import enter_lists
from andon.stores.postgres.location import Location
from andon.stores.postgres.sorting import sort_by_kind
from andon.stores.postgres.statements import (
    filled,
    function_names,
    functions,
    indexes,
    migrations,
    quoted,
)

OLDEST_SERVER = 140000

_MOVES = {2: sort_by_kind, 6: enter_lists}
"""The changes to the contents of tables, by version, after its scripts."""

_FORMER_FUNCTIONS = ("link_child",)
"""Functions that only earlier versions had."""

_OUR_FUNCTIONS = """
SELECT p.oid::regprocedure::text FROM pg_proc p
WHERE p.pronamespace = current_schema()::regnamespace AND p.proname = ANY ($1)
"""

_OUR_TABLES = """
SELECT c.oid::regclass::text FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' ORDER BY c.relname
"""

_NEWEST_INDEX = "task_due"
"""The last of the later indexes: they are made in one transaction, so if it exists, all do."""

_ATTEMPTS = 10
"""How often a version is tried again after a deadlock with transactions of older releases."""


class Facts(msgspec.Struct, frozen=True):
    """What a schema records about itself."""

    version: int
    min_writer: int
    partitions: int
    birth: str  #: random, of this making of the schema
    is_indexed: bool  #: none of the later indexes is missing


def newest() -> int:
    """The schema version of this release."""
    return max(migrations())


async def prepare(db: asyncpg.Connection, location: Location) -> Facts:
    """Make or update the schema; refuse what does not fit. Nothing is left half done."""
    server: Any = db.get_server_version()
    if server.major * 10000 < OLDEST_SERVER:
        raise StoreIncompatible(
            f"{location.shown} is PostgreSQL {server.major}; Andon needs 14 or newer. Upgrade it."
        )
    facts = await read(db, location)
    if facts is None or facts.version < newest():
        await _migrate(db, location)
        facts = await read(db, location)
        assert facts is not None
    _refuse(facts, location)
    if not facts.is_indexed:
        await _index(db, location)
    return facts


async def read(db: asyncpg.Connection, location: Location) -> Facts | None:
    """What the schema records about itself; None if there is none (or an empty one)."""
    schema = location.namespace
    async with db.transaction():
        # In one statement, because another process may be creating it: `meta` if there is one, else
        # any other.
        found = await db.fetchval(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = $1 ORDER BY c.relname <> 'meta' LIMIT 1",
            schema,
        )
        if found is None:
            return None
        if found != "meta":
            raise _foreign(location)
        try:
            rows = await db.fetch(
                f"SELECT name, value FROM {quoted(schema)}.meta "  # noqa: S608
                f"UNION ALL SELECT '+index', to_regclass('{quoted(schema)}.{_NEWEST_INDEX}')::text"
            )
        except asyncpg.UndefinedColumnError:
            raise _foreign(location) from None
    values = {row[0]: row[1] for row in rows}
    if values.get("product") != "andon":
        raise _foreign(location)
    return Facts(
        int(values["schema_version"]),
        int(values["min_writer"]),
        int(values["partitions"]),
        values["birth"],
        values["+index"] is not None,
    )


def _foreign(location: Location) -> StoreIncompatible:
    return StoreIncompatible(
        f"Schema {location.namespace} of {location.shown} holds tables that are not Andon's; name "
        "another with ?namespace=."
    )


def _refuse(facts: Facts, location: Location) -> None:
    if facts.version > newest() and facts.min_writer > RECORD_VERSION:
        raise StoreIncompatible(
            f"Schema {location.namespace} of {location.shown} is of version {facts.version}, this "
            f"release knows {newest()}. Upgrade Andon here."
        )
    if location.partitions not in (None, facts.partitions):
        raise ConfigurationError(
            f"Schema {location.namespace} of {location.shown} was made with "
            f"partitions={facts.partitions}; leave the option away, or name another ?namespace=."
        )


async def _migrate(db: asyncpg.Connection, location: Location) -> None:
    if await _make(db, location):
        return
    for version, scripts in sorted(migrations().items()):
        for attempt in range(_ATTEMPTS):
            try:
                async with db.transaction():
                    await _migrate_to(db, location, version, scripts)
                break
            except asyncpg.DeadlockDetectedError:
                # A transaction of an older release held one table and asked for another.
                if attempt == _ATTEMPTS - 1:
                    raise


async def _make(db: asyncpg.Connection, location: Location) -> bool:
    """Make the schema at the newest version, if there is none yet; all versions at once, since
    making the functions takes longer than all the rest."""
    steps = sorted(migrations().items())
    async with db.transaction():
        if await _facts_alone(db, location) is not None:
            return False
        await db.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(location.namespace)}")
        await _settle_in(db, location.namespace)
        for _, scripts in steps:
            await _run(db, scripts, location.namespace)
        await _run(db, [indexes()], location.namespace)
        await _make_functions(db, location.namespace)
        for version, _ in steps:
            if version in _MOVES:
                await _MOVES[version](db)
        await _note(db, location, newest(), is_new=True)
    return True


async def _migrate_to(
    db: asyncpg.Connection, location: Location, version: int, scripts: list[str]
) -> None:
    facts = await _facts_alone(db, location)
    if facts is None or facts.version >= version:
        return
    await _settle_in(db, location.namespace)
    await _lock_tables(db)
    await _run(db, scripts, location.namespace)
    await _make_functions(db, location.namespace)
    if version in _MOVES:
        await _MOVES[version](db)
    await _note(db, location, version, is_new=False)


async def _index(db: asyncpg.Connection, location: Location) -> None:
    """Make the later indexes where they are missing. Writes wait for it, reads do not."""
    async with db.transaction():
        await _facts_alone(db, location)
        await _settle_in(db, location.namespace)
        await _run(db, [indexes()], location.namespace)


async def _facts_alone(db: asyncpg.Connection, location: Location) -> Facts | None:
    """What the schema records about itself, while no other process creates or migrates it: others
    that open at the same time wait here, and then find that nothing is left to do."""
    await db.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"andon {location.namespace}"
    )
    return await read(db, location)


async def _settle_in(db: asyncpg.Connection, schema: str) -> None:
    await db.execute(f"SET LOCAL search_path = {quoted(schema)}, pg_temp")
    await db.execute("SET LOCAL check_function_bodies = off")


async def _run(db: asyncpg.Connection, scripts: list[str], schema: str) -> None:
    for script in scripts:
        await db.execute(filled(script, schema))


async def _lock_tables(db: asyncpg.Connection) -> None:
    """Wait for the transactions of older releases, and keep new ones out until this one ends.

    Otherwise what they commit between a script's first look and its first change is lost.
    """
    tables = [row[0] for row in await db.fetch(_OUR_TABLES)]
    if tables:
        await db.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")


async def _make_functions(db: asyncpg.Connection, schema: str) -> None:
    """Create all functions again. Other objects in the schema (an extension's) are left alone."""
    scripts = functions()
    names = [name for script in scripts for name in function_names(script)]
    for row in await db.fetch(_OUR_FUNCTIONS, [*names, *_FORMER_FUNCTIONS]):
        await db.execute(f"DROP ROUTINE {row[0]}")
    await db.execute("DROP TYPE IF EXISTS change, new_task")
    for script in scripts:
        await db.execute(filled(script, schema))
    await db.execute("SELECT put_clock_offset()")


async def _note(db: asyncpg.Connection, location: Location, version: int, *, is_new: bool) -> None:
    values = {"schema_version": str(version)}
    if is_new:
        values |= {
            "product": "andon",
            "min_writer": "1",
            "partitions": str(location.partitions or 1),
            "birth": secrets.token_hex(8),
            "log_start": "0",
            "counts_from": "0",
        }
    for name, value in values.items():
        await db.execute(
            "INSERT INTO meta (name, value) VALUES ($1, $2) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            name,
            value,
        )
