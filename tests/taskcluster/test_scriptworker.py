"""scriptworker, unchanged, with its own loop and in an environment of its own: it claims, reclaims,
uploads and reports by what `andon serve` answers, with no more scopes than a worker has."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import shared_stores
from servers import Servers
from tests.remote.kit import Process
from tests.service.kit import eventually

from .environments import python_with
from .kit import Queue, own_queue
from .serving import Served, new_client, serving_on

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAMS = Path(__file__).parent / "programs"
STORES = ("sqlite", "postgres")
"""One file, and one server."""

GROUP, WORKER_ID = "script-workers", "script-1"
SCOPES = ["queue:claim-work:proj/*", f"queue:worker-id:{GROUP}/*"]
OPTIONS = ("--claim-wait", "500ms", "--claim-timeout", "15s", "--require-token")
SLOW = 180.0
"""Seconds that a worker may take for its tasks on a machine that has much else to do."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        kinds = [kind for kind in shared_stores(metafunc.config) if kind in STORES]
        metafunc.parametrize("store_kind", kinds, scope="module")


class Deployment:
    """A service that asks who is asking, with a client for workers, and one that asks nobody."""

    def __init__(self, asking: Served, queue: Queue, credentials: dict[str, str]) -> None:
        self.asking = asking
        self.queue = queue
        self.credentials = credentials


