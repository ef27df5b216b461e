"""Oban for Python. Needs a newer Python than Andon's oldest."""

from collections.abc import Sequence
from typing import Any

from peers.shape import QUEUE, Peer, chunks, made_when_asked, program
from peers.slots import ran


def _noop() -> type:
    class Noop:
        async def process(self, job: Any) -> None:
            ran(job.args["number"])

    return Noop


__getattr__ = made_when_asked(Noop=_noop)


class Driver(Peer):
    requires = (
        "oban==0.7.0",
        "uvloop==0.23.0",
    )
    python = (3, 12)
    shown = ("oban", "psycopg")
    imports = "oban"
    variants = {"100 at once": "100 tasks at once, pool of 20, finished jobs kept for a day"}
    stores = {"postgres": ("100 at once",)}
    drained = {"100 at once": 1_500}
    has_bulk = True
    uvloop = True

    async def prepare(self) -> None:
        from oban import Oban
        from oban.schema import install

        async with await Oban.create_pool(self.url) as pool:
            await install(pool)

    async def open(self) -> None:
        from oban import Oban

        self._pool = await Oban.create_pool(self.url, min_size=4, max_size=20)
        self._oban = await Oban(pool=self._pool).start()

    async def close(self) -> None:
        await self._oban.stop()
        await self._pool.close()

    async def submit(self, number: int) -> None:
        await self._oban.enqueue(_job(number))

    async def bulk(self, numbers: Sequence[int]) -> None:
        for part in chunks(numbers):
            await self._oban.enqueue_many(*(_job(number) for number in part))

    def worker(self) -> list[str]:
        options = ["--queues", f"{QUEUE}:100", "--pool-max-size", "20", "--log-level", "warning"]
        return [program("oban"), "start", "--dsn", self.url, *options]

    async def unfinished(self) -> int:
        async with self._pool.connection() as connection:
            rows = await connection.execute(
                "SELECT count(*) FROM oban_jobs "
                "WHERE state IN ('available', 'scheduled', 'executing', 'retryable')"
            )
            return (await rows.fetchone())[0]


def _job(number: int) -> Any:
    from oban.job import Job

    return Job("peers.oban.Noop", queue=QUEUE, args={"number": number})
