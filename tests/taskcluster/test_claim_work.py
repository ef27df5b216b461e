"""claimWork: it waits for work without asking for it again and again, hands each task out once, and
loses none that was claimed for a worker that has gone."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import pytest
from tests.service.kit import PATIENCE, Running, eventually, serving
from tests.service.raw import connected

from andon import Andon
from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.model.errors import StoreUnavailable
from andon.model.task import Task
from andon.service.taskcluster import claim_lines
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import BASE, ENCODED, QUEUE, WORKER, Queue, at, slugid


@pytest.fixture
def face_settings() -> TaskclusterSettings:
    return TaskclusterSettings(claim_wait=PATIENCE)


class Claims:
    """Every claim that the engine is asked for, and what a test does about it."""

    def __init__(self, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[ClaimRequest] = []
        self.found = 0
        self.instead: Callable[[], Awaitable[None]] | None = None  #: before each, and may raise
        self.then: Callable[[list[Task]], Awaitable[None]] | None = None  #: after each
        engine = running.service.engine
        claim = engine.claim

        async def watched(request: ClaimRequest) -> list[Task]:
            self.asked.append(request)
            if self.instead is not None:
                await self.instead()
            tasks = await claim(request)
            self.found += len(tasks)
            if self.then is not None:
                await self.then(tasks)
            return tasks

        monkeypatch.setattr(engine, "claim", watched)


@pytest.fixture
def claims(running: Running, monkeypatch: pytest.MonkeyPatch) -> Claims:
    return Claims(running, monkeypatch)


class Workers:
    """Workers that each wait in a thread of their own."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._threads = ThreadPoolExecutor(64)

    def waiting(self) -> int:
        """How many stand in a line."""
        [metric] = self._running.service.metrics.waiting_workers.collect()
        return int(metric.samples[0].value)

    def ask(self, worker: str, tasks: int = 1) -> "Future[list[dict[str, Any]]]":
        def asked() -> list[dict[str, Any]]:
            with self._running.client() as http:
                return Queue(http).claim(tasks, workerId=worker)

        return self._threads.submit(asked)

    def line_up(self, number: int) -> "list[Future[list[dict[str, Any]]]]":
        """So many that wait by now."""
        asked = [self.ask(f"w{one}") for one in range(number)]
        eventually(lambda: self.waiting() == number)
        return asked

    def close(self) -> None:
        self._threads.shutdown()


@pytest.fixture
def workers(running: Running) -> Iterator[Workers]:
    workers = Workers(running)
    yield workers
    running.begin_stop()  # or some would wait on
    workers.close()


def held(answers: "list[Future[list[dict[str, Any]]]]") -> list[str]:
    """The tasks that were handed out, of those who have an answer."""
    return [claim["status"]["taskId"] for one in answers if one.done() for claim in one.result()]


def test_it_answers_at_once_with_as_many_as_there_are_and_never_waits_for_more(queue: Queue):
    ids = [queue.create() for _ in range(3)]
    first = queue.claim(2)
    assert [claim["status"]["taskId"] for claim in first] == ids[:2]
    assert len(queue.claim(32)) == 1


def test_higher_priorities_go_first_and_equals_in_the_order_they_came(queue: Queue):
    low = queue.create(priority="very-low")
    high = [queue.create(priority="high") for _ in range(2)]
    highest = queue.create(priority="highest")
    plain = queue.create()
    claimed = [claim["status"]["taskId"] for claim in queue.claim(32)]
    assert claimed == [highest, *high, low, plain]


def test_a_retry_goes_behind_its_peers(queue: Queue):
    first, second = queue.create(), queue.create()
    queue.claim()
    queue.report(first, 0, "exception", {"reason": "worker-shutdown"})
    assert [claim["status"]["taskId"] for claim in queue.claim(2)] == [second, first]


def test_who_waits_is_woken_by_a_task_and_asks_the_store_no_more_than_that(
    queue: Queue, workers: Workers, claims: Claims
):
    [answer] = workers.line_up(1)
    before = len(claims.asked)
    task_id = queue.create()
    [claim] = answer.result(PATIENCE)
    assert claim["status"]["taskId"] == task_id
    assert len(claims.asked) <= before + 2


def test_a_line_of_many_costs_few_claims_for_each_task(
    queue: Queue, workers: Workers, claims: Claims
):
    answers = workers.line_up(40)
    assert len(claims.asked) <= 40 + 3, "each asks at most once, and the line when it begins"
    claims.asked.clear()
    ids = [queue.create() for _ in range(5)]
    eventually(lambda: len(held(answers)) == 5)
    assert sorted(held(answers)) == sorted(ids)
    eventually(lambda: workers.waiting() == 35)  # some are asked for, and out of the line
    assert len(claims.asked) <= 4 * 5 + 4, "not one for each of those who wait"


