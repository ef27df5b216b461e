"""Starting and stopping: a worker starts once, a stop may be repeated, and a store that is away is
waited for."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from andon.engine.local import LocalEngine
from andon.model.errors import StoreIncompatible, StoreUnavailable
from andon.model.settings import PLACE_SETTING
from andon.worker.backoff import Backoff
from andon.worker.config import WorkerConfig
from andon.worker.wait_for_store import until_open
from andon.worker.worker import Worker

from .kit import WAIT, Kit, result_of


async def noop() -> int:
    return 1


async def test_a_worker_that_was_started_does_not_start_again(kit: Kit):
    kit.add(noop)
    started = await kit.start()
    with pytest.raises(RuntimeError, match=f"{started.id} has been started already"):
        await started.start()
    assert result_of(await kit.run("noop")) == 1, "it works on"


async def test_of_two_starts_at_once_one_is_refused(kit: Kit):
    kit.add(noop)
    made = kit.make()
    kit.workers.append(made)
    outcomes = await asyncio.gather(made.start(), made.start(), return_exceptions=True)
    assert sorted(map(type, outcomes), key=str) == sorted([type(None), RuntimeError], key=str)
    assert result_of(await kit.run("noop")) == 1


async def test_a_worker_that_was_stopped_does_not_start_again(kit: Kit):
    kit.add(noop)
    made = await kit.start()
    await made.stop()
    with pytest.raises(RuntimeError, match="has been stopped, and starts no more"):
        await made.start()
    task_id = await kit.submit("noop")
    async with asyncio.timeout(WAIT):
        await made.stop()
        await asyncio.gather(made.stop(), made.stop())
    assert (await kit.get(task_id)).state == "pending", "nothing was claimed since"


async def test_a_worker_stopped_before_its_start_claims_nothing(kit: Kit):
    kit.add(noop)
    made = kit.make()
    await made.stop()
    async with asyncio.timeout(WAIT):
        await made.run(signals=False)
    with pytest.raises(RuntimeError, match="has been stopped"):
        await made.start()


async def test_a_stop_while_the_lifespan_is_entered_is_obeyed(kit: Kit):
    """A signal may come while connections are being opened."""
    kit.add(noop)
    order: list[str] = []

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        made.begin_stop()
        order.append("opened")
        yield
        order.append("closed")

    made = Worker(kit.local, kit.registry, WorkerConfig(queues=("default",)), lifespan=lifespan)
    task_id = await kit.submit("noop")
    async with asyncio.timeout(WAIT):
        await made.run(signals=False)
    assert order == ["opened", "closed"]
    assert (await kit.get(task_id)).state == "pending"


# --- a store that is away ---


class Store:
    """Opens when it is there."""

    def __init__(self, away: int) -> None:
        self.away = away
        self.asked = asyncio.Event()

    async def open(self) -> None:
        self.asked.set()
        if self.away:
            self.away -= 1
            raise StoreUnavailable("nobody answers.")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "failed", lambda _self: 0.0)


@pytest.mark.usefixtures("impatient")
async def test_a_store_that_is_away_at_the_start_is_waited_for(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    assert await until_open(Store(away=3).open, "redis://shop", signals=False)
    assert [record.getMessage() for record in caplog.records] == [
        "The store at redis://shop is away; this worker waits for it: nobody answers.",
        "The store at redis://shop has answered.",
    ]


async def test_a_store_that_is_there_is_opened_without_a_word(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    assert await until_open(Store(away=0).open, "redis://shop", signals=False)
    assert not caplog.records


async def test_what_waiting_cannot_mend_is_raised():
    async def refuses() -> None:
        raise StoreIncompatible("of a newer release")

    with pytest.raises(StoreIncompatible):
        await until_open(refuses, "redis://shop", signals=False)


async def test_a_signal_ends_the_wait_for_a_store():
    store = Store(away=10**9)
    waiting = asyncio.ensure_future(until_open(store.open, "redis://shop", signals=True))
    await store.asked.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(WAIT):
        assert await waiting is False


async def test_the_wait_for_a_store_can_be_cancelled():
    store = Store(away=10**9)
    waiting = asyncio.ensure_future(until_open(store.open, "redis://shop", signals=False))
    await store.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_place_for_logs_that_cannot_be_is_said_and_the_worker_runs(
    kit: Kit, caplog: pytest.LogCaptureFixture
):
    if not isinstance(kit.local, LocalEngine):
        pytest.skip("the service says it")
    await kit.local.store.put_setting(PLACE_SETTING, b"nowhere", expect=None)
    kit.add(noop)
    await kit.start()
    assert result_of(await kit.run("noop")) == 1
    assert "artifacts and logs: There is no place for artifacts at 'nowhere'." in caplog.text
