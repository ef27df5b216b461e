"""arq. It has no call that enqueues many."""

from typing import Any

from peers.shape import Peer, made_when_asked, program, url
from peers.slots import ran

QUIET = {"version": 1, "disable_existing_loggers": False, "root": {"level": "WARNING"}}


async def noop(context: Any, number: int) -> None:
    ran(number)


def _settings() -> type:
    from arq.connections import RedisSettings

    class WorkerSettings:
        functions = [noop]
        redis_settings = RedisSettings.from_dsn(url())
        max_jobs = 100
        queue_read_limit = 1_000
        poll_delay = 0.01
        keep_result = 0
        log_results = False

    return WorkerSettings


__getattr__ = made_when_asked(WorkerSettings=_settings)


class Driver(Peer):
    requires = (
        "arq==0.28.0",
        "hiredis==3.5.0",
        "uvloop==0.23.0",
        "redis==5.3.1",
    )
    shown = ("arq", "redis")
    imports = "arq"
    variants = {
        "tuned": "100 tasks at once, polled every 10 ms (0.5 s by itself), 1,000 read at a time, "
        "no results, warnings logged only",
    }
    stores = {"redis": ("tuned",)}
    drained = {"tuned": 2_400}

    async def open(self) -> None:
        from arq import create_pool
        from arq.connections import RedisSettings

        self._pool = await create_pool(RedisSettings.from_dsn(self.url))

    async def close(self) -> None:
        await self._pool.aclose()

    async def submit(self, number: int) -> None:
        await self._pool.enqueue_job("noop", number)

    def worker(self) -> list[str]:
        return [program("arq"), "peers.arq.WorkerSettings", "--custom-log-dict", "peers.arq.QUIET"]

    async def unfinished(self) -> int:
        return await self._pool.zcard("arq:queue")
