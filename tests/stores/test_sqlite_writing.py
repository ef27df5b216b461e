"""How the SQLite store's writer groups what it writes, whom it tells when, and its log."""

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from andon.client.ids import new_id
from andon.contract.outcomes import CreateKind
from andon.contract.topics import EVENTS_TOPIC, ready_topic
from andon.lifecycle.admission import admit
from andon.model.task import Definition, Task
from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite.checkpoint import GROWTH, Checkpointer, Log
from andon.stores.sqlite.location import parse
from andon.stores.sqlite.transaction import Transaction

PATIENCE_S = 60.0


def _task(store: SqliteStore) -> Task:
    return admit(Definition(id=new_id(), name="job"), store.now(), new_id())


async def _run_together(store: SqliteStore, joins: Any) -> tuple[list[object], list[object]]:
    """An operation, and `joins`, handed over while the first runs: their transactions and ends."""
    runs, is_handed_over = threading.Event(), threading.Event()
    transactions: list[object] = []

    def first(tx: object) -> str:
        runs.set()
        assert is_handed_over.wait(PATIENCE_S)
        transactions.append(tx)
        return "first"

    def second(tx: object) -> str:
        transactions.append(tx)
        return joins()

    one = asyncio.ensure_future(store._write(first))
    assert await asyncio.to_thread(runs.wait, PATIENCE_S)
    two = asyncio.ensure_future(store._write(second))
    await asyncio.sleep(0)  # it is handed over now
    is_handed_over.set()
    return transactions, list(await asyncio.gather(one, two, return_exceptions=True))


def test_what_comes_while_a_transaction_is_made_joins_it(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(f"sqlite:///{tmp_path / 'andon.db'}")
        await store.open()
        transactions, ended = await _run_together(store, lambda: "second")
        await store.close()
        assert ended == ["first", "second"]
        assert transactions[0] is transactions[1]

    asyncio.run(main())


def test_what_joins_a_transaction_and_fails_fails_alone(tmp_path: Path) -> None:
    async def main() -> None:
        def fail() -> None:
            raise ValueError("no")

        store = SqliteStore(f"sqlite:///{tmp_path / 'andon.db'}")
        await store.open()
        _, ended = await _run_together(store, fail)
        await store.close()
        assert ended[0] == "first"
        assert isinstance(ended[1], ValueError)

    asyncio.run(main())


class _CommitsWhen:
    """A connection whose commits wait for an event."""

    def __init__(self, db: sqlite3.Connection, event: threading.Event) -> None:
        self._db = db
        self._event = event
        self.came_in_time = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, sql: str, *parameters: Any) -> Any:
        if sql == "COMMIT":
            self.came_in_time = self._event.wait(PATIENCE_S)
        return self._db.execute(sql, *parameters)


def test_another_store_hears_of_new_work_before_it_is_on_disk(tmp_path: Path) -> None:
    async def main() -> None:
        url = f"sqlite:///{tmp_path / 'andon.db'}"
        submits, works = SqliteStore(url), SqliteStore(url)
        await submits.open()
        await works.open()
        hinted = threading.Event()
        writer = submits._writer
        assert writer is not None
        commits = _CommitsWhen(writer._db, hinted)
        writer._db = commits  # type: ignore[assignment]
        with works.listen([ready_topic("default")]) as listener:
            creating = asyncio.ensure_future(submits.create([_task(submits)]))
            if await listener.wait(PATIENCE_S):
                hinted.set()
            await creating
        await submits.close()
        await works.close()
        assert commits.came_in_time

    asyncio.run(main())


def test_what_is_written_just_before_the_close_is_hinted_too(tmp_path: Path) -> None:
    async def main() -> None:
        url = f"sqlite:///{tmp_path / 'andon.db'}"
        watches = SqliteStore(url)
        await watches.open()
        for _ in range(10):
            submits = SqliteStore(url)
            await submits.open()
            with watches.listen([EVENTS_TOPIC]) as listener:
                await submits.create([_task(submits)])
                await submits.close()
                assert await listener.wait(PATIENCE_S)
        await watches.close()

    asyncio.run(main())


@pytest.fixture
def database(tmp_path: Path) -> Any:
    db = _connected(tmp_path)
    db.execute("CREATE TABLE t (body BLOB)")
    yield db
    db.close()


