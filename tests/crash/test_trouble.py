"""A full disk, a locked, damaged, deleted or replaced file: an error or a wait, never a loss."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Complete, Delete, Fail, Terminate
from andon.model.errors import StoreUnavailable
from andon.model.fleet import QueueStats
from andon.model.task import Task, TaskError
from andon.model.words import State
from andon.stores.base import ClaimRequest, Query
from andon.stores.sqlite import SqliteStore, threads
from andon.testing.ledger import Ledger

pytestmark = pytest.mark.crash

LOCKER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
db.execute("COMMIT")
"""


class Bench:
    """One engine on one file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.store = SqliteStore(f"sqlite:///{file}")
        self.engine = LocalEngine(self.store)

    async def submit(self, *ids: str, **fields: Any) -> None:
        """Submit; raises what the store raises."""
        fields = {"name": "job", **fields}
        outcomes = await self.engine.submit([Submission(id=i, **fields) for i in ids])
        assert [o.error for o in outcomes] == [None] * len(ids)

    async def claim(self, limit: int = 10) -> list[Task]:
        request = ClaimRequest(
            worker="w", token=f"t{time.monotonic_ns()}", queues=("default",), limit=limit,
            lease_ms=30_000,
        )  # fmt: skip
        return await self.engine.claim(request)

    async def finish(self) -> list[str]:
        """Claim and complete all there is."""
        done: list[str] = []
        while tasks := await self.claim():
            for task in tasks:
                assert await self.engine.report(task, Complete()) is State.COMPLETED
                done.append(task.id)
        return done

    async def everything(self) -> dict[str, State]:
        """What is stored, held against the counts and the event log."""
        page = await self.engine.find(Query(limit=1_000))
        found = {task.id: task.state for task in page.tasks}
        ledger, cursor = Ledger(), ""
        while (events := await self.engine.events(cursor)).events:
            ledger.read(events.events)
            cursor = events.cursor
        logged = {task: entry.state for task, entry in ledger.tasks.items() if entry.state}
        assert logged == found
        counts = {state: n for q in await self.engine.stats() for state, n in q.counts.items() if n}
        assert counts == {s.value: list(found.values()).count(s) for s in set(found.values())}
        return found


def on_bench(scenario: Callable[[Bench], Awaitable[None]], file: Path) -> None:
    async def run() -> None:
        bench = Bench(file)
        await bench.engine.open()
        try:
            await scenario(bench)
        finally:
            await bench.engine.close()

    asyncio.run(run())


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "PATIENCE_S", 0.2)

    async def limit_pages(bench: Bench, pages: int) -> None:
        writer = bench.store._writer
        assert writer is not None
        await writer.do(lambda tx: tx.db.execute(f"PRAGMA max_page_count = {pages}").fetchone())

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

    on_bench(scenario, tmp_path / "andon.db")


def test_a_file_that_cannot_grow_refuses_and_goes_on_when_it_can(tmp_path: Path) -> None:
    """The system refuses to write (RLIMIT_FSIZE), in a process of its own."""
    program = f"""
import asyncio, resource, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from andon.model.errors import StoreUnavailable
from andon.model.words import State
from andon.stores.sqlite import threads
from crash.test_trouble import Bench

async def main():
    bench = Bench(Path({str(tmp_path / "andon.db")!r}))
    await bench.engine.open()
    await bench.submit("first")
    size = max(f.stat().st_size for f in Path({str(tmp_path)!r}).iterdir() if f.is_file())
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
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False
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


def test_a_database_locked_by_another_program_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "andon.db"

    async def scenario(bench: Bench) -> None:
        await bench.submit("before")
        other = locker(file)
        try:
            assert other.stdout is not None
            assert await asyncio.to_thread(other.stdout.readline) == "locked\n"
            waiting = asyncio.ensure_future(bench.submit("during"))
            [task] = await asyncio.wait_for(bench.engine.get(["before"]), 2)
            assert task is not None, "readers wait for nobody"
            done, _ = await asyncio.wait([waiting], timeout=3)
            assert not done, "it was not locked"
            await asyncio.to_thread(other.communicate, "\n")
            await asyncio.wait_for(waiting, 5)
        finally:
            other.kill()
            other.communicate()
        assert set(await bench.finish()) == {"before", "during"}

    on_bench(scenario, file)


