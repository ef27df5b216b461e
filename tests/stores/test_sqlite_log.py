"""SQLite's write-ahead log stays small though readers overlap, and readers do not stay long."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from andon.client.ids import new_id
from andon.lifecycle.admission import admit
from andon.model.errors import StoreError
from andon.model.task import Definition, Task
from andon.stores.sqlite import SqliteStore, checkpoint, threads
from andon.stores.sqlite.connection import MOST_LOG_BYTES
from andon.stores.sqlite.location import Location
from andon.stores.sqlite.threads import Reader

OVERLAPPING = """
import sqlite3, sys, time
ends, begins = (sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10) for _ in range(2))
def begin(db):
    db.execute("BEGIN")
    db.execute("SELECT count(*) FROM meta").fetchone()
begin(ends)
print("reads", flush=True)
while True:
    begin(begins)  # before the other ends: somebody reads at all times
    time.sleep(0.003)
    ends.execute("COMMIT")
    ends, begins = begins, ends
"""

PAGE = 4_096
BYTES_EACH = 128 * 1024
WRITTEN = 2 * MOST_LOG_BYTES
PATIENCE_S = 60.0


@contextmanager
def overlapping_readers(database: Path, count: int = 2) -> Iterator[None]:
    """Other processes of which each has a transaction open at all times, none of them for long."""
    command = [sys.executable, "-c", OVERLAPPING, str(database)]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"reads\n"
        yield
        assert all(reader.poll() is None for reader in readers), "they read to the end"
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()


def _size(log: Path) -> int:
    return log.stat().st_size


def _task(store: SqliteStore) -> Task:
    args = b'"' + b"x" * BYTES_EACH + b'"'
    return admit(Definition(id=new_id(), name="job", args=args), store.now(), new_id())


async def _largest_log(database: Path) -> int:
    """Bytes of the log at its largest, while twice as much is written as it may take."""
    store = SqliteStore(f"sqlite:///{database}?synchronous=normal")
    await store.open()
    log, largest, written = Path(f"{database}-wal"), 0, 0
    with overlapping_readers(database):
        while written < WRITTEN:
            await store.create([_task(store) for _ in range(16)])
            written += 16 * BYTES_EACH
            largest = max(largest, _size(log))
    await store.close()
    return largest


def test_the_log_stays_small_while_readers_overlap(tmp_path: Path) -> None:
    assert asyncio.run(_largest_log(tmp_path / "andon.db")) < MOST_LOG_BYTES


def test_whoever_writes_waits_for_checkpoints_that_are_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a busy machine or disk: commits, which only append to the log, go on at full speed."""
    soon = checkpoint.Checkpointer._checkpoint

    def slow(checkpointer: checkpoint.Checkpointer, db: sqlite3.Connection) -> None:
        threading.Event().wait(0.5)
        soon(checkpointer, db)

    monkeypatch.setattr(checkpoint.Checkpointer, "_checkpoint", slow)
    assert asyncio.run(_largest_log(tmp_path / "andon.db")) < MOST_LOG_BYTES


def test_a_writer_does_not_wait_for_checkpoints_that_nobody_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(location: Location, *, write: bool) -> sqlite3.Connection:
        raise StoreError("no more connections")

    monkeypatch.setattr(checkpoint, "connect", refused)
    assert asyncio.run(_largest_log(tmp_path / "andon.db")) > checkpoint.CROWDED * PAGE


def test_it_would_not_if_it_were_not_begun_anew_by_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the readers do overlap, though not at every moment: one that begins just when all of the
    log is in the file does not read the log."""
    begun_anew_at = checkpoint.RESTART * PAGE
    monkeypatch.setattr(checkpoint, "RESTART", 10**9)
    assert asyncio.run(_largest_log(tmp_path / "andon.db")) > 2 * begun_anew_at


def test_a_log_that_somebody_held_up_gives_the_disk_back(tmp_path: Path) -> None:
    async def main() -> None:
        database = tmp_path / "andon.db"
        store = SqliteStore(f"sqlite:///{database}?synchronous=normal")
        await store.open()
        log = Path(f"{database}-wal")
        other = sqlite3.connect(database, isolation_level=None)
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM meta").fetchone()
        while _size(log) <= MOST_LOG_BYTES:
            await store.create([_task(store) for _ in range(32)])
        other.close()
        async with asyncio.timeout(60):
            while _size(log) > MOST_LOG_BYTES:
                await store.create([_task(store) for _ in range(32)])
        await store.close()

    asyncio.run(main())


def test_operations_that_wait_together_do_not_make_one_long_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = sqlite3.connect(tmp_path / "a.db", isolation_level=None, check_same_thread=False)
    begun: list[str] = []
    db.set_trace_callback(lambda sql: begun.append(sql) if sql == "BEGIN" else None)
    now = [0.0]
    monkeypatch.setattr(threads, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def main() -> list[Any]:
        reader = Reader(db, "a.db")

        def takes(seconds: float, what: int) -> Any:
            def look(_db: sqlite3.Connection) -> int:
                now[0] += seconds
                if what == 3:
                    raise ValueError("this one fails alone")
                return what

            return look

        waiting = [
            asyncio.ensure_future(reader.do(takes(threads.LONGEST_SNAPSHOT_S * 0.6, n)))
            for n in range(6)
        ]
        await asyncio.sleep(0)
        reader.start()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        await reader.finish()
        return found

    found = asyncio.run(main())
    assert [f for f in found if isinstance(f, int)] == [0, 1, 2, 4, 5]
    assert isinstance(found[3], ValueError)
    assert len(begun) == 3, "two operations in each"


def test_a_commit_during_a_checkpoint_is_folded_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "LEAST_BYTES", 0)
    began, may_go_on, began_again = (threading.Event() for _ in range(3))
    looked = threading.Semaphore(0)
    look = checkpoint.Checkpointer.look

    def held_up(_checkpointer: checkpoint.Checkpointer, _db: sqlite3.Connection) -> None:
        (began_again if began.is_set() else began).set()
        may_go_on.wait()

    def look_and_tell(checkpointer: checkpoint.Checkpointer, moves: int) -> None:
        look(checkpointer, moves)
        looked.release()

    monkeypatch.setattr(checkpoint.Checkpointer, "_checkpoint", held_up)
    monkeypatch.setattr(checkpoint.Checkpointer, "look", look_and_tell)

    async def main() -> None:
        store = SqliteStore(f"sqlite:///{tmp_path / 'andon.db'}")
        await store.open()
        for _ in range(2):
            await store.create([_task(store)])
            assert await asyncio.to_thread(looked.acquire, timeout=PATIENCE_S)
            assert await asyncio.to_thread(began.wait, PATIENCE_S)
        assert not began_again.is_set()
        may_go_on.set()
        assert await asyncio.to_thread(began_again.wait, PATIENCE_S)
        await store.close()

    asyncio.run(main())
