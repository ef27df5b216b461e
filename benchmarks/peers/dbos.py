"""DBOS queues, each task a workflow without steps. Run as a module it is the worker."""

import asyncio
import signal
import sys
from typing import Any

from peers.shape import QUEUE, Peer, url
from peers.slots import ran

_POLL_S = 0.1


class Driver(Peer):
    requires = ("dbos==3.4.0",)
    shown = ("dbos", "psycopg")
    imports = "dbos"
    variants = {
        "poll 0.1 s": "a workflow without steps for each task, queue polled every 0.1 s (1 s by "
        "itself), no limit of tasks at once",
    }
    stores = {"postgres": ("poll 0.1 s",)}
    drained = {"poll 0.1 s": 1_500}

    async def prepare(self) -> None:
        def once() -> None:
            dbos = _launched(self.url, executor="producer")
            dbos.register_queue(QUEUE, polling_interval_sec=_POLL_S)
            dbos.destroy()

        await asyncio.to_thread(once)

    async def open(self) -> None:
        from dbos import DBOSClient

        self._client = DBOSClient(system_database_url=self.url)

    async def close(self) -> None:
        self._client.destroy()

    async def submit(self, number: int) -> None:
        where: Any = {"workflow_name": "noop", "queue_name": QUEUE, "app_version": "1"}
        await self._client.enqueue_async(where, number)

    def worker(self) -> list[str]:
        return [sys.executable, "-m", "peers.dbos"]

    async def unfinished(self) -> int:
        import psycopg

        with psycopg.connect(self.url) as connection:
            row = connection.execute(
                "SELECT count(*) FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')"
            ).fetchone()
            assert row is not None
            return row[0]


def _launched(where: str, executor: str) -> Any:
    from dbos import DBOS

    DBOS(
        config={
            "name": "bench",
            "system_database_url": where,
            "application_version": "1",
            "executor_id": executor,
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )
    if executor == "worker":

        @DBOS.workflow(name="noop")
        async def noop(number: int) -> None:
            ran(number)

    DBOS.launch()
    return DBOS


def _work() -> None:
    _launched(url(), executor="worker").register_queue(QUEUE, polling_interval_sec=_POLL_S)
    signal.pause()


if __name__ == "__main__":
    _work()
