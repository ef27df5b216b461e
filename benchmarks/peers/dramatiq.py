"""Dramatiq on Redis. Its groups enqueue one message after another, so it counts as without bulk."""

from typing import Any

from peers.shape import Peer, made_when_asked, program, url
from peers.slots import ran


def _broker() -> Any:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=url())
    dramatiq.set_broker(broker)

    @dramatiq.actor(actor_name="noop", broker=broker)
    def noop(number: int) -> None:
        ran(number)

    return broker


__getattr__ = made_when_asked(broker=_broker)


class Driver(Peer):
    requires = (
        "dramatiq[redis]==2.2.1",
        "hiredis==3.5.0",
        "redis==8.1.0",
    )
    shown = ("dramatiq", "redis")
    imports = "dramatiq, dramatiq.brokers.redis"
    variants = {
        "8 threads": "1 worker process of 8 threads (as it does by itself), no results",
        "16 threads": "1 worker process of 16 threads, no results",
    }
    stores = {"redis": ("8 threads", "16 threads")}
    drained = {"8 threads": 4_000, "16 threads": 5_000}

    async def open(self) -> None:
        self._broker = _broker()
        self._noop = self._broker.get_actor("noop")

    async def close(self) -> None:
        self._broker.close()

    def submit(self, number: int) -> None:
        self._noop.send(number)

    def worker(self) -> list[str]:
        threads = self.variant.split()[0]
        options = ["--processes", "1", "--threads", threads]
        return [program("dramatiq"), "peers.dramatiq:broker", *options]

    async def unfinished(self) -> int:
        return self._broker.client.hlen("dramatiq:default.msgs")
