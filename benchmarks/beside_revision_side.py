"""One side of `beside_revision.py`: does a block of tasks when told, and tells what it used.

    PYTHONPATH=SRC python beside_revision_side.py URL [PID of the server]

Uses only what the trees of both sides have. A line of stdin is `["what", n]`, a line of stdout the
answer. What a block needs beforehand (tasks to claim, a worker that runs) is not part of it.
"""

import asyncio
import json
import sys
from typing import Any

import msgspec
import older_trees  # first: it lets an older tree answer to the names below
from limits.life import claiming, completions, new_tasks
from meter import Meter

import andon
from andon.bench.producing import submit
from andon.client.app import Andon
from andon.contract.limits import MAX_BATCH
from andon.contract.requests import ClaimRequest
from andon.contract.store import Store
from andon.stores.registry import open_store
from andon.worker.tuning import tune_process

older_trees.wait_asleep()

AT_ONCE = 100
"""Tasks in a claim and in a commit of the drain; runs at once in the worker."""


class Measured:
    """The application and the store below it, on one URL."""

    def __init__(self, app: Andon, store: Store, meter: Meter) -> None:
        self._app = app
        self._store = store
        self._meter = meter
        self._code = _code_of_worker()
        self._tokens = 0
        self._left = 0
        self._done = asyncio.Event()
        self._submitted = app.task(name="bench.submitted", queue="submitted")(self._run)
        self._worked = app.task(name="bench.worked", queue="worked")(self._run)

    async def _run(self, number: int) -> None:
        self._left -= 1
        if self._left == 0:
            self._done.set()

    async def block(self, what: str, n: int) -> dict[str, int]:
        """What a block of tasks used, and how long it took."""
        await getattr(self, what.replace(" ", "_"))(n)
        return {**self._meter.used, "clock_ns": self._meter.clock_ns}

    async def submit_one(self, n: int) -> None:
        """Submits through the application, one after the other."""
        self._meter.start()
        await submit(self._submitted, n, "single", 1)
        self._meter.stop()

    async def submit_bulk(self, n: int) -> None:
        """Submits through the application in one stream."""
        self._meter.start()
        await submit(self._submitted, n, "bulk", 1)
        self._meter.stop()

    async def claim_one(self, n: int) -> None:
        """Claims and ends through the store, one task after the other."""
        await self._claimed(n, at_once=1)

    async def drain(self, n: int) -> None:
        """Claims and ends through the store, in batches."""
        await self._claimed(n, at_once=AT_ONCE)

    async def _claimed(self, n: int, at_once: int) -> None:
        store = self._store
        for start in range(0, n, MAX_BATCH):
            await store.create(new_tasks(min(MAX_BATCH, n - start), store.now()))
        self._meter.start()
        for _ in range(0, n, at_once):
            self._tokens += 1
            request = claiming(f"claim-{self._tokens}", at_once)
            claimed = await store.claim(msgspec.structs.replace(request, **self._code))
            assert len(claimed) == at_once
            await store.commit(completions(claimed, store.now()))
        self._meter.stop()

    async def e2e(self, n: int) -> None:
        """Submits in one stream to a worker in this process, until that has left."""
        async with self._app.working(queues=["worked"], concurrency=AT_ONCE):
            self._left = 1
            await self._worked.submit(0)
            await self._all_run()
            self._left = n
            self._meter.start()
            await submit(self._worked, n, "bulk", 1)
            await self._all_run()
        self._meter.stop()

    async def _all_run(self) -> None:
        await self._done.wait()
        self._done.clear()


def _code_of_worker() -> dict[str, Any]:
    """What claims say besides, in a tree whose claims name what their worker has code for."""
    if "code" not in ClaimRequest.__struct_fields__:
        return {}
    from andon.model.code import Code

    return {"code": Code.of([("bench.noop", 0), ("bench.submitted", 0), ("bench.worked", 0)])}


async def serve(url: str, server: int | None) -> None:
    """Do what stdin says until it ends."""
    store = open_store(url)
    await store.open()
    async with Andon(url) as app:
        measured = Measured(app, store, Meter(server))
        tune_process()
        tell(andon=andon.__file__)
        while line := await asyncio.to_thread(sys.stdin.readline):
            what, n = json.loads(line)
            tell(**await measured.block(what, n))
    await store.close()


def tell(**what: Any) -> None:
    """Answer with a line."""
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]) if sys.argv[2] else None))