def test_those_who_wait_are_served_in_the_order_they_came(
    queue: Queue, workers: Workers, claims: Claims
):
    answers: list[Future[list[dict[str, Any]]]] = []
    for number in range(3):
        answers.append(workers.ask(f"w{number}"))
        eventually(lambda: workers.waiting() == len(answers))
    for answer in answers:
        task_id = queue.create()
        [claim] = answer.result(PATIENCE)
        assert claim["status"]["taskId"] == task_id


def test_many_workers_get_each_of_many_tasks_once(queue: Queue, workers: Workers):
    ids = [queue.create(payload={"n": number}) for number in range(60)]
    answers = [workers.ask(f"w{number}", 1 + number % 4) for number in range(24)]
    eventually(lambda: len(held(answers)) >= 60 or all(one.done() for one in answers))
    assert Counter(held(answers)).most_common(1)[0][1] == 1
    left = (
        [claim["status"]["taskId"] for claim in queue.claim(32)] if len(held(answers)) < 60 else []
    )
    assert sorted([*held(answers), *left]) == sorted(ids)
    for task_id in ids:
        [run] = queue.status(task_id)["runs"]
        assert run["state"] == "running"


def test_a_wait_ends_empty(tmp_path: Any):
    settings = TaskclusterSettings(claim_wait=0.05)
    app = Andon(f"sqlite:///{tmp_path}/short.db")
    with serving(app, taskcluster=settings) as running, running.client() as http:
        assert Queue(http).claim() == []
        assert Queue(http).claim() == []


def test_a_service_that_stops_ends_every_wait(running: Running, workers: Workers):
    answers = workers.line_up(3)
    running.begin_stop()
    assert [answer.result(PATIENCE) for answer in answers] == [[], [], []]


