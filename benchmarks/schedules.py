"""How many occurrences one timekeeper fires in a second, and how late each is at 200 a second.

    python benchmarks/schedules.py                        SQLite, in a folder of its own
    python benchmarks/schedules.py redis://…/9            another store, which should be empty

First many schedules come due at once: firing one is a move that bears, its task and the move that
notes it. Then 200 schedules of each second, spread by their jitter, run for a while; the lateness
of an occurrence is the time from when it was due until its record was made. Both parts look up
every occurrence by its id, and fail if one is missing.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from andon.contract.limits import in_batches
from andon.contract.queries import Query
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.engine.opening import open_store
from andon.engine.schedule_requests import ScheduleRequest
from andon.lifecycle.recurrence.occurrences import between, occurrence_id
from andon.model.recurrence import Recurrence

PUT_AT_ONCE = 200
PATIENCE_S = 120


def requests(kind: str, count: int, recurrence: Recurrence) -> list[ScheduleRequest]:
    """As many schedules of one kind."""
    task = Submission(id="", name="job", args=b'{"n":1}')
    return [
        ScheduleRequest(name=f"{kind}{i}", recurrence=recurrence, task=task) for i in range(count)
    ]


async def put(engine: LocalEngine, wanted: list[ScheduleRequest]) -> None:
    """Make them, some hundred at a time."""
    for some in in_batches(wanted, PUT_AT_ONCE):
        groups = [engine.schedules.put([request], "add") for request in some]
        for (outcome,) in await asyncio.gather(*groups):
            if outcome.error is not None:
                raise outcome.error


async def stored(engine: LocalEngine, ids: list[str]) -> list[int]:
    """When each of these was made, ms UTC; fails if one is missing."""
    made: list[int] = []
    for some in in_batches(ids):
        for task_id, task in zip(some, await engine.get(some), strict=True):
            if task is None:
                sys.exit(f"{task_id} is missing.")
            made.append(task.status.created_at)
    return made


async def burst(engine: LocalEngine, count: int) -> dict[str, Any]:
    """Many that come due at once."""
    begun = time.perf_counter()
    await put(engine, requests("burst", count, Recurrence(every=1, anchor=0, count=1)))
    took = time.perf_counter() - begun
    print(f"{count:,} schedules made in {took:.1f} s", file=sys.stderr)
    await asyncio.sleep(1.1)
    begun, cpu = time.perf_counter(), time.process_time()
    for partition in range(engine.store.partitions):
        await engine.timekeeper.run_once(partition)
    took, cpu = time.perf_counter() - begun, time.process_time() - cpu
    ids: list[str] = []
    for i in range(count):
        [record] = await engine.get([f"burst{i}"])
        assert record is not None
        assert record.status.schedule is not None
        ids.append(record.status.schedule.last_id)
    made = await stored(engine, ids)
    print(
        f"{count:,} occurrences fired in {took:.2f} s: {count / took:,.0f} a second, "
        f"{cpu / count * 1e6:,.0f} us of processor time each in this process; all there",
        file=sys.stderr,
    )
    return {
        "per_s": round(count / took),
        "cpu_us": round(cpu / count * 1e6),
        "verified": len(made),
    }


async def behind(engine: LocalEngine, wanted: list[ScheduleRequest], end: int) -> None:
    """Wait until all have fired what falls before `end`: a machine that is busy takes longer."""
    for _ in range(PATIENCE_S):
        records = [r for r in await engine.schedules.live() if r.id.startswith("each")]
        nexts = [r.status.schedule.next_due for r in records if r.status.schedule is not None]
        owing = any(record.status.owes for record in records)
        if not owing and all(at is not None and at > end + 1_000 for at in nexts):
            return
        await asyncio.sleep(1)
    sys.exit(f"Not all {len(wanted)} schedules have come so far within {PATIENCE_S} s more.")


async def lateness(engine: LocalEngine, count: int, seconds: int) -> dict[str, Any]:
    """So many a second, for so many seconds."""
    recurrence = Recurrence(every=1, jitter=1.0, catch_up="all")
    wanted = requests("each", count, recurrence)
    await put(engine, wanted)
    engine.keep_time()
    start = engine.now() + 1_000
    end = start + seconds * 1_000
    await asyncio.sleep(seconds + 3)
    await behind(engine, wanted, end)
    await engine.timekeeper.stop()
    late: list[int] = []
    for request in wanted:
        due = list(between(recurrence, request.name, start=start, end=end))
        made = await stored(engine, [occurrence_id(request.name, one.at) for one in due])
        late += [at - one.due for at, one in zip(made, due, strict=True)]
    late.sort()
    print(
        f"{len(late):,} occurrences at {count} a second, all there; lateness "
        f"p50 {late[len(late) // 2]} ms, p99 {late[len(late) * 99 // 100]} ms, "
        f"worst {late[-1]} ms",
        file=sys.stderr,
    )
    return {
        "p50_ms": late[len(late) // 2],
        "p99_ms": late[len(late) * 99 // 100],
        "worst_ms": late[-1],
        "verified": len(late),
    }


async def measure(url: str, count: int, rate: int, seconds: int) -> None:
    engine = LocalEngine(open_store(url))
    await engine.open()
    try:
        if (await engine.find(Query(limit=1))).tasks:
            sys.exit(f"{url} holds tasks; name an empty store.")
        print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        await burst(engine, count)
        await lateness(engine, rate, seconds)
    finally:
        await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="What one timekeeper fires, and how late.")
    parser.add_argument("url", nargs="?", help="of an empty store; by default SQLite in a folder")
    parser.add_argument("--count", type=int, default=5_000, help="schedules that come due at once")
    parser.add_argument("--rate", type=int, default=200, help="occurrences in a second")
    parser.add_argument("--seconds", type=int, default=20, help="for which these run")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = asked.url or f"sqlite:///{Path(folder) / 'tasks.db'}"
        asyncio.run(measure(url, asked.count, asked.rate, asked.seconds))


if __name__ == "__main__":
    main()
