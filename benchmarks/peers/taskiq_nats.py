"""taskiq with taskiq-nats: its pulling JetStream broker."""

from typing import Any

from peers.shape import QUEUE, Peer, made_when_asked, program, url
from peers.slots import ran


def _broker() -> Any:
    from taskiq_nats import PullBasedJetStreamBroker

    broker: Any = PullBasedJetStreamBroker(
        url(),
        subject=QUEUE,
        stream_name=QUEUE,
        durable=QUEUE,
        pull_consume_batch=100,
        pull_consume_timeout=1.0,
    )

    @broker.task(task_name="noop")
    async def noop(number: int) -> None:
        ran(number)

    return broker


__getattr__ = made_when_asked(broker=_broker)


class Driver(Peer):
    requires = ("taskiq==0.13.0", "taskiq-nats==0.7.0", "nats-py==2.16.0", "uvloop==0.23.0")
    shown = ("taskiq", "taskiq-nats", "nats-py")
    imports = "taskiq, taskiq_nats"
    variants = {
        "pull": "JetStream, pulled in batches of 100 with a timeout of 1 s (by itself 1 and none; "
        "batches without a timeout wait until they are full), 1 worker process, 100 tasks at once, "
        "uvloop, no result backend",
    }
    stores = {"nats": ("pull",)}
    drained = {"pull": 4_000}
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
        return [program("taskiq"), "worker", "peers.taskiq_nats:broker", *options]

    async def unfinished(self) -> int:
        consumer = await self._broker.js.consumer_info(QUEUE, QUEUE)
        return consumer.num_pending + consumer.num_ack_pending
