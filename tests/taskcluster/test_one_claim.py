"""Workers that have one claim at a time: an answer that was lost is given again, and nothing that
such a worker has heard of."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from conftest import selected_stores
from servers import Servers
from tests.service.kit import PATIENCE, Running, eventually, serving
from tests.service.raw import connected

from andon import Andon
from andon.contract.requests import ClaimRequest
from andon.model.errors import StoreUnavailable
from andon.model.task import Task
from andon.service.taskcluster import one_claim
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import Queue, own_queue
from .test_claim_work import claim_request

SHORT = TaskclusterSettings(claim_wait=0.0, one_claim_per_worker=True)


@pytest.fixture
def face_settings() -> TaskclusterSettings:
    return SHORT


@pytest.fixture(autouse=True)
def however_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with much else to do may take longer for a test than a repeat may."""
    monkeypatch.setattr(one_claim, "REPEATED_MS", 3_600_000)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", selected_stores(metafunc.config), scope="module")


@pytest.fixture(scope="module")
def anywhere(
    store_kind: str, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Queue]:
    url = "memory://"
    if store_kind != "memory":
        url = servers.fresh_url(store_kind, tmp_path_factory.mktemp("store"))
    with serving(Andon(url), taskcluster=SHORT) as running, running.client() as client:
        yield Queue(client)


