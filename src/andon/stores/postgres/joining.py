"""Creates tasks on a connection of the user's, in the user's transaction.

The call is the same as the store's own, but it neither locks nor updates anything that others wait
for, and its notifications are part of the transaction: they are sent if and when that commits.

Connections of psycopg, asyncpg, SQLAlchemy and Django are recognised by the modules of their
classes, so that none of these has to be installed.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from andon.contract.outcomes import Created
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.model.words import State
from andon.stores.postgres.creating import Creation
from andon.stores.postgres.errors import code_of

COLUMNS = (
    "told", "pos", "wanted", "promoted", "outcomes", "states", "digests", "bodies", "holders",
)  # fmt: skip
_TYPES = (
    "bigint", "text", "boolean", "text[]", "bytea[]", "integer[]", "integer[]",
    "text[]", "bigint[]", "bigint[]", "bigint[]", "text[]", "text[]", "boolean[]", "bytea[]",
    "bytea[]", "integer[]", "integer[]", "bigint[]", "bigint[]", "bigint[]", "integer[]", "text[]",
    "bigint[]", "text[]", "bigint[]", "text[]", "bigint[]", "text[]",
    "integer[]", "integer[]", "text[]", "integer[]", "bigint[]", "boolean", "boolean",
)  # fmt: skip
_NOTIFY_TYPES = ("text[]", "text[]")
_STATES_TYPES = ("text[]", "bigint")

_FIRST_COLUMN = 3
"""Place of the first column among the arguments."""

_BITS = {"integer[]": 32, "bigint[]": 64}

_KNOWN = "psycopg, asyncpg, SQLAlchemy (a connection or a session) or Django"

Row = dict[str, Any]
Notes = Callable[[Row], tuple[list[str], list[str]]]


def refuse_unwritable(ids: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
    """Raise `InvalidSubmission` for the first record with a value that the server would refuse: in
    the user's transaction, that would undo everything the user did there too."""
    for kind, column in zip(_TYPES[_FIRST_COLUMN:], columns, strict=False):
        for task_id, value in zip(ids, column, strict=False):
            if (why := _wrong_with(value, kind)) is not None:
                raise InvalidSubmission(f"Task {task_id!a} cannot be stored: {why}.")


def _wrong_with(value: Any, kind: str) -> str | None:
    if isinstance(value, str):
        if "\0" in value:
            return f"PostgreSQL keeps no NUL in text, as in {value[:80]!a}"
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"{value[:80]!a} is no text that UTF-8 can encode"
    elif kind in _BITS and isinstance(value, int) and value.bit_length() >= _BITS[kind]:
        return f"{str(value)[:40]} is no {kind[:-2]}"
    return None


class Calls(NamedTuple):
    """The statements that run on a connection of the user's."""

    create: str
    notify: str
    states: str


class Joined:
    """One creation to be made in a transaction of the user's, whole or in parts."""

    def __init__(
        self,
        calls: Calls,
        creation: Creation,
        columns: Sequence[Sequence[Any]],
        *,
        summary: Callable[[Creation], Sequence[Any]],
        now: Callable[[], int],
        notes: Notes,
    ) -> None:
        self._calls = calls
        self._creation = creation
        self._columns = columns
        self._summary = summary
        self._now = now
        self._notes = notes

    def create(self, connection: Any, places: Sequence[int] | None = None) -> list[Created]:
        """Make it on a connection whose calls block, in the thread that may use it."""
        run = _blocking(connection)
        part, arguments = self._part(places)
        try:
            row = _row(run(*_percent(self._calls.create, _TYPES, arguments)))
        except Exception as error:
            raise _explained(error) from error
        channels, payloads = self._notes(row)
        if channels:
            run(*_percent(self._calls.notify, _NOTIFY_TYPES, [channels, payloads]))
        return part.outcomes(row)

    async def create_async(
        self, connection: Any, places: Sequence[int] | None = None
    ) -> list[Created]:
        """Make it on a connection whose calls are awaited, on the loop it belongs to."""
        driver = await _of_sqlalchemy(connection)
        part, arguments = self._part(places)
        try:
            row = _row(await _awaited(driver, self._calls.create, _TYPES, arguments))
        except Exception as error:
            raise _explained(error) from error
        channels, payloads = self._notes(row)
        if channels:
            await _awaited(driver, self._calls.notify, _NOTIFY_TYPES, [channels, payloads])
        return part.outcomes(row)

    def states(self, connection: Any, ids: Sequence[str]) -> list[State | None]:
        """States as the transaction sees them, on a connection whose calls block."""
        run = _blocking(connection)
        try:
            rows = run(*_percent(self._calls.states, _STATES_TYPES, [list(ids), self._now()]))
        except Exception as error:
            raise _explained(error) from error
        return _states(rows)

    async def states_async(self, connection: Any, ids: Sequence[str]) -> list[State | None]:
        """The same on a connection whose calls are awaited."""
        driver = await _of_sqlalchemy(connection)
        arguments = [list(ids), self._now()]
        try:
            rows = await _awaited(driver, self._calls.states, _STATES_TYPES, arguments)
        except Exception as error:
            raise _explained(error) from error
        return _states(rows)

    def _part(self, places: Sequence[int] | None) -> tuple[Creation, list[Any]]:
        """The statement that creates it, and its arguments."""
        creation, columns = self._creation, self._columns
        if places is not None:
            creation = creation.only(places)
            columns = [[column[i] for i in places] for column in columns]
        # no instance: the commit wakes this process, too
        return creation, [self._now(), "", True, *columns, *self._summary(creation)]


