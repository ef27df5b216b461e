"""The life of a task of the face on every store: what one of them could see differently."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import httpx
import pytest
from conftest import selected_stores
from servers import Servers
from tests.service.kit import serving

from andon import Andon
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import HOUR, Queue, at, definition, own_queue, refused, slugid
from .test_lists import pages

MOST = {"nats": 500_000}
"""Bytes of a document where the store itself takes less: half of a message, so that what the moves
add has room."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("store_kind", selected_stores(metafunc.config), scope="module")


@pytest.fixture(scope="module")
def http(
    store_kind: str, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    url = "memory://"
    if store_kind != "memory":
        url = servers.fresh_url(store_kind, tmp_path_factory.mktemp("store"))
    with (
        serving(Andon(url), taskcluster=TaskclusterSettings()) as running,
        running.client() as client,
    ):
        yield client


@pytest.fixture
def queue(http: httpx.Client) -> Queue:
    return Queue(http, own_queue())


def test_the_largest_document_lives_through_every_move(queue: Queue, store_kind: str):
    most = min(TaskclusterSettings().max_document, MOST.get(store_kind, 10**9))
    task_id = slugid()
    sent = definition(taskQueueId=queue.name, retries=49, payload={"x": ""})
    sent["payload"]["x"] = "y" * (most - 1_000)
    queue.answer("PUT", f"/task/{task_id}", sent)
    assert queue.answer("PUT", f"/task/{task_id}", sent)["status"]["state"] == "pending"
    for number in range(3):
        [claim] = queue.claim()
        assert claim["task"]["payload"] == sent["payload"]
        assert queue.report(task_id, number, "reclaim").status_code == 200
        body = {"reason": "intermittent-task"}
        assert queue.report(task_id, number, "exception", body).status_code == 200
    queue.claim()
    assert queue.report(task_id, 3, "completed").json()["status"]["state"] == "completed"
    queue.act(task_id, "rerun")
    status = queue.act(task_id, "cancel")
    states = [run["state"] for run in status["runs"]]
    assert states == ["exception", "exception", "exception", "completed", "exception"]
    [row] = queue.answer("GET", f"/task-group/{task_id}/list")["tasks"]
    assert row["task"]["payload"] == sent["payload"]


def test_a_document_that_is_too_large_is_refused_and_nothing_stored(queue: Queue, store_kind: str):
    task_id = slugid()
    size = MOST.get(store_kind, 1_000_000) + 50_000
    answer = queue.ask("PUT", f"/task/{task_id}", definition(payload={"x": "y" * size}))
    refused(answer, 413, "InputTooLarge", "createTask")
    refused(queue.ask("GET", f"/task/{task_id}"), 404, "ResourceNotFound")


def test_a_group_with_dependencies_goes_from_its_first_task_to_its_last(queue: Queue):
    group = slugid()
    ids: list[str] = []
    for level in range(4):
        needed = ids[-3:] if level else []
        ids += [queue.create(taskGroupId=group, dependencies=needed) for _ in range(3)]
    done: set[str] = set()
    while len(done) < len(ids):
        for claim in queue.claim(32):
            task_id = claim["status"]["taskId"]
            assert set(claim["task"]["dependencies"]) <= done
            assert queue.report(task_id, 0, "completed").status_code == 200
        rows = queue.answer("GET", f"/task-group/{group}/list", params={"limit": 1000})["tasks"]
        assert sorted(row["status"]["taskId"] for row in rows) == sorted(ids)
        done = {r["status"]["taskId"] for r in rows if r["status"]["state"] == "completed"}


def test_the_same_task_by_many_at_once_is_created_once(queue: Queue):
    task_id = slugid()
    sent = definition(taskQueueId=queue.name, deadline=at(timedelta(hours=2)))
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: queue.ask("PUT", f"/task/{task_id}", sent), range(16)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert len(queue.status(task_id)["runs"]) == 1
    queue.act(task_id, "cancel")


def test_a_cancel_and_a_report_at_once_leave_one_end(queue: Queue):
    with ThreadPoolExecutor(2) as threads:
        for _ in range(10):
            task_id = queue.create()
            queue.claim()
            cancelled = threads.submit(queue.ask, "POST", f"/task/{task_id}/cancel")
            reported = threads.submit(queue.report, task_id, 0, "completed").result()
            assert cancelled.result().status_code == 200
            [run] = queue.status(task_id)["runs"]
            if reported.status_code == 200:
                assert run["reasonResolved"] == "completed"
            else:
                refused(reported, 409, "RequestConflict", "reportCompleted")
                assert run["reasonResolved"] == "canceled"


def test_workers_are_known_by_their_claims_and_kept_from_them(queue: Queue):
    of = own_queue()
    provisioner, _, worker_type = of.partition("/")
    workers = f"/provisioners/{provisioner}/worker-types/{worker_type}/workers"
    ids = [queue.create(taskQueueId=of) for _ in range(3)]
    for number in range(2):
        queue.claim(queue=of, workerId=f"w{number}")
    held = queue.answer("PUT", f"{workers}/us-east/w0", {"quarantineUntil": at(HOUR)})
    assert len(held["recentTasks"]) == 1
    found = pages(queue, f"GET {workers}", "workers", 1)
    assert [row["workerId"] for [row] in found] == ["w0", "w1"]
    for said, expected in (("true", ["w0"]), ("false", ["w1"])):
        rows = queue.answer("GET", workers, params={"quarantined": said})["workers"]
        assert [row["workerId"] for row in rows] == expected
    claimed = pages(queue, f"GET /task-queues/{of}/claimed", "tasks", 1)
    [pending] = queue.answer("GET", f"/task-queues/{of}/pending")["tasks"]
    assert {pending["taskId"], *(row["taskId"] for [row] in claimed)} == set(ids)
    assert queue.answer("GET", f"/task-queues/{of}")["taskQueueId"] == of
    assert provisioner in [
        one["provisionerId"] for one in queue.answer("GET", "/provisioners")["provisioners"]
    ]
