"""A file that an earlier schema made goes on working."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conformance.kit import opened

from andon.contract.outcomes import ChangeKind
from andon.contract.queries import Query
from andon.contract.requests import Change, ClaimRequest
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Cancel, Fail
from andon.lifecycle.daily import day_of
from andon.lifecycle.indexes import entry_of
from andon.model.code import Code
from andon.model.errors import StoreError
from andon.model.fleet import Tallied
from andon.model.headers import FLOW_TAG
from andon.model.task import Definition, Task, TaskError
from andon.model.words import State
from andon.stores.kit.codec import encode, encode_event
from andon.stores.kit.partitions import partition_of
from andon.stores.sqlite import SqliteStore, connection, open_file
from andon.stores.sqlite.connection import APPLICATION_ID
from andon.stores.sqlite.statements import schema

NOW = 1_700_000_000_000
FINAL = Fail(error=TaskError(message="no"), retryable=False)


def _pending(task_id: str, **fields: Any) -> Task:
    return admit(Definition(id=task_id, **{"name": "job", **fields}), NOW, f"w-{task_id}")


TASKS = [
    _pending("first"),
    _pending("urgent", priority=3),
    _pending("other", name="other", version=2),
    _pending("elsewhere", queue="mail", name="mail"),
    _pending("keyed", queue="keys", key="k"),
    _pending("parked", queue="keys", key="k"),
]


def _file_of_schema_1(path: Path, partitions: int) -> None:
    """What schema 1 made of these pending tasks: `type` beside each ready entry, no lanes."""
    db = sqlite3.connect(path)
    db.executescript(schema(1))
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute("PRAGMA user_version = 1")
    db.execute("INSERT INTO meta VALUES ('partitions', ?), ('min_writer', 1)", (partitions,))
    names = {name: i for i, name in enumerate(("default", "job", "other", "mail", "keys"), 1)}
    db.executemany("INSERT INTO name VALUES (?, ?)", [(i, name) for name, i in names.items()])
    counts: dict[tuple[int, str], int] = {}
    for seq, task in enumerate(TASKS, 1):
        d, s, entry = task.definition, task.status, entry_of(task)
        queue, partition = names[d.queue], partition_of(d.id, partitions)
        assert entry.ready is not None
        event = s.events[-1]
        db.execute("INSERT INTO definition VALUES (?, ?, ?)", (seq, d.id, encode(d)))
        db.execute(
            "INSERT INTO event VALUES (?, ?, NULL, ?, ?)",
            (seq, seq, event.at, encode_event(event, d.id)),
        )
        db.execute(
            "INSERT INTO task (seq, partition, queue, state, revision, key, last, fence, body) "
            "VALUES (?, ?, ?, 'pending', ?, ?, ?, 0, ?)",
            (seq, partition, queue, s.revision, d.key, seq, encode(s)),
        )
        stands = (-s.priority, s.order, seq, names[d.name])
        if d.id == "parked":
            row = (queue, d.key, *stands, partition)
            db.execute("INSERT INTO parked VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL)", row)
            counts[queue, "+parked"] = 1
        else:
            row = (queue * partitions + partition, *stands)
            db.execute("INSERT INTO ready VALUES (?, ?, ?, ?, ?, NULL, NULL)", row)
        counts[queue, "pending"] = counts.get((queue, "pending"), 0) + 1
    db.execute("INSERT INTO admitted VALUES (?, 'k', 1)", (names["keys"],))
    db.executemany("INSERT INTO counter VALUES (?, ?, ?)", [(*of, n) for of, n in counts.items()])
    db.execute(
        "INSERT INTO queue VALUES ('keys', ?)",
        (encode({"name": "keys", "max_concurrent_per_key": 1}),),
    )
    db.commit()
    db.close()


@pytest.mark.parametrize("partitions", [1, 3])
def test_ready_tasks_of_schema_1_go_to_any_worker(tmp_path: Path, partitions: int) -> None:
    async def main() -> None:
        path = tmp_path / "andon.db"
        _file_of_schema_1(path, partitions)
        store = SqliteStore(f"sqlite:///{path}")
        await store.open()
        kinds = {(ready.queue, ready.kind) for ready in await store.ready_kinds()}
        assert kinds == {
            ("default", "job?"), ("default", "other?"), ("mail", "mail?"), ("keys", "job?"),
        }  # fmt: skip
        claimed: list[str] = []
        for turn in range(2):
            for partition in range(partitions):
                request = ClaimRequest(
                    worker="w", token=f"t{turn}.{partition}", queues=("default", "mail", "keys"),
                    limit=10, lease_ms=30_000, partition=partition, code=Code.of([("none", 0)]),
                )  # fmt: skip
                claimed += [task.id for task in await store.claim(request)]
        assert sorted(claimed) == ["elsewhere", "first", "keyed", "other", "urgent"]
        if partitions == 1:
            assert claimed[:2] == ["urgent", "first"]
        stats = {queue.queue: queue for queue in await store.stats()}
        assert (stats["keys"].parked, stats["keys"].counts) == (1, {"active": 1, "pending": 1})
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("task_id", ["first", "keyed", "parked"])
def test_a_pending_task_of_schema_1_can_be_moved(tmp_path: Path, task_id: str) -> None:
    async def main() -> None:
        path = tmp_path / "andon.db"
        _file_of_schema_1(path, 1)
        store = SqliteStore(f"sqlite:///{path}")
        await store.open()
        [task] = await store.get([task_id])
        assert task is not None
        moved = apply(task, Cancel(), now=store.now(), random=lambda: 0.5, write_id="x")
        change = Change(before=task, after=moved.status, event=moved.event)
        [changed] = await store.commit([change])
        assert changed.kind is ChangeKind.APPLIED
        request = ClaimRequest(
            worker="w", token="t", queues=("default", "mail", "keys"), limit=10, lease_ms=30_000
        )
        claimed = {task.id for task in await store.claim(request)}
        left = {"first", "urgent", "other", "elsewhere"} - {task_id}
        assert claimed == left | {"parked" if task_id == "keyed" else "keyed"}
        assert await store.states([task_id]) == [State.CANCELLED]
        await store.close()

    asyncio.run(main())


def test_what_schema_3_counted_is_kept(tmp_path: Path, runner: asyncio.Runner) -> None:
    path = tmp_path / "andon.db"
    _file_of_schema_1(path, 1)
    earlier = day_of(NOW) - 3
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(schema(2) + schema(3))
        db.execute("PRAGMA user_version = 3")
        rows = [(day_of(NOW), 1, "submitted", 3), (earlier, 1, "failed", 2)]
        db.executemany("INSERT INTO daily VALUES (?, ?, ?, ?)", rows)
    db.close()

    async def counted() -> None:
        store = SqliteStore(f"sqlite:///{path}", clock=lambda: NOW)
        await store.open()
        await store.create([_pending("one more")])
        stats = {queue.queue: queue for queue in await store.stats()}
        assert stats["default"].counts == {"pending": 4}
        assert (stats["keys"].parked, stats["keys"].counts) == (1, {"pending": 2})
        assert (await store.info()).entries == len(TASKS) + 1
        assert sorted(await store.tallies("default", 0), key=lambda one: one.day) == [
            Tallied("default", earlier, "failed", 2),
            Tallied("default", day_of(NOW), "submitted", 4),
        ]
        await store.close()

    runner.run(counted())


@pytest.mark.parametrize("table", ["counter", "daily"])
def test_a_process_that_counts_as_schema_3_did_is_refused(
    tmp_path: Path, runner: asyncio.Runner, table: str
) -> None:
    """It has had the file open since before another process brought it to this schema."""
    path = tmp_path / "andon.db"
    _file_of_schema_1(path, 1)
    older = sqlite3.connect(path)
    older.executescript(schema(2) + schema(3))
    older.execute("PRAGMA user_version = 3")
    older.execute(f"SELECT count(*) FROM {table}").fetchone()

    async def opened() -> None:
        store = SqliteStore(f"sqlite:///{path}")
        await store.open()
        await store.close()

    runner.run(opened())
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        older.execute(f"UPDATE {table} SET n = n + 1")
    older.close()


def test_a_file_that_lacks_a_later_index_is_given_it(
    tmp_path: Path, runner: asyncio.Runner
) -> None:
    path = tmp_path / "andon.db"

    async def opened() -> list[str]:
        store = SqliteStore(f"sqlite:///{path}")
        await store.open()
        later = [_pending(name, run_at=NOW + 10**12 + n) for n, name in enumerate("ba")]
        await store.create(later)
        page = await store.find(Query(states=(State.SCHEDULED,), due_first=True))
        await store.close()
        return [task.id for task in page.tasks]

    assert runner.run(opened()) == ["b", "a"]
    with closing(sqlite3.connect(path)) as db, db:
        version = db.execute("PRAGMA user_version").fetchone()
        db.execute("DROP INDEX task_due")
    assert runner.run(opened()) == ["b", "a"]
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute("PRAGMA user_version").fetchone() == version


def _as_schema_4(path: Path) -> None:
    """Take from a file what schema 5 brought."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE listed")
        db.execute("PRAGMA user_version = 4")
        db.execute("UPDATE meta SET value = 1 WHERE name = 'min_writer'")
    db.close()


