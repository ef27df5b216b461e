"""Plans of what pages and roll-ups ask of SQLite: each goes by an index, nothing is scanned."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite.statements import CONFIG, READING

ASKED = {
    "a page of ids that begin so": (
        READING.by_id,
        "USING COVERING INDEX sqlite_autoindex_definition",
    ),
    "a page of them, newest first": (
        READING.by_id_newest,
        "USING COVERING INDEX sqlite_autoindex_definition",
    ),
    "how many ids begin so": (
        READING.count_begun,
        "USING COVERING INDEX sqlite_autoindex_definition",
    ),
    "failures of a name": (READING.by_list, "USING PRIMARY KEY (list=? AND seq>?)"),
    "failures of a name, newest first": (
        READING.by_list_newest,
        "USING PRIMARY KEY (list=? AND seq<?)",
    ),
    "a look at dead letters": (READING.by_dead_newest, "USING INDEX task_dead (seq<?)"),
    "failed tasks, newest first": (READING.by_state_newest, "USING COVERING INDEX task_state"),
    "a page of the event log": (READING.events_after, "USING INTEGER PRIMARY KEY"),
    "a setting": (CONFIG.setting, "USING PRIMARY KEY"),
}


@pytest.mark.parametrize("what", ASKED)
def test_what_pages_and_rollups_ask_goes_by_an_index(what: str, tmp_path: Path) -> None:
    path = tmp_path / "andon.db"

    async def make() -> None:
        store = SqliteStore(f"sqlite:///{path}")
        await store.open()
        await store.close()

    asyncio.run(make())
    sql, index = ASKED[what]
    with closing(sqlite3.connect(path)) as db, db:
        given = ["1"] * sql.count("?")
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", given)]
    db.close()
    assert any(index in step for step in plan), plan
    scans = [step for step in plan if step.startswith("SCAN") and "INDEX" not in step]
    assert set(scans) <= {"SCAN (subquery-1)"}, plan  # what the index gave, counted
