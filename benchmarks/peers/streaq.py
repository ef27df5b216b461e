"""streaQ."""

from collections.abc import Sequence
from typing import Any

from peers.shape import QUEUE, Peer, chunks, made_when_asked, program, url
from peers.slots import ran


def _made() -> tuple[Any, Any]:
    from streaq import Worker

    worker: Any = Worker(
        redis_url=url(), queue_name=QUEUE, concurrency=100, anyio_kwargs={"use_uvloop": True}
    )

    @worker.task(silent=True, ttl=0)
    async def noop(number: int) -> None:
        ran(number)

    return worker, noop


__getattr__ = made_when_asked(worker=lambda: _made()[0])


class Driver(Peer):
    requires = (
        "streaq==7.2.0",
        "uvloop==0.23.0",
    )
    shown = ("streaq", "coredis")
    imports = "streaq"
    variants = {"tuned": "100 tasks at once (16 by itself), uvloop, no results, tasks not logged"}
    stores = {"redis": ("tuned",)}
    drained = {"tuned": 1_500}
    has_bulk = True
    uvloop = True

    async def open(self) -> None:
        self._worker, self._noop = _made()
        await self._worker.__aenter__()

    async def close(self) -> None:
        await self._worker.__aexit__(None, None, None)

    async def submit(self, number: int) -> None:
        await self._noop.enqueue(number)

    async def bulk(self, numbers: Sequence[int]) -> None:
        for part in chunks(numbers):
            await self._worker.enqueue_many([self._noop.enqueue(number) for number in part])

    def worker(self) -> list[str]:
        return [program("streaq"), "run", "peers.streaq:worker"]

    async def unfinished(self) -> int:
        return await self._worker.queue_size()
