"""BullMQ's Python package. Run as a module it is the worker, for BullMQ has no command line."""

import asyncio
import signal
from collections.abc import Sequence
from typing import Any

from peers.shape import QUEUE, Peer, chunks, url
from peers.slots import ran

_OPTIONS = {"removeOnComplete": True}


class Driver(Peer):
    requires = (
        "bullmq==3.4.4",
        "hiredis==3.5.0",
        "uvloop==0.23.0",
        "redis==8.1.0",
    )
    shown = ("bullmq", "redis")
    imports = "bullmq"
    variants = {"tuned": "100 tasks at once, uvloop, completed tasks removed"}
    stores = {"redis": ("tuned",)}
    drained = {"tuned": 2_400}
    has_bulk = True
    uvloop = True

    async def open(self) -> None:
        from bullmq import Queue

        self._queue = Queue(QUEUE, {"connection": self.url})

    async def close(self) -> None:
        await self._queue.close()

    async def submit(self, number: int) -> None:
        await self._queue.add("noop", {"number": number}, _OPTIONS)

    async def bulk(self, numbers: Sequence[int]) -> None:
        for part in chunks(numbers):
            await self._queue.addBulk(
                [{"name": "noop", "data": {"number": n}, "opts": _OPTIONS} for n in part]
            )

    def worker(self) -> list[str]:
        import sys

        return [sys.executable, "-m", "peers.bullmq"]

    async def unfinished(self) -> int:
        counts = await self._queue.getJobCounts("wait", "active", "prioritized", "delayed")
        return sum(counts.values())


async def _work() -> None:
    from bullmq import Worker

    async def process(job: Any, token: str) -> None:
        ran(job.data["number"])

    worker = Worker(QUEUE, process, {"connection": url(), "concurrency": 100})
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await told.wait()
    await worker.close(force=True)


if __name__ == "__main__":
    import uvloop

    uvloop.run(_work())