@pytest.fixture(scope="module")
def deployment(
    store_kind: str, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    store = servers.fresh_url(store_kind, tmp_path_factory.mktemp("store"))
    credentials = asyncio.run(new_client(store, "tests/scriptworker", SCOPES))
    with (
        serving_on(store, tmp_path_factory.mktemp("asking"), *OPTIONS) as asking,
        serving_on(store, tmp_path_factory.mktemp("opened")) as opened,
        httpx.Client(base_url=opened.url, timeout=60, follow_redirects=True) as http,
    ):
        yield Deployment(asking, Queue(http), credentials)


class Worker:
    """A scriptworker that works on a queue of its own, until the block ends."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        self.queue_id = own_queue()
        self.folder = folder
        self._python = python_with("scriptworker", ("scriptworker",))
        self._http = deployment.queue
        self._config = folder / "scriptworker.yaml"
        self._config.write_text(json.dumps(self._settings(deployment)), encoding="utf-8")
        self.process: Process | None = None

    def _settings(self, deployment: Deployment) -> dict[str, Any]:
        provisioner, _, worker_type = self.queue_id.partition("/")
        script = str(PROGRAMS / "script.py")
        return {
            "taskcluster_root_url": deployment.asking.url,
            "provisioner_id": provisioner,
            "worker_type": worker_type,
            "worker_group": GROUP,
            "worker_id": WORKER_ID,
            "credentials": deployment.credentials,
            "reclaim_interval": 1,
            "poll_interval": 0,
            "task_script": [str(self._python), "-I", script, str(self.folder)],
            "work_dir": str(self.folder / "work"),
            "log_dir": str(self.folder / "logs"),
            "artifact_dir": str(self.folder / "artifacts"),
            "task_log_dir": str(self.folder / "artifacts" / "public" / "logs"),
            "sign_chain_of_trust": False,
            "ed25519_private_key_path": str(self.folder / "none"),
        }

    def start(self) -> None:
        program = self._python.with_name("scriptworker")
        argv = [str(self._python), "-I", str(program), str(self._config)]
        self.process = Process(argv, self.folder / "worker.log")

    def create(self, **payload: Any) -> str:
        """A task for this worker."""
        return self._http.create(taskQueueId=self.queue_id, payload=payload)

    def began(self, task_id: str, run: int = 0) -> None:
        """Wait until the script of that run has begun."""
        self._until((self.folder / f"began-{task_id}-{run}").exists)

    def ended(self, task_id: str, state: str) -> list[dict[str, Any]]:
        """Wait for the end of a task, which must be this; its runs."""
        self._until(lambda: self._http.state(task_id) not in ("pending", "running"))
        status = self._http.status(task_id)
        assert status["state"] == state, f"{status}\n{self.log}"
        return status["runs"]

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SLOW
        while not holds():
            assert self.process is not None
            assert self.process.is_running, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    @property
    def log(self) -> str:
        return "" if self.process is None else self.process.log[-20_000:]

    def stop(self) -> None:
        """Tell it to end, as whoever runs one does; it must do so well."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.exited() == 0, self.log

    def close(self) -> None:
        if self.process is not None:
            self.process.close()


@contextmanager
def working(deployment: Deployment, folder: Path) -> Iterator[Worker]:
    worker = Worker(deployment, folder)
    try:
        worker.start()
        yield worker
    finally:
        worker.close()


@pytest.fixture
def worker(deployment: Deployment, tmp_path: Path) -> Iterator[Worker]:
    with working(deployment, tmp_path) as worker:
        yield worker


@pytest.fixture
def queue(deployment: Deployment) -> Queue:
    return deployment.queue


def artifacts(queue: Queue, task_id: str, run: int = 0) -> dict[str, httpx.Response]:
    """What a run left behind, fetched by name."""
    path = f"/task/{task_id}/runs/{run}/artifacts"
    listed = queue.answer("GET", path)["artifacts"]
    return {one["name"]: queue.ask("GET", f"{path}/{one['name']}") for one in listed}


LOG, REPORT, DATA = "public/logs/live_backing.log", "public/report.txt", "public/data.bin"


def test_each_way_a_script_can_end_is_how_its_task_ends(worker: Worker, queue: Queue):
    ids = {
        name: worker.create(exits=exits)
        for name, exits in {
            "success": [0],
            "failure": [1],
            "intermittent": [7, 0],
            "malformed": [3],
            "unavailable": [4],
        }.items()
    }
    [run] = worker.ended(ids["success"], "completed")
    assert (run["workerGroup"], run["workerId"]) == (GROUP, WORKER_ID)
    assert run["reasonResolved"] == "completed"
    [run] = worker.ended(ids["failure"], "failed")
    assert run["reasonResolved"] == "failed"
    first, second = worker.ended(ids["intermittent"], "completed")
    assert (first["state"], first["reasonResolved"]) == ("exception", "intermittent-task")
    assert (second["reasonCreated"], second["reasonResolved"]) == ("task-retry", "completed")
    [run] = worker.ended(ids["malformed"], "exception")
    assert run["reasonResolved"] == "malformed-payload"
    [run] = worker.ended(ids["unavailable"], "exception")
    assert run["reasonResolved"] == "resource-unavailable"
    for name, runs in (("success", 1), ("failure", 1), ("intermittent", 2), ("malformed", 1)):
        for number in range(runs):
            left = artifacts(queue, ids[name], number)
            assert {LOG, REPORT, DATA} <= set(left)
            assert f"run {number} has begun" in left[LOG].text
    worker.stop()


def test_what_it_packs_is_served_as_it_was_packed(worker: Worker, queue: Queue):
    task_id = worker.create(exits=[0])
    worker.ended(task_id, "completed")
    left = artifacts(queue, task_id)
    report, data = left[REPORT], left[DATA]
    assert report.headers["content-encoding"] == "gzip"
    assert int(report.headers["content-length"]) < len(report.content), "packed on its way"
    assert report.text == f"run 0 of {task_id}\n" * 1000
    assert "content-encoding" not in data.headers
    assert data.content == bytes(range(256)) * 64
    chain = left["public/chain-of-trust.json"].json()
    assert chain["taskId"] == task_id
    assert chain["task"] == queue.answer("GET", f"/task/{task_id}")


def test_a_task_that_is_cancelled_while_it_runs_is_stopped_and_its_log_kept(
    worker: Worker, queue: Queue
):
    task_id = worker.create(exits=[0], wait=True)
    worker.began(task_id)
    queue.act(task_id, "cancel")
    after = worker.create(exits=[0])
    worker.ended(after, "completed")  # the worker has gone on
    [run] = worker.ended(task_id, "exception")
    assert run["reasonResolved"] == "canceled"
    left = artifacts(queue, task_id)
    assert "run 0 has begun" in left[LOG].text
    assert "Automation Error" in left[LOG].text, "its process was ended"


def test_a_worker_that_was_killed_loses_its_run_and_another_one_is_made(
    worker: Worker, queue: Queue
):
    task_id = worker.create(exits=[0, 0], wait=True)
    worker.began(task_id)
    assert worker.process is not None
    worker.process.kill()
    worker.start()
    first, second = worker.ended(task_id, "completed")
    assert (first["state"], first["reasonResolved"]) == ("exception", "claim-expired")
    assert (second["reasonCreated"], second["reasonResolved"]) == ("retry", "completed")
    assert {LOG, REPORT, DATA} <= set(artifacts(queue, task_id, 1))
    provisioner, _, worker_type = worker.queue_id.partition("/")
    path = f"/provisioners/{provisioner}/worker-types/{worker_type}/workers/{GROUP}/{WORKER_ID}"
    runs = [{"taskId": task_id, "runId": run} for run in (0, 1)]
    eventually(lambda: queue.answer("GET", path)["recentTasks"] == runs)  # noted in another process


def test_a_worker_that_is_told_to_stop_gives_its_task_to_the_next(worker: Worker, queue: Queue):
    task_id = worker.create(exits=[0, 0], wait=True)
    worker.began(task_id)
    worker.stop()
    status = queue.status(task_id)
    assert status["state"] == "pending"
    assert status["runs"][0]["reasonResolved"] == "worker-shutdown"
    worker.start()
    _, second = worker.ended(task_id, "completed")
    assert second["runId"] == 1
