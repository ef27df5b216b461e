"""A full disk, a locked, deleted or replaced file of SQLite: an error or a wait, never a loss.

What servers may suffer is in `tests/pressure`.
"""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import selected_stores

from andon.engine.base import Submission
from andon.model.errors import StoreUnavailable
from andon.model.words import State
from andon.stores.sqlite import SqliteStore, threads

from .bench import Bench, on_bench

pytestmark = pytest.mark.crash

LOCKER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
db.execute("COMMIT")
"""


@pytest.fixture
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where a database may be made."""
    if "sqlite" not in selected_stores(request.config):
        pytest.skip("only SQLite keeps its tasks in a file of ours")
    return tmp_path / "andon.db"


def url_of(file: Path) -> str:
    return f"sqlite:///{file}"


async def limit_pages(bench: Bench, pages: int) -> None:
    assert isinstance(bench.store, SqliteStore)
    writer = bench.store._writer
    assert writer is not None
    await writer.do(lambda tx: tx.db.execute(f"PRAGMA max_page_count = {pages}").fetchone())


@pytest.mark.parametrize("depend", [False, True], ids=["each alone", "a chain"])
def test_a_full_disk_refuses_many_whole_and_says_that_it_is_full(
    file: Path, monkeypatch: pytest.MonkeyPatch, depend: bool
) -> None:
    monkeypatch.setattr(threads, "PATIENCE_S", 0.2)

    async def scenario(bench: Bench) -> None:
        await bench.submit("first")
        ids = [f"big{n}" for n in range(100)]
        many = [
            Submission(
                id=task_id,
                name="job",
                args=b'"' + b"x" * 2_000 + b'"',
                dependencies=(ids[n - 1],) if depend and n else (),
            )
            for n, task_id in enumerate(ids)
        ]
        await limit_pages(bench, 1)  # as small as what is there
        with pytest.raises(StoreUnavailable, match="full"):
            await bench.engine.submit(many)
        assert set(await bench.everything()) == {"first"}
        await limit_pages(bench, 1_000_000)
        assert {one.error for one in await bench.engine.submit(many)} == {None}
        assert set(await bench.finish()) == {"first", *ids}

    on_bench(scenario, url_of(file))


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "PATIENCE_S", 0.2)

    async def scenario(bench: Bench) -> None:
        await bench.submit("first")
        await limit_pages(bench, 1)  # as small as what is there
        stored = 0

        async def fill() -> None:
            nonlocal stored
            for n in range(10_000):
                await bench.submit(f"big{n}", args=b'"' + b"x" * 2_000 + b'"')
                stored += 1

        with pytest.raises(StoreUnavailable, match="full"):
            await fill()
        expected = {"first", *(f"big{n}" for n in range(stored))}
        assert set(await bench.everything()) == expected
        await limit_pages(bench, 1_000_000)
        await bench.submit(f"big{stored}", "last")
        expected |= {f"big{stored}", "last"}
        assert set(await bench.finish()) == expected
        assert set((await bench.everything()).values()) == {State.COMPLETED}

    on_bench(scenario, url_of(file))


def test_a_file_that_cannot_grow_refuses_and_goes_on_when_it_can(file: Path) -> None:
    """The system refuses to write (RLIMIT_FSIZE), in a process of its own."""
    program = f"""
import asyncio, resource, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from andon.model.errors import StoreUnavailable
from andon.model.words import State
from andon.stores.sqlite import threads
from crash.bench import Bench

async def main():
    bench = Bench({url_of(file)!r})
    await bench.engine.open()
    await bench.submit("first")
    size = max(f.stat().st_size for f in Path({str(file.parent)!r}).iterdir() if f.is_file())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50_000, resource.RLIM_INFINITY))
    stored = 0
    try:
        for n in range(10_000):
            await bench.submit(f"big{{n}}", args=b'"' + b"x" * 2_000 + b'"')
            stored += 1
    except StoreUnavailable as error:
        print("refused", error)
    names = {{"first", *(f"big{{n}}" for n in range(stored))}}
    assert set(await bench.everything()) == names, "half written"
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    await bench.submit("last")
    assert set(await bench.finish()) == names | {{"last"}}
    assert set((await bench.everything()).values()) == {{State.COMPLETED}}
    await bench.engine.close()
    print("recovered")

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
threads.PATIENCE_S = 0.2
asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[0].startswith("refused")
    assert ended.stdout.splitlines()[-1] == "recovered"


def locker(file: Path) -> subprocess.Popen[str]:
    """Another program that takes the whole database and keeps it until a line comes in."""
    return subprocess.Popen(
        [sys.executable, "-c", LOCKER, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_database_locked_by_another_program_is_waited_for(file: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.submit("before")
        other = locker(file)
        try:
            assert other.stdout is not None
            assert await asyncio.to_thread(other.stdout.readline) == "locked\n"
            waiting = asyncio.ensure_future(bench.submit("during"))
            [task] = await asyncio.wait_for(bench.engine.get(["before"]), 10)
            assert task is not None, "readers wait for nobody"
            done, _ = await asyncio.wait([waiting], timeout=1)
            assert not done, "it was not locked"
            await asyncio.to_thread(other.communicate, "\n")
            await asyncio.wait_for(waiting, 20)
        finally:
            other.kill()
            other.communicate()
        assert set(await bench.finish()) == {"before", "during"}

    on_bench(scenario, url_of(file))


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_goes_under_a_process_is_an_error(file: Path, how: str) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.submit("before")
        kept = file.with_name("kept.db")
        shutil.move(file, kept)
        if how == "replaced":
            shutil.copy(kept, file)
        with pytest.raises(StoreUnavailable, match="deleted or replaced"):
            await bench.submit("lost")
        if how == "deleted":
            shutil.move(kept, file)
            await bench.submit("after")
            assert set(await bench.finish()) == {"before", "after"}

    on_bench(scenario, url_of(file))
