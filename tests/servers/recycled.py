"""Schemas of a PostgreSQL server that one test after another gets: making one takes the server
longer than what most tests do in it.

A schema goes on to the next test as it was when it had just been made. Where that cannot be shown
it is left alone, and the next test gets another one.
"""

import asyncio
import secrets
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from andon.stores.registry import open_store

MOST_BYTES = 4_000_000
"""What was deleted stays in the files until it is swept up, and slows down who reads past it."""

NAME = "recycled schemas"
"""How its session calls itself."""

PATIENCE_S = 0.5
"""How long sessions that were closed may take to end; then another schema is made."""

# Whatever changes a table, an index, a column or a function writes its row in the catalog anew;
# what counts rows does not.
_SHAPE = """
SELECT
    (SELECT coalesce(sum(pg_relation_size(oid)), 0)::bigint FROM pg_class
        WHERE relnamespace = %(schema)s::regnamespace AND relkind IN ('r', 'i')),
    md5(string_agg(part.what || ':' || part.written, ',' ORDER BY part.what))
FROM (
    SELECT 'r' || oid AS what, xmin::text AS written
    FROM pg_class WHERE relnamespace = %(schema)s::regnamespace
    UNION ALL
    SELECT 'p' || oid, xmin::text FROM pg_proc WHERE pronamespace = %(schema)s::regnamespace
    UNION ALL
    SELECT 't' || oid, xmin::text FROM pg_type WHERE typnamespace = %(schema)s::regnamespace
    UNION ALL
    SELECT 'c' || oid, xmin::text FROM pg_constraint WHERE connamespace = %(schema)s::regnamespace
    UNION ALL
    SELECT 'a' || a.attrelid || '.' || a.attnum, a.xmin::text
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = %(schema)s::regnamespace
) part
"""

# A process id comes again, but not with the same beginning.
_OTHERS = """
SELECT array_agg(format('%%s %%s', pid, backend_start)) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND application_name <> %(own)s
"""

_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = %(schema)s ORDER BY tablename"
_SEQUENCES = "SELECT sequencename FROM pg_sequences WHERE schemaname = %(schema)s ORDER BY 1"


class _Schema(NamedTuple):
    """A schema as it was when it had just been made."""

    namespace: str
    shape: str
    empty_again: bytes  #: SQL that takes all rows out of it but those it was made with


class _Left(NamedTuple):
    """A schema that a test has left, and the sessions there were then."""

    schema: _Schema
    sessions: frozenset[str]


class Recycled:
    """The schemas of one server."""

    def __init__(
        self,
        dsn: str,
        url: Callable[[str], str],
        new_name: Callable[[], str],
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._dsn = dsn
        self._patience_s = patience_s
        self._url = url
        self._new_name = new_name
        self._db: psycopg.Connection[Any] | None = None
        self._left: defaultdict[str, deque[_Left]] = defaultdict(deque)

    @contextmanager
    def url(self, options: str = "") -> Iterator[str]:
        """The URL of a schema in which nothing was stored; who gets it lets go of all that he
        opened on it. `options` are of the schema's making, as in its URL: `&partitions=4`."""
        schema = self._taken_over(options) or self._made(options)
        yield self._url(schema.namespace) + options
        self._left[options].append(_Left(schema, _sessions(self._connected())))

    def close(self) -> None:
        """Leave the server."""
        if self._db is not None:
            self._db.close()

    def _connected(self) -> "psycopg.Connection[Any]":
        """One session for all schemas: its knowledge of the catalog is most of what it takes."""
        if self._db is not None:
            try:
                self._db.execute("SELECT")
            except psycopg.OperationalError:  # a test has ended all sessions
                self._db = None
        if self._db is None:
            self._db = psycopg.connect(self._dsn, autocommit=True, application_name=NAME)
        return self._db

    def _taken_over(self, options: str) -> _Schema | None:
        """A schema that was left, emptied; None if there is none, or one that is not as it was, or
        that somebody may be in."""
        if not self._left[options]:
            return None
        schema, sessions = self._left[options].popleft()
        db = self._connected()
        if not _ended(db, sessions, self._patience_s):
            return None
        size, shape = _look(db, schema.namespace)
        if shape != schema.shape or size > MOST_BYTES:
            return None
        try:
            db.execute(schema.empty_again)
        except psycopg.errors.LockNotAvailable:
            db.execute("ROLLBACK")
            return None
        # Whoever has the former one open is told that it is gone.
        db.execute(
            sql.SQL("UPDATE {} SET value = %s WHERE name = 'birth'").format(
                sql.Identifier(schema.namespace, "meta")
            ),
            [secrets.token_hex(8)],
        )
        return schema

    def _made(self, options: str) -> _Schema:
        namespace = self._new_name()
        asyncio.run(_open_once(self._url(namespace) + options))
        db = self._connected()
        return _Schema(namespace, _look(db, namespace)[1], _emptying(db, namespace))


async def _open_once(url: str) -> None:
    store = open_store(url)
    await store.open()
    await store.close()


def _sessions(db: "psycopg.Connection[Any]") -> frozenset[str]:
    """All client sessions but those of this module."""
    row = db.execute(_OTHERS, {"own": NAME}).fetchone()
    assert row is not None
    return frozenset(row[0] or ())


def _ended(db: "psycopg.Connection[Any]", sessions: frozenset[str], patience_s: float) -> bool:
    patience = time.monotonic() + patience_s
    while sessions and sessions & _sessions(db):
        if time.monotonic() > patience:
            return False
        time.sleep(0.005)
    return True


def _look(db: "psycopg.Connection[Any]", namespace: str) -> tuple[int, str]:
    """How many bytes a schema takes, and its shape."""
    row = db.execute(_SHAPE, {"schema": namespace}).fetchone()
    assert row is not None
    return row


def _emptying(db: "psycopg.Connection[Any]", namespace: str) -> bytes:
    """What puts the schema back to how it is now, but for `birth`: only `meta` has rows."""
    name = {"schema": namespace}
    parts: list[sql.Composable] = [sql.SQL("BEGIN"), sql.SQL("SET LOCAL lock_timeout = '10s'")]
    for (table,) in db.execute(_TABLES, name).fetchall():
        place = sql.Identifier(namespace, table)
        rows = db.execute(sql.SQL("SELECT * FROM {}").format(place)).fetchall()
        assert table == "meta" or not rows, f"{table} has rows from its beginning"
        parts.append(sql.SQL("DELETE FROM {}").format(place))
        parts += [sql.SQL("INSERT INTO {} VALUES ({}, {})").format(place, *row) for row in rows]
    for (sequence,) in db.execute(_SEQUENCES, name).fetchall():
        place = sql.Identifier(namespace, sequence)
        row = db.execute(sql.SQL("SELECT last_value, is_called FROM {}").format(place)).fetchone()
        assert row is not None
        as_text = sql.Literal(place.as_string(db))
        parts.append(sql.SQL("SELECT setval({}, {}, {})").format(as_text, *row))
    parts.append(sql.SQL("COMMIT"))
    return sql.SQL("; ").join(parts).as_bytes(db)
