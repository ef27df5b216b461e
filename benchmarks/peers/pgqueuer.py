"""pgqueuer, on asyncpg. Run as a module it is the worker, so that it runs on uvloop."""

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from peers.shape import Peer, chunks, url, variant
from peers.slots import ran


class Driver(Peer):
    requires = (
        "pgqueuer[asyncpg]==1.6.0",
        "uvloop==0.23.0",
    )
    shown = ("pgqueuer", "asyncpg")
    imports = "pgqueuer"
    variants = {
        "batches of 100": "batches of 100 (10 by itself), uvloop, durable tables",
        "batches of 500": "batches of 500 (10 by itself), uvloop, durable tables",
    }
    stores = {"postgres": ("batches of 100", "batches of 500")}
    drained = {"batches of 100": 15_000, "batches of 500": 20_000}
    has_bulk = True
    uvloop = True

    async def prepare(self) -> None:
        await self.open()
        await self._queries.install()
        await self.close()

    async def open(self) -> None:
        import asyncpg
        from pgqueuer.db import AsyncpgPoolDriver
        from pgqueuer.queries import Queries

        self._pool = await asyncpg.create_pool(self.url, min_size=4, max_size=20)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))

    async def close(self) -> None:
        await self._pool.close()

    async def submit(self, number: int) -> None:
        await self._queries.enqueue("noop", str(number).encode())

    async def bulk(self, numbers: Sequence[int]) -> None:
        for part in chunks(numbers):
            payloads: list[bytes | None] = [str(number).encode() for number in part]
            await self._queries.enqueue(["noop"] * len(part), payloads, [0] * len(part))

    def worker(self) -> list[str]:
        return [sys.executable, "-m", "peers.pgqueuer"]

    async def unfinished(self) -> int:
        return await self._pool.fetchval("SELECT count(*) FROM pgqueuer")


async def _work() -> None:
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver

    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(url())))

    @queuer.entrypoint("noop")
    async def noop(job: Any) -> None:
        ran(int(job.payload))

    size = int(variant().removeprefix("batches of "))
    await queuer.run(batch_size=size, dequeue_timeout=timedelta(seconds=30))


if __name__ == "__main__":
    import uvloop

    uvloop.run(_work())
