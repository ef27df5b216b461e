"""A server that the system lets write no more: a clear word, nothing half written, and workers that
go on by themselves when there is room again."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator

import psutil
import pytest
from servers.postgres import PostgresServer

from andon.client.app import Andon
from andon.client.handle import TaskHandle
from andon.model.errors import StoreUnavailable
from andon.stores.postgres import connections

_WAL_SEGMENT = 16 * 2**20
"""A file of the write-ahead log has its full size at once."""

_BODY = 100_000
_PATIENCE_S = 60.0

pytestmark = pytest.mark.skipif(
    not hasattr(psutil, "RLIMIT_FSIZE"), reason="this system limits no other process's files"
)


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE_S", 1.0)


class Room:
    """How large the server's files may become: the system refuses to write beyond it."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def limit(self, size: int) -> None:
        """For all of its processes, and for those it starts from now on."""
        postmaster = psutil.Process(self._server.pid)
        self._limit(postmaster, size)
        for process in postmaster.children():
            self._limit(process, size)

    def mend(self) -> None:
        """As large as they like; a server that has ended over it is started again."""
        if psutil.pid_exists(self._server.pid):
            self.limit(psutil.RLIM_INFINITY)
        self._server.mend()

    def _limit(self, process: psutil.Process, size: int) -> None:
        try:
            _, most = process.rlimit(psutil.RLIMIT_FSIZE)
            process.rlimit(psutil.RLIMIT_FSIZE, (size, most))
        except psutil.NoSuchProcess:
            pass


@pytest.fixture
def room(hurt_server: PostgresServer) -> Iterator[Room]:
    room = Room(hurt_server)
    yield room
    room.mend()


async def fill(
    submit: Callable[[str], Awaitable[TaskHandle[int]]],
    body: Callable[[], str],
    handles: list[TaskHandle[int]],
) -> None:
    """Submit one after another, until that is refused; those accepted are added to `handles`."""
    for _ in range(2_000):
        handles.append(await submit(body()))  # noqa: PERF401 - what came before is kept


async def test_tables_that_cannot_grow_refuse_and_workers_go_on_when_they_can(
    hurt_server: PostgresServer, room: Room
) -> None:
    async with Andon(hurt_server.url("tables")) as app:

        @app.task(queue="full")
        async def size(body: str) -> int:
            return len(body)

        async with app.working(queues=["full"]):
            handles = [await size.submit("first")]
            room.limit(_WAL_SEGMENT + 2**19)
            with pytest.raises(StoreUnavailable, match=r"cannot store more .*free some space"):
                await fill(size.submit, lambda: os.urandom(_BODY // 2).hex(), handles)
            assert len(handles) > 10
            room.mend()
            handles.append(await size.submit("last"))
            results = [await handle.result(timeout=_PATIENCE_S) for handle in handles]
            assert results == [5, *[_BODY] * (len(handles) - 2), 4]
        engine = await app.connections.engine()
        (stats,) = [queue for queue in await engine.stats() if queue.queue == "full"]
        assert {s: n for s, n in stats.counts.items() if n} == {"completed": len(handles)}


async def test_a_log_that_cannot_grow_ends_the_server_and_loses_nothing(
    hurt_server: PostgresServer, room: Room
) -> None:
    """PostgreSQL ends itself rather than go on without its log; whoever runs it starts it again."""
    async with Andon(hurt_server.url("log")) as app:

        @app.task(queue="full")
        async def size(body: str) -> int:
            return len(body)

        async with app.working(queues=["full"]):
            handles = [await size.submit("x" * n) for n in range(20)]
            room.limit(8_192)
            with pytest.raises(StoreUnavailable):
                await fill(size.submit, lambda: "x" * len(handles), handles)
            await asyncio.to_thread(room.mend)
            results = [await handle.result(timeout=_PATIENCE_S) for handle in handles]
            assert results == list(range(len(handles)))
            assert await (await size.submit("last")).result(timeout=_PATIENCE_S) == 4
