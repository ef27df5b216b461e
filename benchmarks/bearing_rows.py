"""One row of `bearing.py`, in a process of its own: `python bearing_rows.py ROW URL SIZE [PID]`.

Prints one line of JSON: what was measured, and `verified`, the number that was counted in the store
afterwards. PID is the server's, whose processor time counts too. Exits with an error if a count is
not what it has to be.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

import psutil
import schedules
from meter import Meter
from msgspec.structs import replace

from andon import State, TaskHandle
from andon.bench.processes import WorkerProcess
from andon.client.flow_handle import FlowHandle
from andon.contract.limits import MAX_BATCH
from andon.contract.queries import Query
from andon.engine.local import LocalEngine
from andon.engine.opening import open_store
from andon.model.recurrence import Recurrence
from andon.model.task import Task
from andon.worker.tuning import tune_process

PATIENCE_S = 3_600.0
IDLE_S = float(os.environ.get("BEARING_IDLE_S", "20"))
RATE = 200


class Wrong(Exception):
    """A count is not what it has to be."""


def check(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise Wrong(f"{what}: {found} instead of {wanted}")


async def with_engine(url: str, row: Callable[[LocalEngine], Awaitable[Any]]) -> Any:
    engine = LocalEngine(open_store(url))
    await engine.open()
    try:
        return await row(engine)
    finally:
        await engine.close()


# --- schedules ---


async def at_rest(url: str, size: int, server: int | None) -> dict[str, Any]:
    """A worker's processor time and memory beside so many schedules that are not due for long."""

    async def row(engine: LocalEngine) -> dict[str, Any]:
        before = await idle(url)
        rare = Recurrence(every=10 * 365 * 86_400)
        await schedules.put(engine, schedules.requests("rest", size, rare))
        after = await idle(url)
        return {
            "core_percent": round(after["core_percent"], 3),
            "core_percent_without": round(before["core_percent"], 3),
            "worker_mb": round(after["mb"], 1),
            "worker_mb_without": round(before["mb"], 1),
            "verified": len(await engine.schedules.live()),
        }

    told = await with_engine(url, row)
    check(told["verified"], size, "live schedules")
    return told


async def idle(url: str) -> dict[str, float]:
    """What a worker process costs that has nothing to do."""
    async with WorkerProcess(url, "bench", concurrency=10) as worker:
        process = psutil.Process(worker.pid)
        await asyncio.sleep(3)
        used = sum(process.cpu_times()[:2])
        await asyncio.sleep(IDLE_S)
        used = sum(process.cpu_times()[:2]) - used
        return {"core_percent": 100 * used / IDLE_S, "mb": process.memory_info().rss / 2**20}


async def fired(url: str, size: int, server: int | None) -> dict[str, Any]:
    """Occurrences that one timekeeper fires in a second."""
    return await with_engine(url, lambda engine: schedules.burst(engine, size))


async def lateness(url: str, size: int, server: int | None) -> dict[str, Any]:
    """How late occurrences are at 200 a second, for so many seconds."""
    return await with_engine(url, lambda engine: schedules.lateness(engine, RATE, size))


# --- flows ---


async def with_worker(url: str, row: Callable[[Any], Awaitable[Any]]) -> Any:
    """The row, with one worker in this process, which is set up as `andon worker` does it."""
    os.environ["ANDON_URL"] = url
    import bearing_app

    tune_process()

    async with bearing_app.app as app, app.working(concurrency=100):
        return await row(app)


async def records(handle: FlowHandle, name: str) -> list[Task]:
    """The tasks of a flow that have this name, as they are stored."""
    engine = await handle.app.engine()
    found: list[Task] = []
    query = Query(group=handle.id, limit=MAX_BATCH)
    while True:
        page = await engine.find(query)
        found += [task for task in page.tasks if task.definition.name == name]
        if not page.cursor:
            return found
        query = replace(query, cursor=page.cursor)


def started(task: Task) -> int:
    """When its last run was claimed, ms UTC by the store's clock."""
    return task.status.runs[-1].claimed_at or 0


def finished(task: Task) -> int:
    return task.status.finished_at or 0


async def chain(url: str, size: int, server: int | None) -> dict[str, Any]:
    """A chain of so many: links in a second, and from the end of one to the start of the next."""

    async def row(app: Any) -> dict[str, Any]:
        count = app.functions["count", 0]
        with app.flow("chain") as flow:
            step = flow.add(count, 0)
            for _ in range(size - 1):
                step = flow.add(count, step.result)
        begun = time.perf_counter()
        handle = await flow.submit()
        counted = await handle.result(timeout=PATIENCE_S)
        took = time.perf_counter() - begun
        check(counted, size, "the last link's count")
        links = sorted(await records(handle, "count"), key=started)
        check({len(one.status.runs) for one in links}, {1}, "runs of each link")
        gaps = [started(b) - finished(a) for a, b in pairwise(links)]
        return {
            "links_per_s": round(size / took),
            "hand_over_p50_ms": statistics.median(gaps),
            "verified": len(links),
        }

    return await with_worker(url, row)


