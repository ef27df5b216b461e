"""How much memory a worker gains while it runs tasks: it should be none that stays.

    python benchmarks/worker_growth.py [--store KIND]... [--from N] [--to N] [--rounds N]

On each store a worker process runs no-op tasks that a client keeps coming. Printed is the worker's
resident memory after `--from` tasks and after `--to`, in MiB, and what lies between: the median of
the rounds, each of a fresh process on a fresh store, the smallest and the largest in brackets; the
count of completed tasks is checked. In the store in memory the client and the worker are one
process and what is completed is discarded at once, since the store itself is what would grow.
`--from` and `--to` are multiples of 500.
"""

import argparse
import asyncio
import multiprocessing
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from embedded_report import told_of
from side_by_side_report import FEWEST
from store_servers import running

from andon import Andon
from andon.bench.app import noop
from andon.bench.processes import WorkerProcess

STORES = ("memory", "sqlite", "redis", "postgres", "nats")
BATCH = 500
UNDER_WAY = 4
"""Batches that are submitted and not all done, at most."""

QUEUE = "growth"


@contextmanager
def fresh(kind: str) -> Iterator[str]:
    """The URL of an empty store of that kind."""
    if kind == "memory":
        yield "memory://"
    elif kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="andon-bench-") as folder:
            yield f"sqlite:///{Path(folder) / 'growth.db'}?synchronous=normal"
    else:
        with running(kind) as server:
            yield server.namespace("growth")


async def gained(url: str, first: int, last: int) -> tuple[float, float]:
    """Resident memory of the worker after `first` and after `last` tasks, in MiB."""
    if url == "memory://":
        return await gained_in_memory(url, first, last)
    async with WorkerProcess(url, QUEUE, concurrency=100) as worker, Andon(url) as app:

        @app.task(name=noop.name, queue=QUEUE)
        async def task(number: int) -> None: ...

        batches: list[Any] = []

        async def submit(start: int) -> None:
            drafts = [task.draft(n) for n in range(start, start + BATCH)]
            batches.append(await app.submit_many(drafts))

        async def oldest_ended() -> None:
            await asyncio.gather(*(handle.result(timeout=300) for handle in batches.pop(0)))

        return await fed(submit, oldest_ended, psutil.Process(worker.pid), first, last)


async def gained_in_memory(url: str, first: int, last: int) -> tuple[float, float]:
    """The same with client, store and worker in this process."""
    async with Andon(url, discard_states=("completed",)) as app:
        ends = asyncio.Semaphore(0)

        @app.task(queue=QUEUE)
        async def count(number: int) -> None:
            ends.release()

        async def submit(start: int) -> None:
            await app.submit_many([count.draft(n) for n in range(start, start + BATCH)])

        async def oldest_ended() -> None:
            for _ in range(BATCH):
                await ends.acquire()

        worker = await app.worker(queues=[QUEUE], concurrency=100)
        await worker.start()
        try:
            return await fed(submit, oldest_ended, psutil.Process(), first, last)
        finally:
            await worker.stop()


async def fed(
    submit: Callable[[int], Awaitable[None]],
    oldest_ended: Callable[[], Awaitable[None]],
    process: psutil.Process,
    first: int,
    last: int,
) -> tuple[float, float]:
    """Keep some batches under way until all have ended; look at both numbers."""
    seen: dict[int, float] = {}
    submitted = 0
    for ended in range(BATCH, last + BATCH, BATCH):
        while submitted < min(ended + BATCH * UNDER_WAY, last):
            await submit(submitted)
            submitted += BATCH
        await oldest_ended()
        if ended in (first, last):
            seen[ended] = process.memory_info().rss / 2**20
    return seen[first], seen[last]


def one_round(kind: str, first: int, last: int) -> tuple[float, float, float]:
    """Memory after `first` tasks, after `last`, and what was gained, on a fresh store."""
    with fresh(kind) as url:
        before, after = asyncio.run(gained(url, first, last))
    return before, after, after - before


def rounds_of(kind: str, first: int, last: int, rounds: int) -> list[tuple[float, float, float]]:
    """Each in a process of its own: in the store in memory the worker's is this one."""
    spawning = multiprocessing.get_context("spawn")
    told = []
    for _ in range(rounds):
        with spawning.Pool(1) as pool:
            told.append(pool.apply(one_round, (kind, first, last)))
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description="How much memory a worker gains.")
    parser.add_argument("--store", action="append", choices=STORES)
    parser.add_argument("--from", dest="first", type=int, default=20_000)
    parser.add_argument("--to", dest="last", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=FEWEST)
    given = parser.parse_args()
    print(f"| store | {given.first:,} tasks | {given.last:,} tasks | gained |")
    print("|---|---|---|---|")
    for kind in given.store or STORES:
        rounds = rounds_of(kind, given.first, given.last, given.rounds)
        cells = (told_of(list(values), 1) for values in zip(*rounds, strict=True))
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
