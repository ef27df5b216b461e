"""Writes and looks up many rows in few statements.

Each step of a statement gives the interpreter's lock away and takes it back. Beside a thread that
computes, such as the loop of a busy service, that takes as long as the switch interval, and
`executemany` steps once a row. A block of rows in one `VALUES` is one step
(docs/decisions/blocks-of-rows.md).
"""

import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

SIZES = (32, 16, 8, 4, 2, 1)
"""Rows in a block: few sizes, since each is a prepared statement of its own, and such that any
number of rows takes few blocks. Larger blocks are not cheaper."""

FEW = 4
"""Fewer rows are not put into blocks: a lone move writes one or two, and that costs more Python."""

Row = Sequence[object]


def write(db: sqlite3.Connection, statement: str, rows: Sequence[Row]) -> int:
    """Run a statement with one `VALUES (?, …)` for many rows; how many rows it changed."""
    if len(rows) < FEW:
        return db.executemany(statement, rows).rowcount if rows else 0
    return sum(db.execute(sql, values).rowcount for sql, values in _blocks(statement, rows))


def find(db: sqlite3.Connection, query: str, rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """All that a query with one `VALUES (?, …)` finds for many rows."""
    found: list[tuple[Any, ...]] = []
    for sql, values in _blocks(query, rows):
        found += db.execute(sql, values)
    return found


def _blocks(statement: str, rows: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    """A statement for each block of the rows, and its values."""
    start, left = 0, len(rows)
    for size in SIZES:
        while left >= size:
            block = rows[start : start + size]
            yield _of_block(statement, size), list(chain.from_iterable(block))
            start += size
            left -= size


@cache
def _of_block(statement: str, size: int) -> str:
    """The statement with its one row repeated."""
    before, found, after = statement.partition("VALUES (")
    assert found, statement
    depth, end = 1, 0
    while depth:
        depth += {"(": 1, ")": -1}.get(after[end], 0)
        end += 1
    row, rest = f"({after[:end]}", after[end:]
    return f"{before}VALUES {', '.join([row] * size)}{rest}"
