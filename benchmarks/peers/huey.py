"""Huey on Redis. It keeps no record of a task in hand, and has no call that enqueues many."""

from typing import Any

from peers.shape import QUEUE, Peer, made_when_asked, program, url
from peers.slots import ran


def _huey() -> Any:
    from huey import RedisHuey

    huey = RedisHuey(QUEUE, url=url(), results=False)

    @huey.task(name="noop")
    def noop(number: int) -> None:
        ran(number)

    huey.noop = noop
    return huey


__getattr__ = made_when_asked(huey=_huey)


class Driver(Peer):
    requires = (
        "huey==3.5.4",
        "redis==8.1.0",
        "hiredis==3.5.0",
    )
    shown = ("huey", "redis")
    imports = "huey, redis"
    variants = {
        "4 threads": "1 consumer of 4 threads, no results, no periodic tasks, tasks not logged",
    }
    stores = {"redis": ("4 threads",)}
    drained = {"4 threads": 5_000}

    async def open(self) -> None:
        self._huey = _huey()

    async def close(self) -> None:
        self._huey.storage.conn.close()

    def submit(self, number: int) -> None:
        self._huey.noop(number)

    def worker(self) -> list[str]:
        options = ["-k", "thread", "-w", "4", "-q", "-n", "-d", "0.01", "-m", "0.1"]
        return [program("huey_consumer"), "peers.huey.huey", *options]

    async def unfinished(self) -> int:
        return self._huey.storage.queue_size()
