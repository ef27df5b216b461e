"""Celery on Redis. It has no call that enqueues many."""

from typing import Any

from peers.shape import Peer, made_when_asked, program, url
from peers.slots import ran


def _app() -> Any:
    from celery import Celery

    app = Celery("bench", broker=url())
    app.conf.task_ignore_result = True
    app.conf.worker_prefetch_multiplier = 16
    app.conf.worker_hijack_root_logger = False
    app.conf.broker_connection_retry_on_startup = True

    @app.task(name="noop", ignore_result=True)
    def noop(number: int) -> None:
        ran(number)

    return app


__getattr__ = made_when_asked(app=_app)


class Driver(Peer):
    requires = (
        "celery[redis]==5.7.0",
        "hiredis==3.5.0",
        "redis==8.1.0",
    )
    shown = ("celery", "kombu", "redis")
    imports = "celery, celery.app.task, celery.app.amqp, kombu.transport.redis"
    variants = {
        "solo": "pool solo (its fastest for tasks that do nothing), 16 prefetched, no results, "
        "no gossip, mingle or heartbeat",
    }
    stores = {"redis": ("solo",)}
    drained = {"solo": 1_500}

    async def open(self) -> None:
        self._app = _app()
        self._noop = self._app.tasks["noop"]

    async def close(self) -> None:
        self._app.close()

    def submit(self, number: int) -> None:
        self._noop.delay(number)

    def worker(self) -> list[str]:
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
        return [program("celery"), "-A", "peers.celery", "worker", "-P", "solo", "-c", "1", *quiet]

    async def unfinished(self) -> int:
        from redis import Redis

        with Redis.from_url(self.url) as redis:
            return redis.llen("celery") + redis.hlen("unacked")
