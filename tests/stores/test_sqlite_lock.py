"""Writers of one file queue, but for nobody who is stopped."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from andon.client.ids import new_id
from andon.contract.outcomes import CreateKind
from andon.engine.checks import in_line
from andon.engine.findings import Level
from andon.lifecycle.admission import admit
from andon.model.errors import StoreUnavailable
from andon.model.task import Definition, Task
from andon.stores.sqlite import SqliteStore, connection, lock, threads
from andon.stores.sqlite.holders import holders
from andon.stores.sqlite.lock import WriteLock

PATIENCE_S = 60.0


@contextmanager
def stopped_in_line(database: Path, which: str) -> Iterator[None]:
    """Somebody who has one of the two locks and does nothing, as a process that is stopped."""
    file = os.open(f"{database}{which}", os.O_RDWR | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(file)


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lock, "STOPPED_S", 0.05)
    return tmp_path / "andon.db"


def is_free(database: Path) -> bool:
    """Whether nobody has the lock and nobody waits for it."""
    other = WriteLock(database)
    with other:
        ordered = other._holds
    other.close()
    return ordered


def held(mine: WriteLock) -> bool:
    """Whether the lock gives its holder a place in the order."""
    with mine:
        return mine._holds


@pytest.mark.parametrize("which", ["-lock", "-lock-turn"])
def test_a_writer_goes_on_past_one_who_is_stopped_in_line(database: Path, which: str) -> None:
    mine = WriteLock(database)
    assert held(mine)
    with stopped_in_line(database, which):
        assert not held(mine)
        assert not held(mine)
    assert held(mine), "the order is back when the stopped one goes on"
    assert is_free(database)
    mine.close()


def test_one_who_is_stopped_is_waited_for_once(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    mine = WriteLock(database)
    with stopped_in_line(database, "-lock-turn"):
        assert not held(mine)
        assert slept
        slept.clear()
        assert not held(mine)
        assert not slept
    mine.close()


def test_who_waits_comes_through_in_time(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "STOPPED_S", PATIENCE_S)
    mine, other = WriteLock(database), WriteLock(database)
    waits, came = threading.Event(), threading.Event()

    def sleep(seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        waits.set()
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", sleep)

    def wait() -> None:
        with other:
            assert other._holds
            came.set()

    with mine:
        thread = threading.Thread(target=wait)
        thread.start()
        assert waits.wait(PATIENCE_S)
        assert not came.is_set()
    thread.join(PATIENCE_S)
    assert came.is_set()
    assert is_free(database)
    mine.close()
    other.close()


def test_a_store_writes_and_closes_while_another_process_is_stopped_in_line(database: Path) -> None:
    async def main() -> None:
        store = SqliteStore(f"sqlite:///{database}")
        await store.open()
        with stopped_in_line(database, "-lock-turn"):
            task = admit(Definition(id=new_id(), name="job"), store.now(), new_id())
            async with asyncio.timeout(PATIENCE_S):
                [created] = await store.create([task])
                assert created.kind is CreateKind.CREATED
                await store.close()

    asyncio.run(main())


WAITS_IN_LINE = """
import sys
from pathlib import Path
from andon.stores.sqlite import lock
lock.STOPPED_S = 60.0
mine = lock.WriteLock(Path(sys.argv[1]))
print("asks", flush=True)
with mine:
    print("writes", flush=True)
"""

WRITES = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("writes", flush=True)
sys.stdin.read()
"""


def _run(script: str, database: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", script, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _says(process: "subprocess.Popen[bytes]", word: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().decode().strip() == word


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)  # until it stands still


def test_a_process_stopped_in_line_delays_nobody_for_long(database: Path) -> None:
    async def main() -> None:
        store = SqliteStore(f"sqlite:///{database}")
        await store.open()
        with stopped_in_line(database, "-lock"):
            waits = _run(WAITS_IN_LINE, database)
            _says(waits, "asks")
            _wait_for_somebody_in_line(database)
            _stop(waits)
        for _ in range(3):
            async with asyncio.timeout(PATIENCE_S):
                [created] = await store.create([_task(store)])
            assert created.kind is CreateKind.CREATED
        [holder] = holders(database)
        assert (holder.pid, holder.writes, holder.is_stopped) == (waits.pid, False, True)
        assert str(waits.pid) in next(in_line(await store.info())).text
        waits.send_signal(signal.SIGCONT)
        _says(waits, "writes")
        waits.communicate()
        assert [*in_line(await store.info())] == []
        await store.close()

    asyncio.run(main())


def test_a_process_stopped_while_it_writes_is_named(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    monkeypatch.setattr(threads, "PATIENCE_S", 0.1)

    async def main() -> None:
        store = SqliteStore(f"sqlite:///{database}")
        await store.open()
        writes = _run(WRITES, database)
        _says(writes, "writes")
        _stop(writes)
        with pytest.raises(StoreUnavailable, match=f"process {writes.pid}, which is stopped"):
            await store.create([_task(store)])
        [finding] = in_line(await store.info())
        assert finding.level is Level.WRONG
        assert str(writes.pid) in finding.todo
        writes.kill()
        writes.communicate()
        [created] = await store.create([_task(store)])
        assert created.kind is CreateKind.CREATED
        await store.close()

    asyncio.run(main())


def _wait_for_somebody_in_line(database: Path) -> None:
    other = os.open(f"{database}-lock-turn", os.O_RDWR | os.O_CREAT)
    while not _is_taken(other):
        time.sleep(0.001)
    os.close(other)


def _is_taken(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _task(store: SqliteStore) -> Task:
    return admit(Definition(id=new_id(), name="job"), store.now(), new_id())
