"""The limit on PostgreSQL: one connection that runs the statements Andon's store ran, with the same
arguments, one after another (`python -m limits.postgres URL PLAN`; see life.py).
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg

from limits import life


@contextmanager
def recording() -> Iterator[list[tuple[Any, ...]]]:
    """While it is open, what every connection runs is kept as well as run."""
    statements: list[tuple[Any, ...]] = []
    fetch = asyncpg.Connection.fetch

    async def kept(connection: asyncpg.Connection, *statement: Any, **options: Any) -> Any:
        statements.append(statement)
        return await fetch(connection, *statement, **options)

    asyncpg.Connection.fetch = kept
    try:
        yield statements
    finally:
        asyncpg.Connection.fetch = fetch


async def repeat(url: str, statements: list[tuple[Any, ...]]) -> float:
    """Seconds that it takes one connection to run them."""
    connection = await asyncpg.connect(url.partition("?")[0])
    try:
        for sql in {statement[0] for statement in statements}:
            await connection.prepare(sql)
        begun = time.perf_counter()
        for statement in statements:
            await connection.fetch(*statement)
        return time.perf_counter() - begun
    finally:
        await connection.close()


if __name__ == "__main__":
    life.main(sys.argv[1], sys.argv[2], recording, repeat)