@pytest.mark.parametrize("state", ["pending", "parked", "active", "retry", "completed", "failed"])
def test_a_damaged_record_is_set_aside_and_the_others_go_on(tmp_path: Path, state: str) -> None:
    file = tmp_path / "andon.db"

    async def scenario(bench: Bench) -> None:
        await bench.engine.configure_queue("default", {"max_concurrent_per_key": 1})
        options = {"retry_delay": 0.0, "lease": 0.2, "retention": 0.2, "dead_letter_retention": 0.2}
        if state == "parked":
            await bench.submit("first", key="k")
        await bench.submit("bad", key="k", unique_key="u", options=options)
        if state in ("active", "retry", "completed", "failed"):
            request = ClaimRequest(
                worker="w", token="bad", queues=("default",), limit=1, lease_ms=200
            )
            [task] = await bench.engine.claim(request)
            await settle(bench, task, state)
        damage(file, "bad")
        await bench.submit("good", key="k")
        bench.engine.timekeeper.start()
        done = 2 if state == "parked" else 1
        queue = await until_counted(bench, {"unknown": 1, "completed": done})
        assert not queue.dead_letters
        assert not queue.parked
        assert [t.id for t in (await bench.engine.find(Query(states=(State.UNKNOWN,)))).tasks] == [
            "bad"
        ]
        await bench.submit("next", unique_key="u")
        assert await bench.finish() == ["next"]
        [acted] = await bench.engine.act(["bad"], Delete())
        assert acted.error is None
        assert await bench.engine.get(["bad"]) == [None]
        await bench.engine.timekeeper.stop()
        await bench.everything()

    on_bench(scenario, file)


async def settle(bench: Bench, task: Task, state: str) -> None:
    error = TaskError(message="x")
    if state == "retry":
        assert await bench.engine.report(task, Fail(error=error, delay=200)) is State.RETRY
    elif state == "failed":
        assert await bench.engine.report(task, Terminate(error=error)) is State.FAILED
    elif state == "completed":
        assert await bench.engine.report(task, Complete()) is State.COMPLETED


async def until_counted(bench: Bench, expected: dict[str, int]) -> QueueStats:
    """Complete what can be, until the counts are these."""
    async with asyncio.timeout(10):
        while True:
            await bench.finish()
            [queue] = await bench.engine.stats()
            if {name: n for name, n in queue.counts.items() if n} == expected:
                return queue
            await asyncio.sleep(0.02)


def damage(file: Path, task_id: str) -> None:
    """Flip bytes in the status of one record, as a bad disk would."""
    db = sqlite3.connect(file)
    with db:
        changed = db.execute(
            "UPDATE task SET body = CAST(x'c1c1' || substr(body, 3) AS BLOB) "
            "WHERE seq = (SELECT seq FROM definition WHERE id = ?)",
            (task_id,),
        )
        assert changed.rowcount == 1
    db.close()


def test_a_damaged_record_can_be_deleted_before_anybody_met_it(tmp_path: Path) -> None:
    file = tmp_path / "andon.db"

    async def scenario(bench: Bench) -> None:
        await bench.submit("bad", "good")
        damage(file, "bad")
        [acted] = await bench.engine.act(["bad"], Delete())
        assert acted.error is None
        assert await bench.finish() == ["good"]
        [queue] = await bench.engine.stats()
        assert {s: n for s, n in queue.counts.items() if n} == {"completed": 1}

    on_bench(scenario, file)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_goes_under_a_process_is_an_error(tmp_path: Path, how: str) -> None:
    file = tmp_path / "andon.db"

    async def scenario(bench: Bench) -> None:
        await bench.submit("before")
        kept = tmp_path / "kept.db"
        if how == "replaced":
            shutil.copy(file, kept)
            file.unlink()
            shutil.copy(kept, file)
        else:
            file.rename(kept)
        with pytest.raises(StoreUnavailable, match="deleted or replaced"):
            await bench.submit("lost")
        if how == "deleted":
            kept.rename(file)
            await bench.submit("after")
            assert set(await bench.finish()) == {"before", "after"}

    on_bench(scenario, file)
