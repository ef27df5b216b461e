"""One engine on one store, and what may be found there afterwards."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from servers import may_repeat

from andon.contract.queries import Query
from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Complete
from andon.model.task import Task
from andon.model.words import State
from andon.stores.registry import open_store
from andon.testing.ledger import Ledger


class Bench:
    """One engine on one store."""

    def __init__(self, url: str) -> None:
        self.store = open_store(url)
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
        ledger, cursor = Ledger(may_repeat=may_repeat(self.store.url)), ""
        while (events := await self.engine.events(cursor)).events:
            ledger.read(events.events)
            cursor = events.cursor
        logged = {task: entry.state for task, entry in ledger.tasks.items() if entry.state}
        assert logged == found
        counts = {state: n for q in await self.engine.stats() for state, n in q.counts.items() if n}
        assert counts == {s.value: list(found.values()).count(s) for s in set(found.values())}
        return found


def on_bench(scenario: Callable[[Bench], Awaitable[None]], url: str) -> None:
    async def run() -> None:
        bench = Bench(url)
        await bench.engine.open()
        try:
            await scenario(bench)
        finally:
            await bench.engine.close()

    asyncio.run(run())