def test_failures_and_flows_of_schema_4_are_found_by_name(
    tmp_path: Path, runner: asyncio.Runner
) -> None:
    path = tmp_path / "andon.db"
    url = f"sqlite:///{path}"

    async def filled() -> None:
        async with opened(url) as kit:
            await kit.moved(await kit.active("failed", name="mine"), FINAL)
            await kit.moved(await kit.active("other"), FINAL)
            await kit.submit("flow:0", tags=(FLOW_TAG,), group="flow")
            await kit.submit("flow:1", group="flow")

    async def found() -> tuple[list[str], list[str]]:
        async with opened(url) as kit:
            failed = await kit.find_all(name="mine", states=(State.FAILED,))
            return failed, await kit.find_all(tag=FLOW_TAG)

    runner.run(filled())
    _as_schema_4(path)
    assert runner.run(found()) == (["failed"], ["flow:0"])


def test_a_process_that_knows_no_lists_by_name_is_refused_by_its_next_write(
    tmp_path: Path, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has had the file open since before another process brought it to this schema."""
    url = f"sqlite:///{tmp_path}/andon.db"

    async def main() -> None:
        older = SqliteStore(url)
        await older.open()
        await older.create([_pending("before")])
        await older.close()
        _as_schema_4(tmp_path / "andon.db")
        with monkeypatch.context() as known:
            known.setattr(connection, "SCHEMA_VERSION", 4)
            known.setattr(connection, "WRITER_VERSION", 1)
            known.setattr(open_file, "WRITER_VERSION", 1)
            await older.open()
        newer = SqliteStore(url)
        await newer.open()
        with monkeypatch.context() as known:
            known.setattr(open_file, "WRITER_VERSION", 1)
            with pytest.raises(StoreError, match="Upgrade and restart it"):
                await older.create([_pending("after")])
        await older.close()
        await newer.close()

    runner.run(main())