def is_awaited(connection: Any) -> bool:
    """Whether the connection's calls are awaited. Raises `TypeError` for what is no connection."""
    names = _origins(connection)
    if names & {
        "asyncpg.connection.Connection",
        "asyncpg.pool.PoolConnectionProxy",
        "psycopg.connection_async.AsyncConnection",
        "psycopg.AsyncConnection",
        "sqlalchemy.ext.asyncio.engine.AsyncConnection",
        "sqlalchemy.ext.asyncio.session.AsyncSession",
        "sqlalchemy.ext.asyncio.scoping.async_scoped_session",
    }:
        return True
    _blocking(connection)
    return False


def _blocking(connection: Any) -> Callable[[str, list[Any]], list[Any]]:
    """How to run a statement on a connection whose calls block."""
    names = _origins(connection)
    if names & {"sqlalchemy.orm.session.Session", "sqlalchemy.orm.scoping.scoped_session"}:
        connection = connection.connection()
        names = _origins(connection)
    if "sqlalchemy.engine.base.Connection" in names:
        connection = _psycopg_of_sqlalchemy(connection)
        names = _origins(connection)
    if names & {"psycopg.connection.Connection", "psycopg.Connection"}:
        return lambda sql, arguments: _on_psycopg(connection, sql, arguments)
    if hasattr(connection, "vendor") and hasattr(connection, "settings_dict"):
        if connection.vendor != "postgresql":
            raise ConfigurationError(
                f"The Django connection leads to {connection.vendor}; tasks are created in the "
                "PostgreSQL database that the store is in."
            )
        return lambda sql, arguments: _on_django(connection, sql, arguments)
    raise TypeError(
        f"connection= takes a connection of {_KNOWN}, not {type(connection).__module__}."
        f"{type(connection).__qualname__}."
    )


def _origins(connection: Any) -> set[str]:
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(connection).__mro__}


def _percent(sql: str, types: Sequence[str], arguments: list[Any]) -> tuple[str, list[Any]]:
    """The statement with `%s` in place of `$n`; the types let drivers send anything."""
    for number in range(len(types), 0, -1):
        sql = sql.replace(f"${number}", f"%s::{types[number - 1]}")
    return sql, arguments


def _states(rows: Sequence[Any]) -> list[State | None]:
    return [None if row[0] is None else State(row[0]) for row in rows]


def _row(rows: Sequence[Any]) -> Row:
    return dict(zip(COLUMNS, tuple(rows[0]), strict=True))


def _on_psycopg(connection: Any, sql: str, arguments: list[Any]) -> list[Any]:
    from psycopg.rows import tuple_row

    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(sql, arguments).fetchall()


def _on_django(connection: Any, sql: str, arguments: list[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, arguments)
        return cursor.fetchall()


def _psycopg_of_sqlalchemy(connection: Any) -> Any:
    if connection.dialect.name != "postgresql" or connection.dialect.driver != "psycopg":
        raise TypeError(
            f"connection= takes a SQLAlchemy connection by psycopg (postgresql+psycopg://), not by "
            f"{connection.dialect.name}+{connection.dialect.driver}."
        )
    return connection.connection.driver_connection


async def _of_sqlalchemy(connection: Any) -> Any:
    """The driver's connection beneath an async one of SQLAlchemy, with its transaction begun."""
    names = _origins(connection)
    if names & {
        "sqlalchemy.ext.asyncio.session.AsyncSession",
        "sqlalchemy.ext.asyncio.scoping.async_scoped_session",
    }:
        connection = await connection.connection()
        names = _origins(connection)
    if "sqlalchemy.ext.asyncio.engine.AsyncConnection" not in names:
        return connection
    dialect = connection.dialect
    if dialect.name != "postgresql" or dialect.driver not in (
        "asyncpg",
        "psycopg",
        "psycopg_async",
    ):
        raise TypeError(
            "connection= takes an async SQLAlchemy connection by asyncpg or psycopg, not by "
            f"{dialect.name}+{dialect.driver}."
        )
    # SQLAlchemy begins the driver's transaction with its own first statement, not with ours.
    await connection.exec_driver_sql("SELECT 1")
    return (await connection.get_raw_connection()).driver_connection


async def _awaited(driver: Any, sql: str, types: Sequence[str], arguments: list[Any]) -> Any:
    names = _origins(driver)
    if names & {"asyncpg.connection.Connection", "asyncpg.pool.PoolConnectionProxy"}:
        return await driver.fetch(sql, *arguments)
    from psycopg.rows import tuple_row

    async with driver.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(*_percent(sql, types, arguments))
        return await cursor.fetchall()


def _explained(error: Exception) -> Exception:
    """The driver's own error, or a `ConfigurationError` if the database does not have the store."""
    if code_of(error) in ("3F000", "42883"):
        return ConfigurationError(
            "The connection leads to a database, or a search path, without the store's schema; use "
            "one to the database in the store's URL."
        )
    return error
