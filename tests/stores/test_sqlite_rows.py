"""Rows in blocks: any number of them is written, counted and found, in few statements."""

import sqlite3
from collections.abc import Iterator

import pytest

from andon.stores.sqlite.rows import find, write

INSERT = "INSERT INTO pair (id, text) VALUES (?, lower(?)) ON CONFLICT DO NOTHING"
FIND = """
WITH wanted (id) AS (VALUES (?)) SELECT id, text FROM wanted CROSS JOIN pair USING (id)
"""


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE pair (id INTEGER PRIMARY KEY, text TEXT)")
    yield db
    db.close()


@pytest.mark.parametrize("count", [0, 1, 2, 7, 31, 32, 33, 64, 100, 200])
def test_any_number_of_rows_is_written_and_found(db: sqlite3.Connection, count: int) -> None:
    assert write(db, INSERT, [(i, f"T{i}") for i in range(count)]) == count
    found = find(db, FIND, [(i,) for i in range(count + 1)])
    assert sorted(found) == [(i, f"t{i}") for i in range(count)]


def test_rows_that_change_nothing_are_not_counted(db: sqlite3.Connection) -> None:
    write(db, INSERT, [(3, "A")])
    assert write(db, INSERT, [(i, "B") for i in range(10)]) == 9
    assert find(db, FIND, [(3,)]) == [(3, "a")]


@pytest.mark.parametrize(("count", "steps"), [(1, 1), (3, 3), (31, 5), (32, 1), (200, 7)])
def test_many_rows_take_few_statements(db: sqlite3.Connection, count: int, steps: int) -> None:
    statements: list[str] = []
    db.set_trace_callback(statements.append)
    write(db, INSERT, [(i, "") for i in range(count)])
    assert sum(one.startswith("INSERT") for one in statements) == steps
