"""Procrastinate, on psycopg."""

from collections.abc import Sequence
from typing import Any

from peers.shape import Peer, chunks, made_when_asked, program, url
from peers.slots import ran


def _app() -> Any:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=url(), min_size=4, max_size=20))

    @app.task(name="noop")
    async def noop(number: int) -> None:
        ran(number)

    return app


__getattr__ = made_when_asked(app=_app)


class Driver(Peer):
    requires = (
        "procrastinate==3.10.0",
        "psycopg[binary,pool]==3.3.9",
        "uvloop==0.23.0",
    )
    shown = ("procrastinate", "psycopg")
    imports = "procrastinate"
    variants = {"20 at once": "20 tasks at once (its pool's size), finished jobs deleted"}
    stores = {"postgres": ("20 at once",)}
    drained = {"20 at once": 1_000}
    has_bulk = True

    async def prepare(self) -> None:
        app = _app()
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        self._app = _app()
        await self._app.open_async().__aenter__()
        self._noop = self._app.tasks["noop"]

    async def close(self) -> None:
        await self._app.close_async()

    async def submit(self, number: int) -> None:
        await self._noop.defer_async(number=number)

    async def bulk(self, numbers: Sequence[int]) -> None:
        for part in chunks(numbers):
            await self._noop.batch_defer_async(*({"number": number} for number in part))

    def worker(self) -> list[str]:
        options = ["-c", "20", "--delete-jobs", "successful"]
        return [program("procrastinate"), "--app", "peers.procrastinate.app", "worker", *options]

    async def unfinished(self) -> int:
        row = await self._app.connector.execute_query_one_async(
            "SELECT count(*) AS n FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        )
        return row["n"]
