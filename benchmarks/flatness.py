"""Cost per task with 10 thousand and with 1 million tasks stored: it should be the same.

Both stores are filled with completed tasks (SQLite by bare SQL, the limit's loop; the others by
the store itself), then the store itself is measured on each in turn, A B A B: batches of 100
created, claimed and committed, the look for due timers, a page of a list, and the statistics.
Before that the leases of the filling pass, and what their timers leave is taken, as by any worker:
how busy a store was during its last lease is another question than how much it holds.

    python benchmarks/flatness.py KIND [FEW [MANY]]
"""

import asyncio
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import blocks
import store_servers
from limits.life import claiming, completions, counted, new_tasks

from andon.contract.limits import MAX_BATCH
from andon.contract.queries import Query
from andon.contract.store import Store
from andon.model.words import State
from andon.stores.registry import open_store

BATCH = 100
FILLING = 4
"""Batches under way at once while a store is filled."""

LEASE_MS = 20_000
"""Leases of the filling."""


async def fill(store: Store, n: int) -> None:
    """Let `n` tasks live in the store, to their completion."""
    left, tokens = iter(range(0, n, MAX_BATCH)), itertools.count()

    async def some() -> None:
        for start in left:
            size = min(MAX_BATCH, n - start)
            await store.create(new_tasks(size, store.now()))
            claimed: list[Any] = []
            while len(claimed) < size:
                request = claiming(f"fill-{next(tokens)}", size - len(claimed), LEASE_MS)
                claimed += await store.claim(request)
            await store.commit(completions(claimed, store.now()))

    await asyncio.gather(*(some() for _ in range(FILLING)))
    assert await counted(store, State.COMPLETED) == n
    await settle(store, store.now() + LEASE_MS)


async def settle(store: Store, until: int) -> None:
    """Take what timers leave until that time, and then until nothing is due."""
    while True:
        due = await store.take_due(0, MAX_BATCH, 1_000)
        assert not due.tasks, "every task has completed"
        if due.next_at is None or due.next_at > due.now:
            if due.now >= until:
                return
            await asyncio.sleep(0.2)


class Measured:
    """One filled store."""

    def __init__(self, url: str) -> None:
        self.store = open_store(url)
        self.taken: dict[str, list[float]] = {}
        self._round = 0

    async def once(self) -> None:
        """Measure everything once, per task (or per call), in microseconds."""
        store, now = self.store, self.store.now()
        self._round += 1
        tasks = new_tasks(BATCH, now)
        await self._timed("create", BATCH, lambda: store.create(tasks))
        request = claiming(f"t{self._round}", BATCH)
        claimed = await self._timed("claim", BATCH, lambda: store.claim(request))
        changes = completions(claimed, now)
        assert len(changes) == BATCH
        await self._timed("commit", BATCH, lambda: store.commit(changes))
        await self._timed("due", 1, lambda: store.take_due(0, 100, 1_000))
        page = Query(queue="bench", states=(State.COMPLETED,), limit=50)
        await self._timed("list page of 50", 1, lambda: store.find(page))
        newest = Query(queue="bench", states=(State.COMPLETED,), limit=50, newest_first=True)
        await self._timed("newest page of 50", 1, lambda: store.find(newest))
        await self._timed("stats", 1, store.stats)

    async def _timed(self, name: str, per: int, call: Callable[[], Awaitable[Any]]) -> Any:
        begun = time.perf_counter()
        value = await call()
        self.taken.setdefault(name, []).append((time.perf_counter() - begun) / per * 1e6)
        return value


async def _measure(sides: list[Measured], fills: tuple[int, ...], rounds: int) -> None:
    for side, n in zip(sides, fills, strict=True):
        await side.store.open()
        if n:
            await fill(side.store, n)
    for number in range(rounds):
        for side in sides if number % 2 else sides[::-1]:
            await side.once()
    for side in sides:
        await side.store.close()


def asked(kind: str, *, quick: bool) -> dict[str, Any]:
    """What `make bench ARGS="--store KIND --flat"` keeps."""
    few, many = (500, 2_000) if quick else (10_000, 1_000_000)
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return measure(kind, few, many, rounds=10 if quick else 60) | {"date": date}


def measure(kind: str, few: int, many: int, rounds: int = 60) -> dict[str, Any]:
    """Median microseconds on both stores, and the ratio."""
    with ExitStack() as stack:
        if kind == "sqlite":
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="andon-flat-")))
            urls = [_bare_sqlite(folder / f"{n}.db", n) for n in (few, many)]
            fills, how = (0, 0), ", `synchronous=normal`"
        else:
            server = stack.enter_context(store_servers.running(kind))
            urls = [server.namespace(f"flat{n}") for n in (few, many)]
            fills, how = (few, many), f", {server.about}"
        sides = [Measured(url) for url in urls]
        asyncio.run(_measure(sides, fills, rounds))
        costs = {}
        for name, taken in sides[0].taken.items():
            one, other = taken[5:], sides[1].taken[name][5:]
            a, b = statistics.median(one), statistics.median(other)
            within = blocks.ratios(one, other)
            costs[name] = {"few_us": a, "many_us": b, "ratio": b / a, "within": within}
        return {"few": few, "many": many, "rounds": rounds, "how": how, "costs": costs}


def _bare_sqlite(path: Path, n: int) -> str:
    from limits import sqlite

    bare = sqlite.Bare("normal", sqlite.real_bodies(), path)
    bare.db.execute("INSERT INTO name (id, name) VALUES (1, 'bench'), (2, 'bench.noop')")
    for start in range(0, n, 10_000):
        size = min(10_000, n - start)
        bare.submit(size, 1_000)
        bare.drain(size, 1_000)
    assert bare.counted("completed") == n
    bare.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    bare.db.close()
    return f"sqlite:///{path}?synchronous=normal"


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[2:]]
    few, many = (*sizes, 10_000, 1_000_000)[:2] if len(sizes) != 1 else (sizes[0], 1_000_000)
    print(json.dumps(measure(sys.argv[1], few, many), indent=1))
