"""SAQ, on Redis and on PostgreSQL. It has no call that enqueues many."""

from typing import Any

from peers.shape import QUEUE, Peer, made_when_asked, program, url, variant
from peers.slots import ran

_AT_ONCE = {"redis": 100, "postgres": 20}


def _queue() -> Any:
    from saq import Queue

    return Queue.from_url(url(), name=QUEUE)


async def noop(context: Any, *, number: int) -> None:
    ran(number)


def _settings() -> dict[str, Any]:
    return {"queue": _queue(), "functions": [noop], "concurrency": _AT_ONCE[variant()]}


__getattr__ = made_when_asked(settings=_settings)


class Driver(Peer):
    requires = (
        "saq[redis,postgres,hiredis]==0.26.4",
        "psycopg[binary]==3.3.9",
        "uvloop==0.23.0",
        "redis==7.4.1",
    )
    shown = ("saq", "redis", "psycopg")
    imports = "saq"
    variants = {
        "redis": "100 tasks at once, results kept as it does by itself (10 min)",
        "postgres": "20 tasks at once (its pool's size), results kept as it does by itself",
    }
    stores = {"redis": ("redis",), "postgres": ("postgres",)}
    drained = {"redis": 2_400, "postgres": 600}

    async def open(self) -> None:
        self._queue = _queue()
        await self._queue.connect()

    async def close(self) -> None:
        await self._queue.disconnect()

    async def submit(self, number: int) -> None:
        await self._queue.enqueue("noop", number=number)

    def worker(self) -> list[str]:
        return [program("saq"), "peers.saq.settings", "--quiet"]

    async def unfinished(self) -> int:
        return await self._queue.count("incomplete")