def claim_request(**headers: str) -> bytes:
    body = json.dumps(WORKER).encode()
    lines = {
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {BASE}/claim-work/{ENCODED} HTTP/1.1\r\n{head}\r\n".encode() + body


def test_a_worker_that_goes_while_it_waits_gets_nothing(
    queue: Queue, running: Running, workers: Workers
):
    with connected(running.url) as connection:
        connection.send(claim_request())
        eventually(lambda: workers.waiting() == 1)
        [behind] = [workers.ask("w1")]
        eventually(lambda: workers.waiting() == 2)
    eventually(lambda: workers.waiting() == 1)
    task_id = queue.create()
    [claim] = behind.result(PATIENCE)
    assert claim["status"]["taskId"] == task_id
    assert len(claim["status"]["runs"]) == 1


@pytest.mark.parametrize("waits", [False, True])
def test_what_is_claimed_for_a_worker_that_has_gone_is_given_back(
    queue: Queue, running: Running, workers: Workers, claims: Claims, *, waits: bool
):
    """The claim is under way in the store when the connection ends."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def hold(tasks: list[Task]) -> None:
        if tasks and not begun.is_set():
            begun.set()
            await go_on.wait()

    claims.then = hold
    task_id = "" if waits else queue.create()
    with connected(running.url) as connection:
        connection.send(claim_request())
        if waits:
            eventually(lambda: workers.waiting() == 1)
            task_id = queue.create()
        eventually(begun.is_set)

    async def release() -> None:
        for _ in range(10):  # the loop has seen the end of the connection by then
            await asyncio.sleep(0.001)
        go_on.set()

    running.call(release())
    [claim] = queue.claim(workerId="another")
    assert claim["status"]["taskId"] == task_id
    first, second = claim["status"]["runs"]
    assert (first["state"], first["reasonResolved"]) == ("exception", "worker-shutdown")
    assert second["runId"] == claim["runId"] == 1
    assert claim["status"]["retriesLeft"] == 5, "that costs no try"


def test_a_store_that_is_away_keeps_nobody_from_their_turn(
    queue: Queue, workers: Workers, claims: Claims, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(claim_lines, "_PAUSE_S", 0.01)
    [answer] = workers.line_up(1)
    failures = 3

    async def fail() -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise StoreUnavailable("The store cannot be reached; as asked.")

    claims.instead = fail
    task_id = queue.create()
    [claim] = answer.result(PATIENCE)
    assert claim["status"]["taskId"] == task_id
    assert len({request.token for request in claims.asked}) == 1, "one token, lest a claim be lost"


def test_a_task_that_cannot_be_written_for_its_worker_ends_alone(queue: Queue, running: Running):
    bad = Submission(
        id=slugid(),
        name="taskcluster",
        profile="taskcluster",
        queue=QUEUE,
        args=b'{"no": "document"}',
        priority=3,
        deadline=running.service.engine.now() + 3_600_000,
    )
    [submitted] = running.call(running.service.engine.submit([bad]))
    assert submitted.error is None
    good = [queue.create() for _ in range(2)]
    claimed = [claim["status"]["taskId"] for claim in queue.claim(32)]
    assert claimed == good
    [ended] = running.call(running.service.engine.get([bad.id]))
    assert ended.state == "failed"
    assert ended.status.reason == "malformed-payload"


def test_a_task_of_python_code_in_the_same_queue_is_not_for_these_workers(
    queue: Queue, running: Running
):
    other = Submission(id="mail-1", name="mail", queue=QUEUE, priority=5)
    running.call(running.service.engine.submit([other]))
    task_id = queue.create()
    assert [claim["status"]["taskId"] for claim in queue.claim(32)] == [task_id]
    [mail] = running.call(running.service.engine.get(["mail-1"]))
    assert mail.state == "pending"


def test_a_task_of_python_code_ends_as_its_own_policy_says_without_that_code(
    queue: Queue, running: Running
):
    """No such policy is to be a claim that nobody can read (docs/rulings.md, R32)."""
    ways = {"drop": "dropped", "fail": "failed", "retry": "retry", "wait": "pending"}
    submissions = [
        Submission(
            id=f"mail-{way}",
            name="mail",
            queue=QUEUE,
            priority=3,
            options={"retry_delay": 3600.0, "on_unknown": way},
        )
        for way in ways
    ]
    for submitted in running.call(running.service.engine.submit(submissions)):
        assert submitted.error is None
    task_id = queue.create()
    assert [claim["status"]["taskId"] for claim in queue.claim(32)] == [task_id]
    tasks = running.call(running.service.engine.get([f"mail-{way}" for way in ways]))
    assert {task.id: task.state for task in tasks} == {
        f"mail-{way}": state for way, state in ways.items()
    }
    assert {task.status.reason for task in tasks[:3]} == {"unknown-task"}


def test_a_run_that_is_not_reclaimed_is_lost_and_its_worker_told_so(tmp_path: Any):
    settings = TaskclusterSettings(claim_timeout=1.0, claim_wait=PATIENCE)
    app = Andon(f"sqlite:///{tmp_path}/short.db")
    with serving(app, taskcluster=settings) as running, running.client() as http:
        queue = Queue(http)
        task_id = queue.create(deadline=at(timedelta(hours=2)))
        queue.claim()
        [claim] = queue.claim(workerId="another")
        assert claim["status"]["taskId"] == task_id
        assert claim["runId"] == 1
        assert claim["status"]["retriesLeft"] == 4
        assert claim["status"]["runs"][0]["reasonResolved"] == "claim-expired"
        assert claim["status"]["runs"][1]["reasonCreated"] == "retry"
        for how in ("reclaim", "completed"):
            assert queue.report(task_id, 0, how).status_code == httpx.codes.CONFLICT


def test_whoever_waits_is_seen_among_the_workers(queue: Queue, workers: Workers):
    workers.line_up(1)

    def seen() -> list[Any]:
        return queue.http.get("/api/v1/workers").json()

    eventually(seen)
    [worker] = seen()
    assert worker["id"] == "us-east/w0"
    assert worker["queues"] == [QUEUE]


def quarantined(running: Running, worker: str, seconds: float = 3600) -> None:
    """Keep tasks of the queue from a worker that has claimed before."""
    engine = running.service.engine
    until = engine.now() + round(seconds * 1000)
    running.call(engine.quarantine_worker(QUEUE, f"{WORKER['workerGroup']}/{worker}", until))


def test_a_worker_put_in_quarantine_while_it_waits_holds_up_nobody_behind_it(
    queue: Queue, running: Running, workers: Workers
):
    first = workers.ask("w0")
    eventually(lambda: workers.waiting() == 1)
    second = workers.ask("w1")
    eventually(lambda: workers.waiting() == 2)
    quarantined(running, "w0")
    task_id = queue.create()
    [claim] = second.result(PATIENCE)
    assert claim["status"]["taskId"] == task_id
    assert first.result(PATIENCE) == []


def test_a_worker_in_quarantine_waits_in_vain_and_is_noted(tmp_path: Any):
    settings = TaskclusterSettings(claim_wait=0.05)
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    with serving(app, taskcluster=settings) as running, running.client() as http:
        queue = Queue(http)
        assert queue.claim(workerId="odd") == []
        quarantined(running, "odd")
        task_id = queue.create()
        assert queue.claim(workerId="odd") == []
        [claim] = queue.claim(workerId="even")
        assert claim["status"]["taskId"] == task_id
        found, _ = running.call(running.service.engine.claiming_workers(QUEUE))
        assert [one.worker.rpartition("/")[2] for one in found] == ["even", "odd"]
        [even] = [one for one in found if one.worker.endswith("even")]
        assert [recent.task for recent in even.recent] == [task_id]
