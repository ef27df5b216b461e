"""Cost per task with 10 thousand and with 1 million tasks stored: it should be the same.

Both stores are filled with completed tasks by bare SQL (the limit's loop), then the store itself
is measured on each in turn, A B A B: batches of 100 created, claimed and committed, the look for
due timers, a page of a list, and the statistics.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import limit

from andon.client.ids import IdMaker
from andon.engine.control import change_of
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Complete
from andon.model.task import Definition
from andon.model.words import State
from andon.stores.base import ClaimRequest, Query
from andon.stores.sqlite.store import SqliteStore

BATCH = 100


def filled(n: int, bodies: list[limit.Bodies]) -> limit.Bare:
    """A store with `n` completed tasks."""
    bare = limit.Bare("normal", bodies)
    bare.db.execute("INSERT INTO name (id, name) VALUES (1, 'bench'), (2, 'bench.noop')")
    for start in range(0, n, 10_000):
        size = min(10_000, n - start)
        bare.submit(size, 1_000)
        bare.drain(size, 1_000)
    assert bare.counted("completed") == n
    bare.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    bare.db.close()
    return bare


class Measured:
    """One filled store, opened as Andon opens it."""

    def __init__(self, bare: limit.Bare) -> None:
        self._bare = bare
        self.store = SqliteStore(f"sqlite:///{bare.folder / 'bare.db'}?synchronous=normal")
        self.taken: dict[str, list[float]] = {}
        self._ids = IdMaker()
        self._round = 0

    async def once(self) -> None:
        """Measure everything once, per task (or per call), in microseconds."""
        store, now = self.store, self.store.now()
        self._round += 1
        tasks = [
            admit(Definition(id=self._ids(), name="bench.noop", queue="bench"), now, f"w{i}")
            for i in range(BATCH)
        ]
        await self._timed("create", BATCH, lambda: store.create(tasks))
        request = ClaimRequest(
            worker="w",
            token=f"t{self._round}",
            queues=("bench",),
            limit=BATCH,
            lease_ms=600_000,
        )
        claimed = await self._timed("claim", BATCH, lambda: store.claim(request))
        changes = [
            change_of(task, apply(task, Complete(result=b"null"), now=now, random=lambda: 0.5))
            for task in claimed
        ]
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

    def close(self) -> None:
        """Remove the file."""
        self._bare.close()


async def _measure(small: Measured, large: Measured, rounds: int) -> None:
    for side in (small, large):
        await side.store.open()
    for number in range(rounds):
        for side in (small, large) if number % 2 else (large, small):
            await side.once()
    for side in (small, large):
        await side.store.close()


def measure(few: int, many: int, bodies: list[limit.Bodies], rounds: int = 60) -> dict[str, Any]:
    """Median microseconds on both stores, and the ratio."""
    sides = [Measured(filled(few, bodies)), Measured(filled(many, bodies))]
    try:
        asyncio.run(_measure(*sides, rounds))
        outcome = {}
        for name, taken in sides[0].taken.items():
            a = statistics.median(taken[5:])
            b = statistics.median(sides[1].taken[name][5:])
            outcome[name] = {"few_us": a, "many_us": b, "ratio": b / a}
        return {"few": few, "many": many, "costs": outcome}
    finally:
        for side in sides:
            side.close()