def held(claims: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return [(one["status"]["taskId"], one["runId"], one["takenUntil"]) for one in claims]


def test_a_claim_is_repeated_until_something_is_heard_of_it(anywhere: Queue):
    queue, of = anywhere, own_queue()
    ids = [queue.create(taskQueueId=of) for _ in range(3)]
    first = queue.claim(2, of)
    assert len(first) == 2
    again = queue.claim(2, of)
    assert sorted(held(again)) == sorted(held(first)), "also the same runs"
    assert {one["task"]["taskGroupId"] for one in again} <= set(ids)
    [other] = queue.claim(2, of, workerId="another")
    assert other["status"]["taskId"] not in {task_id for task_id, _, _ in held(first)}
    (reclaimed, _, _), (reported, _, _) = held(first)
    assert queue.report(reclaimed, 0, "reclaim").status_code == 200
    assert [one["status"]["taskId"] for one in queue.claim(2, of)] == [reported]
    assert queue.report(reported, 0, "completed").status_code == 200
    assert queue.claim(2, of) == []
    later = queue.create(taskQueueId=of)
    assert [one["status"]["taskId"] for one in queue.claim(2, of)] == [later]


def test_what_was_claimed_long_ago_is_not_repeated(queue: Queue, monkeypatch: pytest.MonkeyPatch):
    queue.create()
    assert len(queue.claim()) == 1
    assert len(queue.claim()) == 1
    monkeypatch.setattr(one_claim, "REPEATED_MS", -1)
    assert queue.claim() == []


def test_a_run_that_another_process_has_ended_is_not_repeated(queue: Queue):
    task_id = queue.create()
    queue.claim()
    queue.act(task_id, "cancel")
    assert queue.claim() == []


@pytest.mark.parametrize("face_settings", [TaskclusterSettings(claim_wait=0.0)])
def test_without_the_setting_a_second_claim_is_one_of_its_own(queue: Queue):
    first, second = queue.create(), queue.create()
    claimed = [queue.claim()[0]["status"]["taskId"] for _ in range(2)]
    assert claimed == [first, second]
    assert queue.claim() == []


def test_a_claim_is_handed_out_also_where_it_could_not_be_noted(
    queue: Queue, running: Running, monkeypatch: pytest.MonkeyPatch
):
    engine = running.service.engine
    claim = engine.claim

    async def away(_puts: object) -> None:
        raise StoreUnavailable("The store cannot be reached; as asked.")

    async def then_away(request: ClaimRequest) -> list[Task]:
        tasks = await claim(request)
        monkeypatch.setattr(engine.store, "put_notes", away)
        return tasks

    monkeypatch.setattr(engine, "claim", then_away)
    task_id = queue.create()
    assert [one["status"]["taskId"] for one in queue.claim()] == [task_id]
    monkeypatch.undo()  # or the service could not stop well


LONG = TaskclusterSettings(claim_wait=PATIENCE, one_claim_per_worker=True)


class Threads:
    """Claims that wait, each in a thread of its own."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._threads = ThreadPoolExecutor(8)

    def ask(self, worker: str) -> "Future[list[dict[str, Any]]]":
        def asked() -> list[dict[str, Any]]:
            with self._running.client() as http:
                return Queue(http).claim(workerId=worker)

        return self._threads.submit(asked)

    def waiting(self) -> int:
        [metric] = self._running.service.metrics.waiting_workers.collect()
        return int(metric.samples[0].value)

    def close(self) -> None:
        self._running.begin_stop()
        self._threads.shutdown()


@pytest.fixture
def threads(running: Running) -> Iterator[Threads]:
    threads = Threads(running)
    yield threads
    threads.close()


@pytest.mark.parametrize("face_settings", [LONG])
def test_a_new_claim_takes_the_place_of_the_one_that_waits(
    queue: Queue, threads: Threads, face_settings: TaskclusterSettings
):
    first = threads.ask("w")
    eventually(lambda: threads.waiting() == 1)
    second = threads.ask("w")
    assert first.result(PATIENCE) == []
    eventually(lambda: threads.waiting() == 1)
    task_id = queue.create()
    [claim] = second.result(PATIENCE)
    assert claim["status"]["taskId"] == task_id
    assert claim["runId"] == 0


@pytest.mark.parametrize("face_settings", [LONG])
def test_workers_do_not_wait_for_one_another(
    queue: Queue, threads: Threads, face_settings: TaskclusterSettings
):
    answers = [threads.ask(f"w{number}") for number in range(3)]
    eventually(lambda: threads.waiting() == 3)
    ids = [queue.create() for _ in answers]
    claimed = [answer.result(PATIENCE)[0]["status"]["taskId"] for answer in answers]
    assert sorted(claimed) == sorted(ids)


class Holding:
    """Lets the next claim that gets something wait, in the store as it were."""

    def __init__(self, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self._go_on = asyncio.Event(), asyncio.Event()
        self._running = running
        engine = running.service.engine
        claim = engine.claim

        async def held(request: ClaimRequest) -> list[Task]:
            tasks = await claim(request)
            if tasks and not self.begun.is_set():
                self.begun.set()
                await self._go_on.wait()
            return tasks

        monkeypatch.setattr(engine, "claim", held)

    def go_on(self) -> None:
        async def go_on() -> None:
            for _ in range(10):  # the loop has seen the end of the connection by then
                await asyncio.sleep(0.001)
            self._go_on.set()

        self._running.call(go_on())


@pytest.mark.parametrize("face_settings", [LONG])
def test_what_is_claimed_when_its_worker_asks_anew_is_what_the_new_claim_gets(
    queue: Queue,
    running: Running,
    threads: Threads,
    monkeypatch: pytest.MonkeyPatch,
    face_settings: TaskclusterSettings,
):
    holding = Holding(running, monkeypatch)
    task_id = queue.create()
    first = threads.ask("i-0a1b")
    eventually(holding.begun.is_set)
    begun: list[str] = []
    turn = one_claim.Turns.turn

    def seen(turns: one_claim.Turns, queue: str, worker: str) -> Any:
        begun.append(worker)
        return turn(turns, queue, worker)

    monkeypatch.setattr(one_claim.Turns, "turn", seen)
    second = threads.ask("i-0a1b")
    eventually(lambda: begun)
    holding.go_on()
    assert first.result(PATIENCE) == []
    [claim] = second.result(PATIENCE)
    assert (claim["status"]["taskId"], claim["runId"]) == (task_id, 0)
    assert queue.report(task_id, 0, "completed").status_code == 200


@pytest.mark.parametrize("face_settings", [LONG])
def test_what_is_claimed_for_a_connection_that_has_ended_is_there_for_the_next(
    queue: Queue,
    running: Running,
    threads: Threads,
    monkeypatch: pytest.MonkeyPatch,
    face_settings: TaskclusterSettings,
):
    holding = Holding(running, monkeypatch)
    task_id = queue.create()
    with connected(running.url) as connection:
        connection.send(claim_request())
        eventually(holding.begun.is_set)
    second = threads.ask("i-0a1b")
    holding.go_on()
    [claim] = second.result(PATIENCE)
    assert claim["status"]["taskId"] == task_id
    assert claim["status"]["retriesLeft"] == 5, "it cost no try"
    assert queue.report(task_id, claim["runId"], "completed").status_code == 200
