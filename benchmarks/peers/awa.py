"""awa (awa-pg), whose core is in Rust. Run as a module it is the worker."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from peers.shape import QUEUE, Peer, chunks, url
from peers.slots import ran


@dataclass
class Noop:
    number: int


class Driver(Peer):
    requires = ("awa-pg==0.6.9",)
    shown = ("awa-pg",)
    imports = "awa"
    variants = {"100 at once": "100 tasks at once, bulk by COPY, its other settings as they are"}
    stores = {"postgres": ("100 at once",)}
    drained = {"100 at once": 6_000}
    has_bulk = True

    async def prepare(self) -> None:
        await self.open()
        await self._client.migrate()
        await self._client.install_queue_storage()
        await self.close()

    async def open(self) -> None:
        from awa import AsyncClient

        self._client = AsyncClient(self.url, max_connections=20)

    async def close(self) -> None:
        await self._client.close()

    async def submit(self, number: int) -> None:
        await self._client.insert(Noop(number), queue=QUEUE)

    async def bulk(self, numbers: Sequence[int]) -> None:
        for part in chunks(numbers):
            await self._client.enqueue_many_copy([Noop(number) for number in part], queue=QUEUE)

    def worker(self) -> list[str]:
        return [sys.executable, "-m", "peers.awa"]

    async def unfinished(self) -> int:
        stats = await self._client.queue_stats()
        return sum(
            queue.scheduled + queue.available + queue.retryable + queue.running
            for queue in stats
            if queue.queue == QUEUE
        )


async def _work() -> None:
    from awa import AsyncClient

    client = AsyncClient(url(), max_connections=20)

    @client.task(Noop, queue=QUEUE)
    async def noop(job: Any) -> None:
        ran(job.args.number)

    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await client.start([(QUEUE, 100)])
    await told.wait()
    await client.shutdown()


if __name__ == "__main__":
    asyncio.run(_work())
