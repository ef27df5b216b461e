"""Services and workers killed under load: the ledger balances."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator

import pytest

from andon.engine.base import Submission
from andon.engine.http.engine import HttpEngine
from andon.model.task import Task
from andon.model.words import TERMINAL
from andon.testing.ledger import Ledger

from .kit import ANDON, HERE, PATIENCE, Process, ServiceProcess, until
from .proxy import LossyProxy

pytestmark = [pytest.mark.crash, pytest.mark.slow]

TASKS = 600
KILLS = 4

StartWorker = Callable[[str], Process]


@pytest.fixture
def worker(service: ServiceProcess) -> Iterator[StartWorker]:
    """Starts `andon worker --url`, on a URL."""
    started: list[Process] = []

    def start(url: str) -> Process:
        number = len(started)
        argv = [*ANDON, "worker", str(HERE / "app.py"), "--url", url, "--lease", "3"]
        started.append(Process(argv, service.folder / f"worker-{number}.log"))
        return started[-1]

    yield start
    for process in started:
        process.close()


async def submit_all(engine: HttpEngine, count: int) -> list[str]:
    """Submit one by one, as fast as answers come, whatever happens to the service."""
    ids = [f"t{n}" for n in range(count)]
    room = asyncio.Semaphore(20)

    async def one(task_id: str, n: int) -> None:
        async with room:
            name, args = ("add", b'{"a":1}') if n % 10 else ("hold", b'{"seconds":0.05}')
            options = {"lease": 2.0, "max_retries": 50, "retry_delay": 0.0}
            submission = Submission(id=task_id, name=name, args=args, options=options)
            [done] = await engine.submit([submission])
            assert done.error is None
            await asyncio.sleep(0.2)

    await asyncio.gather(*(one(task_id, n) for n, task_id in enumerate(ids)))
    return ids


async def at_work(engine: HttpEngine, count: int = 1) -> None:
    """Wait until so many workers are there: one that finds no service when it begins gives up
    after a while, so nothing is killed before."""

    async def there() -> bool:
        return len(await engine.workers()) >= count

    await until(there)


async def all_ended(engine: HttpEngine, ids: list[str], *workers: Process) -> Ledger:
    """The ledger once every task has ended; raises if it does not balance, or if one of the
    workers has gone."""

    async def going_on() -> list[Task | None]:
        found = await engine.get(ids)
        return [task for task in found if task is None or task.state not in TERMINAL]

    deadline = time.monotonic() + 80
    while left := await going_on():
        for worker in workers:
            assert worker.is_running, worker.log
        assert time.monotonic() < deadline, left
        await asyncio.sleep(0.1)
    ledger, cursor = Ledger(), ""
    while True:
        page = await engine.events(cursor)
        if not page.events:
            break
        ledger.read(page.events)
        cursor = page.cursor
    ledger.balance(ids)
    assert not ledger.unresolved()
    return ledger


async def test_a_service_killed_and_begun_again_under_load_loses_nothing(
    service: ServiceProcess, worker: StartWorker
):
    engine = HttpEngine(service.url, patience=2 * PATIENCE)
    await engine.open()
    try:
        running = worker(service.url)
        await at_work(engine)
        load = asyncio.create_task(submit_all(engine, TASKS))
        for _ in range(KILLS):
            await asyncio.sleep(0.8)
            service.kill()
            await asyncio.to_thread(service.start)
        await all_ended(engine, await load, running)
    finally:
        await engine.close()


async def test_workers_elsewhere_killed_under_load_lose_nothing(
    service: ServiceProcess, worker: StartWorker
):
    engine = HttpEngine(service.url, patience=2 * PATIENCE)
    await engine.open()
    try:
        first, second = worker(service.url), worker(service.url)
        load = asyncio.create_task(submit_all(engine, TASKS))
        await at_work(engine, 2)
        for _ in range(KILLS):
            await asyncio.sleep(0.5)
            first.kill()
            first, second = second, worker(service.url)
        await all_ended(engine, await load, first, second)
    finally:
        await engine.close()


async def test_a_network_that_loses_replies_loses_no_task(
    service: ServiceProcess, worker: StartWorker
):
    async with LossyProxy(service.port, share=0.1, seed=random.Random().getrandbits(32)) as proxy:
        engine = HttpEngine(proxy.url, patience=2 * PATIENCE)
        await engine.open()
        try:
            running = worker(proxy.url)
            ledger = await all_ended(engine, await submit_all(engine, TASKS), running)
            assert proxy.lost
            assert all(entry.lives == 1 for entry in ledger.tasks.values())
        finally:
            await engine.close()
