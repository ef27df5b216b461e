"""docket (pydocket)."""

from collections.abc import Sequence

from peers.shape import QUEUE, Peer, chunks, program
from peers.slots import ran


async def noop(number: int) -> None:
    ran(number)


tasks = [noop]


class Driver(Peer):
    requires = (
        "pydocket==0.27.0",
        "hiredis==3.5.0",
        "uvloop==0.23.0",
        "redis==8.1.0",
    )
    shown = ("pydocket", "redis")
    imports = "docket"
    variants = {
        "50 at once": "50 tasks at once (10 by itself; at 100 its pool runs out of connections), "
        "warnings logged only",
    }
    stores = {"redis": ("50 at once",)}
    drained = {"50 at once": 1_000}
    has_bulk = True
    uvloop = True

    async def open(self) -> None:
        from docket import Docket

        self._docket = Docket(name=QUEUE, url=self.url)
        await self._docket.__aenter__()
        self._docket.register(noop)

    async def close(self) -> None:
        await self._docket.__aexit__(None, None, None)

    async def submit(self, number: int) -> None:
        await self._docket.add(noop)(number)

    async def bulk(self, numbers: Sequence[int]) -> None:
        for part in chunks(numbers):
            await self._docket.add_many([self._docket.call(noop)(number) for number in part])

    def worker(self) -> list[str]:
        where = ["--docket", QUEUE, "--url", self.url, "--tasks", "peers.docket:tasks"]
        options = ["--concurrency", "50", "--logging-level", "WARNING"]
        return [program("docket"), "worker", *where, *options]

    async def unfinished(self) -> int:
        snapshot = await self._docket.snapshot()
        return snapshot.total_tasks