def _connected(folder: Path) -> sqlite3.Connection:
    db = sqlite3.connect(folder / "log.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    return db


def _add_pages(db: sqlite3.Connection, count: int) -> None:
    """Each row is committed alone, and adds a page of its own and the one that points to it."""
    db.executemany("INSERT INTO t VALUES (?)", [(bytes(3_000),)] * (count // 2))


def test_the_log_has_grown_once_each_so_many_pages(tmp_path: Path, database: Any) -> None:
    log = Log(tmp_path / "log.db")
    assert not log.has_grown()
    _add_pages(database, GROWTH + 100)
    assert log.has_grown()
    assert not log.has_grown()
    log.close()


def test_a_log_that_was_folded_counts_from_its_start(tmp_path: Path, database: Any) -> None:
    log = Log(tmp_path / "log.db")
    _add_pages(database, GROWTH + 100)
    assert log.has_grown()
    busy, _, _ = database.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    assert not busy
    _add_pages(database, 100)
    assert not log.has_grown()
    _add_pages(database, GROWTH)
    assert log.has_grown()
    log.close()


def test_a_log_that_was_cut_counts_from_its_start_whoever_writes_it(
    tmp_path: Path, database: Any
) -> None:
    log = Log(tmp_path / "log.db")
    _add_pages(database, 2 * GROWTH + 100)
    assert log.has_grown()
    busy, _, _ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not busy
    assert log.size == 0
    assert not log.has_grown()
    another = _connected(tmp_path)
    _add_pages(another, 100)
    assert not log.has_grown()
    _add_pages(another, GROWTH)
    assert log.has_grown()
    assert not log.has_grown()
    another.close()
    log.close()


def test_a_commit_after_the_last_checkpoint_leaves_no_file_open(
    tmp_path: Path, database: Any
) -> None:
    def open_logs() -> int:
        return sum(file.path.endswith("-wal") for file in psutil.Process().open_files())

    async def main() -> None:
        before = open_logs()
        checkpointer = Checkpointer(parse(f"sqlite:///{tmp_path / 'log.db'}"))
        checkpointer.start()
        await checkpointer.finish()
        _add_pages(database, 2)
        checkpointer.look(1)
        assert open_logs() == before + 1
        checkpointer.release()
        assert open_logs() == before

    asyncio.run(main())


@pytest.mark.parametrize("fails", ["_committing", "_committed"])
def test_hints_that_fail_fail_no_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    """The writer's thread serves everybody: it goes on whatever its listeners do."""

    async def main() -> None:
        store = SqliteStore(f"sqlite:///{tmp_path / 'andon.db'}")
        await store.open()
        writer = store._writer
        assert writer is not None

        def fail(_transaction: object) -> None:
            raise RuntimeError("nobody hears this")

        setattr(writer, fails, fail)
        for _ in range(3):
            async with asyncio.timeout(PATIENCE_S):
                [created] = await store.create([_task(store)])
            assert created.kind is CreateKind.CREATED
        await store.close()

    asyncio.run(main())
    assert "nobody hears this" in caplog.text


def test_who_waits_is_told_also_when_a_thread_errs(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(f"sqlite:///{tmp_path / 'andon.db'}")
        await store.open()
        reader = store._reader
        assert reader is not None
        run_group = reader._run_group

        def fail(_group: object) -> None:
            reader._run_group = run_group  # type: ignore[method-assign]
            raise RuntimeError("a defect")

        reader._run_group = fail  # type: ignore[method-assign]
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(RuntimeError, match="a defect"):
                await store.stats()
            assert await store.stats() == []
        await store.close()

    asyncio.run(main())


def test_what_joins_a_transaction_is_dated_when_it_joins(tmp_path: Path) -> None:
    """Else a claim would be dated before the end of the run that made room for it."""

    async def main() -> None:
        moment = [1_700_000_000_000]
        url = f"sqlite:///{tmp_path / 'andon.db'}"
        store = SqliteStore(url, clock=lambda: moment[0])
        await store.open()
        runs, is_handed_over = threading.Event(), threading.Event()

        def first(tx: Transaction) -> int:
            runs.set()
            assert is_handed_over.wait(PATIENCE_S)
            return tx.now

        one = asyncio.ensure_future(store._write(first))
        assert await asyncio.to_thread(runs.wait, PATIENCE_S)
        moment[0] += 7
        two = asyncio.ensure_future(store._write(lambda tx: tx.now))
        await asyncio.sleep(0)  # it is handed over now
        is_handed_over.set()
        assert await two == await one + 7
        await store.close()

    asyncio.run(main())
