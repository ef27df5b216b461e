"""Many rows in few statements.

`executemany` steps the statement once a row and takes the interpreter's lock back after each. A
block of rows in one `VALUES` is one step: measured 40 % cheaper a row, and other threads run while
SQLite works (docs/decisions). Updates gain nothing from it, so they go through `executemany`.
"""

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain

BLOCK = 50
"""Rows in a block. Larger ones are not cheaper; a statement of each size would have to be kept."""


def insert(db: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    """Insert rows by a statement with one `VALUES (?, …)` whose parameters are not numbered."""
    whole = len(rows) - len(rows) % BLOCK
    for start in range(0, whole, BLOCK):
        block = rows[start : start + BLOCK]
        db.execute(_of_block(statement), list(chain.from_iterable(block)))
    if whole < len(rows):
        db.executemany(statement, rows[whole:])


@cache
def _of_block(statement: str) -> str:
    """The statement with its one row repeated."""
    before, found, after = statement.partition("VALUES (")
    assert found, statement
    depth, end = 1, 0
    while depth:
        depth += {"(": 1, ")": -1}.get(after[end], 0)
        end += 1
    row, rest = f"({after[:end]}", after[end:]
    return f"{before}VALUES {', '.join([row] * BLOCK)}{rest}"
