"""RQ with its worker that does not fork (its ordinary one forks for each task)."""

from collections.abc import Sequence

from peers.shape import QUEUE, Peer, chunks, program
from peers.slots import ran


def noop(number: int) -> None:
    ran(number)


class Driver(Peer):
    requires = (
        "rq==3.0.0",
        "hiredis==3.5.0",
        "redis==8.1.0",
    )
    shown = ("rq", "redis")
    imports = "rq"
    variants = {"simple": "SimpleWorker (no fork), no results, jobs not logged"}
    stores = {"redis": ("simple",)}
    drained = {"simple": 500}
    has_bulk = True

    async def open(self) -> None:
        from redis import Redis
        from rq import Queue

        self._redis = Redis.from_url(self.url)
        self._queue = Queue(QUEUE, connection=self._redis)

    async def close(self) -> None:
        self._redis.close()

    def submit(self, number: int) -> None:
        self._queue.enqueue("peers.rq.noop", number, result_ttl=0, description="noop")

    def bulk(self, numbers: Sequence[int]) -> None:
        from rq import Queue

        for part in chunks(numbers):
            self._queue.enqueue_many(
                [
                    Queue.prepare_data("peers.rq.noop", (n,), result_ttl=0, description="noop")
                    for n in part
                ]
            )

    def worker(self) -> list[str]:
        options = ["-q", "--disable-job-desc-logging", "-w", "rq.SimpleWorker"]
        return [program("rq"), "worker", "-u", self.url, *options, QUEUE]

    async def unfinished(self) -> int:
        return self._queue.count + self._queue.started_job_registry.get_job_count(cleanup=False)
