"""taskiq with taskiq-redis: its list broker (no acknowledgements) and its stream broker."""

from typing import Any

from peers.shape import QUEUE, Peer, made_when_asked, program, url, variant
from peers.slots import ran


def _broker() -> Any:
    from taskiq_redis import ListQueueBroker, RedisStreamBroker

    if variant() == "list":
        # redis-py 8 ends reads after 5 s by itself, and the worker with them.
        broker: Any = ListQueueBroker(url(), queue_name=QUEUE, socket_timeout=None)
    else:
        broker = RedisStreamBroker(url(), queue_name=QUEUE)

    @broker.task(task_name="noop")
    async def noop(number: int) -> None:
        ran(number)

    return broker


__getattr__ = made_when_asked(broker=_broker)


class Driver(Peer):
    requires = (
        "taskiq==0.13.0",
        "taskiq-redis==1.2.4",
        "hiredis==3.5.0",
        "uvloop==0.23.0",
        "redis==8.1.0",
    )
    shown = ("taskiq", "taskiq-redis", "redis")
    imports = "taskiq, taskiq_redis"
    variants = {
        "list": "list broker (a task is gone once a worker has it), 1 worker process, "
        "100 tasks at once, uvloop, no result backend",
        "stream": "stream broker (acknowledged), otherwise the same",
    }
    stores = {"redis": ("list", "stream")}
    drained = {"list": 4_000, "stream": 4_000}
    uvloop = True

    async def open(self) -> None:
        self._broker = _broker()
        self._noop = self._broker.find_task("noop")
        await self._broker.startup()

    async def close(self) -> None:
        await self._broker.shutdown()

    async def submit(self, number: int) -> None:
        await self._noop.kiq(number)

    def worker(self) -> list[str]:
        options = ["--workers", "1", "--max-async-tasks", "100", "--log-level", "WARNING"]
        return [program("taskiq"), "worker", "peers.taskiq:broker", *options]

    async def unfinished(self) -> int:
        from redis.asyncio import Redis

        async with Redis(connection_pool=self._broker.connection_pool) as redis:
            if self.variant == "list":
                return await redis.llen(QUEUE)
            (group,) = await redis.xinfo_groups(QUEUE)
            after = group["last-delivered-id"].decode()
            return group["pending"] + len(await redis.xrange(QUEUE, min=f"({after}"))