async def fan(url: str, size: int, server: int | None) -> dict[str, Any]:
    """A run fans out so many and they come back: from its end to the start of the closing task."""

    async def row(app: Any) -> dict[str, Any]:
        bearer = await app.functions["scan", 0].submit(size)
        handle = app.flows.handle(await bearer.result(timeout=PATIENCE_S))
        summed = await handle.result(timeout=PATIENCE_S)
        check(summed, size * (size + 1) // 2, "the sum of what the members returned")
        members = await records(handle, "count")
        [closing] = await records(handle, "sum")
        check(len(members), size, "members")
        check({len(one.status.runs) for one in [*members, closing]}, {1}, "runs of each")
        parent = await record(bearer)
        return {
            "seconds": round((started(closing) - finished(parent)) / 1000, 2),
            "after_the_last_ms": started(closing) - max(map(finished, members)),
            "verified": len(members),
        }

    return await with_worker(url, row)


async def record(handle: TaskHandle[Any]) -> Task:
    engine = await handle.app.engine()
    [found] = await engine.get([handle.id])
    assert found is not None
    return found


async def failed(url: str, size: int, server: int | None) -> dict[str, Any]:
    """What a run fanned out that fails for good ends unreachable."""
    return await given_up(url, size, "fails", State.UNREACHABLE)


async def superseded(url: str, size: int, server: int | None) -> dict[str, Any]:
    """What a run fanned out that was tried again ends cancelled."""
    return await given_up(url, size, "fails once", State.CANCELLED)


async def given_up(url: str, size: int, how: str, end: State) -> dict[str, Any]:
    async def row(app: Any) -> dict[str, Any]:
        retries = 1 if how == "fails once" else 0
        bearer = await app.functions["scan", 0].options(max_retries=retries).submit(size, how)
        if how == "fails once":
            await bearer.result(timeout=PATIENCE_S)
        parent = await ended(bearer)
        run = next(run for run in parent.status.runs if run.error is not None)
        assert run.error is not None
        handle = app.flows.handle(run.error.message)
        engine = await app.engine()
        # The progress of the flow would be read from its ten thousand records each time.
        while any(q.counts.get(State.BLOCKED) for q in await engine.stats()):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        members = await records(handle, "count")
        check(len(members), size, "members")
        check({one.state for one in members}, {end}, "how they ended")
        took = (max(map(finished, members)) - finished(parent)) / 1000
        return {"seconds": round(took, 2), "verified": len(members)}

    return await with_worker(url, row)


async def ended(handle: TaskHandle[Any]) -> Task:
    while (found := await record(handle)).status.finished_at is None:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.05)
    return found


async def bears_one(url: str, size: int, server: int | None) -> dict[str, Any]:
    """Tasks that bear one each beside tasks that submit one each, by processor time of worker and
    server, in turns."""

    async def row(app: Any) -> dict[str, Any]:
        used: dict[str, list[float]] = {"bears": [], "submits": []}
        counted = 0
        for turn in range(6):
            for name in ("bears", "submits") if turn % 2 else ("submits", "bears"):
                meter = Meter(server)
                meter.start()
                drafts = [app.functions[name, 0].draft(number) for number in range(size)]
                handles = await app.submit_many(drafts)
                for handle in handles:
                    await handle.result(timeout=PATIENCE_S)
                counted += 2 * size
                await settled(app, counted)
                meter.stop()
                if turn:  # the first is for warming up
                    used[name].append(sum(meter.used.values()) / size / 1000)
        bears, submits = (statistics.median(used[name]) for name in ("bears", "submits"))
        return {
            "times": round(bears / submits, 2),
            "bears_us": round(bears),
            "submits_us": round(submits),
            "verified": counted,
        }

    return await with_worker(url, row)


async def settled(app: Any, wanted: int) -> None:
    """Wait until so many tasks have completed, and check that it is so many."""
    while True:
        queues = await app.queues.list()
        done = sum(queue.stats.counts.get("completed", 0) for queue in queues)
        if done >= wanted:
            check(done, wanted, "completed tasks")
            return
        await asyncio.sleep(0.02)


ROWS: dict[str, Callable[[str, int, int | None], Awaitable[dict[str, Any]]]] = {
    "at_rest": at_rest,
    "fired": fired,
    "lateness": lateness,
    "chain": chain,
    "fan": fan,
    "failed": failed,
    "superseded": superseded,
    "bears_one": bears_one,
}


def main(arguments: Sequence[str]) -> None:
    name, url, size, *pid = arguments
    try:
        told = asyncio.run(ROWS[name](url, int(size), int(pid[0]) if pid else None))
    except Wrong as error:
        sys.exit(f"{name}: {error}")
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])
