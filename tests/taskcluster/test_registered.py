"""Workers and the queues that they claim from: noted, listed, declared, and put in quarantine."""

from datetime import timedelta
from typing import Any

import pytest
from tests.service.kit import Running

from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import HOUR, QUEUE, Queue, at, is_time, refused
from .test_lists import pages

TYPE = "/provisioners/proj-gecko/worker-types/linux-large"
WORKER = f"{TYPE}/workers/us-east/i-0a1b"


@pytest.fixture
def face_settings() -> TaskclusterSettings:
    return TaskclusterSettings(claim_wait=0.0)


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{row['workerGroup']}/{row['workerId']}" for row in rows]


def test_a_worker_is_there_once_it_has_asked_for_work(queue: Queue):
    refused(queue.ask("GET", WORKER), 404, "ResourceNotFound", "getWorker")
    assert queue.claim() == []
    worker = queue.answer("GET", WORKER)
    assert set(worker) == {
        "provisionerId",
        "workerType",
        "taskQueueId",
        "workerGroup",
        "workerId",
        "firstClaim",
        "lastDateActive",
        "expires",
        "recentTasks",
    }
    assert (worker["taskQueueId"], worker["workerGroup"], worker["workerId"]) == (
        QUEUE,
        "us-east",
        "i-0a1b",
    )
    assert (worker["provisionerId"], worker["workerType"]) == tuple(QUEUE.split("/"))
    assert worker["recentTasks"] == []
    assert all(is_time(worker[name]) for name in ("firstClaim", "lastDateActive", "expires"))


def test_the_last_20_runs_of_a_worker_are_kept(queue: Queue):
    ids = [queue.create() for _ in range(22)]
    for _ in ids:
        queue.claim()
    worker = queue.answer("GET", WORKER)
    assert worker["recentTasks"] == [{"taskId": one, "runId": 0} for one in ids[-20:]]
    [row] = queue.answer("GET", f"{TYPE}/workers")["workers"]
    assert row["latestTask"] == {"taskId": ids[-1], "runId": 0}
    assert set(row) == {"workerGroup", "workerId", "firstClaim", "lastDateActive", "latestTask"}


def test_a_worker_that_reclaims_is_heard_of(queue: Queue, running: Running):
    task_id = queue.create()
    engine = running.service.engine
    tasks = running.call(
        engine.claim(
            ClaimRequest(worker="us-east/old", token="t", queues=(QUEUE,), limit=1, lease_ms=60_000)
        )
    )
    assert [task.id for task in tasks] == [task_id]
    assert queue.answer("GET", f"{TYPE}/workers")["workers"] == []
    assert queue.report(task_id, 0, "reclaim").status_code == 200
    assert names(queue.answer("GET", f"{TYPE}/workers")["workers"]) == ["us-east/old"]


def test_workers_are_listed_in_pages_by_name(queue: Queue):
    for number in range(5):
        queue.claim(workerId=f"w{number}")
    queue.claim(queue="proj-gecko/other")
    found = pages(queue, f"GET {TYPE}/workers", "workers", 2)
    assert [names(page) for page in found] == [
        ["us-east/w0", "us-east/w1"],
        ["us-east/w2", "us-east/w3"],
        ["us-east/w4"],
    ]
    assert queue.answer("GET", f"{TYPE}-2/workers") == {"workers": []}


def quarantine(queue: Queue, until: str, info: str = "", worker: str = "i-0a1b") -> dict[str, Any]:
    body = {"quarantineUntil": until, "quarantineInfo": info}
    return queue.answer("PUT", f"{TYPE}/workers/us-east/{worker}", body)


def test_a_worker_in_quarantine_gets_nothing_until_it_is_lifted(queue: Queue):
    for worker in ("even", "odd"):
        queue.claim(workerId=worker)
    task_id = queue.create()
    until = at(HOUR)
    held = quarantine(queue, until, "its disk is odd", "odd")
    assert held["quarantineUntil"] == until
    [said] = held["quarantineDetails"]
    assert is_time(said.pop("updatedAt"))
    assert said == {
        "clientId": "anybody-on-this-machine",
        "quarantineUntil": until,
        "quarantineInfo": "its disk is odd",
    }
    assert queue.claim(workerId="odd") == []

    def listed(said: str) -> list[str]:
        found = queue.answer("GET", f"{TYPE}/workers", params={"quarantined": said})
        return names(found["workers"])

    assert (listed("true"), listed("false")) == (["us-east/odd"], ["us-east/even"])
    [row] = queue.answer("GET", f"{TYPE}/workers", params={"quarantined": "true"})["workers"]
    assert row["quarantineUntil"] == until

    past = at(-HOUR)
    lifted = quarantine(queue, past, worker="odd")
    assert lifted["quarantineUntil"] == past
    assert [said["quarantineUntil"] for said in lifted["quarantineDetails"]] == [until, past]
    assert listed("true") == []
    [claim] = queue.claim(workerId="odd")
    assert claim["status"]["taskId"] == task_id


def test_a_quarantine_that_cannot_be_is_refused_and_changes_nothing(queue: Queue):
    body = {"quarantineUntil": at(HOUR)}
    refused(queue.ask("PUT", WORKER, body), 404, "ResourceNotFound", "quarantineWorker")
    queue.claim()
    before = queue.answer("GET", WORKER)
    for bad in (
        {},
        {"quarantineUntil": "tomorrow"},
        {"quarantineUntil": "1960-01-01T00:00:00Z"},
        {**body, "quarantineInfo": "x" * 4_001},
        {**body, "quarantineInfo": None},
    ):
        answer = queue.ask("PUT", WORKER, bad)
        refused(answer, 400, "InputValidationError", "quarantineWorker")
    for bad in ("yes", "True", "1"):
        answer = queue.ask("GET", f"{TYPE}/workers", params={"quarantined": bad})
        refused(answer, 400, "InvalidRequestArguments", "listWorkers")
    assert queue.answer("GET", WORKER) == before
    last = quarantine(queue, "9999-12-31T23:59:59.999Z")
    assert last["quarantineUntil"] == last["expires"] == "9999-12-31T23:59:59.999Z"


def test_a_worker_can_be_declared_before_it_claims(queue: Queue):
    path, expires = f"{TYPE}/us-east/i-0a1b", at(timedelta(days=3))
    declared = queue.answer("PUT", path, {"expires": expires})
    assert (declared["expires"], declared["recentTasks"]) == (expires, [])
    assert queue.answer("GET", WORKER) == declared
    assert queue.answer("GET", f"/task-queues/{QUEUE}")["taskQueueId"] == QUEUE
    sooner = queue.answer("PUT", path, {"expires": at(HOUR)})
    assert sooner["expires"] == expires, "it is never made shorter"
    queue.claim()
    assert queue.answer("GET", WORKER)["expires"] == expires
    refused(queue.ask("PUT", path, {}), 400, "InputValidationError", "declareWorker")
    past = queue.ask("PUT", path, {"expires": at(-HOUR)})
    refused(past, 400, "InputError", "declareWorker")


def test_queues_are_listed_under_each_of_their_names(queue: Queue):
    ids = ["a-b/x", "a/x", "a/y", "a0/x", "b/x"]
    for one in reversed(ids):
        queue.claim(queue=one)
    found = pages(queue, "GET /task-queues", "taskQueues", 2)
    assert [[one["taskQueueId"] for one in page] for page in found] == [ids[:2], ids[2:4], ids[4:]]
    first = found[0][0]
    assert (first["description"], first["stability"]) == ("", "experimental")
    assert is_time(first["expires"])
    assert is_time(first["lastDateActive"])
    assert queue.answer("GET", "/task-queues/a-b%2Fx") == first

    found = pages(queue, "GET /provisioners", "provisioners", 1)
    assert [[one["provisionerId"] for one in page] for page in found] == [
        ["a-b"],
        ["a"],
        ["a0"],
        ["b"],
    ]
    provisioner = queue.answer("GET", "/provisioners/a")
    assert provisioner == found[1][0]
    types = [queue.answer("GET", f"/provisioners/a/worker-types/{name}") for name in ("x", "y")]
    assert provisioner["expires"] == max(one["expires"] for one in types)
    assert types[0]["taskQueueId"] == "a/x"
    assert (types[0]["provisionerId"], types[0]["workerType"]) == ("a", "x")
    assert pages(queue, "GET /provisioners/a/worker-types", "workerTypes", 1) == [
        [types[0]],
        [types[1]],
    ]
    assert queue.answer("GET", "/provisioners/c/worker-types") == {"workerTypes": []}


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/task-queues/no%2Fsuch", "getTaskQueue"),
        ("/provisioners/no", "getProvisioner"),
        ("/provisioners/no/worker-types/such", "getWorkerType"),
        ("/provisioners/no/worker-types/such/workers/a/b", "getWorker"),
    ],
)
def test_what_nobody_has_claimed_from_is_not_there(queue: Queue, path: str, method: str):
    queue.create(taskQueueId="no/such-thing")
    refused(queue.ask("GET", path), 404, "ResourceNotFound", method)


def test_a_token_of_another_list_is_refused(queue: Queue):
    for worker in ("a", "b"):
        queue.claim(workerId=worker)
        queue.claim(queue=f"proj-{worker}/q")
    for _ in range(2):
        queue.create()
    lists = {
        f"{TYPE}/workers": "listWorkers",
        "/task-queues": "listTaskQueues",
        "/provisioners": "listProvisioners",
        f"/task-queues/{QUEUE}/pending": "listPendingTasks",
    }
    tokens = {
        path: queue.answer("GET", path, params={"limit": 1})["continuationToken"] for path in lists
    }
    lists[f"/task-queues/{QUEUE}/claimed"] = "listClaimedTasks"
    lists["/provisioners/proj-a/worker-types"] = "listWorkerTypes"
    for path, method in lists.items():
        others = [token for other, token in tokens.items() if other != path]
        for bad in (*others, "x", "!!"):
            answer = queue.ask("GET", path, params={"continuationToken": bad})
            refused(answer, 400, "InputError", method)


def test_workers_and_queues_of_python_code_are_in_no_list(queue: Queue, running: Running):
    """Also where such a worker asks to be noted."""
    engine = running.service.engine
    for worker, of in (("plain", QUEUE), ("a b/c", QUEUE), ("g/w", "emails")):
        request = ClaimRequest(
            worker=worker, token="t", queues=(of,), limit=1, lease_ms=60_000, registers=True
        )
        running.call(engine.claim(request))
    queue.claim()
    assert names(queue.answer("GET", f"{TYPE}/workers", params={"limit": 1})["workers"]) == [
        "us-east/i-0a1b"
    ]
    queues = queue.answer("GET", "/task-queues", params={"limit": 1})
    assert [one["taskQueueId"] for one in queues["taskQueues"]] == [QUEUE]
    assert "continuationToken" not in queues


def test_pending_tasks_are_listed_with_their_documents(queue: Queue, running: Running):
    ids = [queue.create(payload={"n": n}) for n in range(3)]
    queue.create(taskQueueId="proj-gecko/other")
    other = Submission(id="mail-1", name="mail", queue=QUEUE)
    running.call(engine_submit(running, other))
    found = pages(queue, f"GET /task-queues/{QUEUE}/pending", "tasks", 2)
    assert [[row["taskId"] for row in page] for page in found] == [ids[:2], ids[2:]]
    first = found[0][0]
    assert set(first) == {"taskId", "runId", "task", "inserted"}
    assert (first["runId"], first["task"]["payload"]) == (0, {"n": 0})
    assert first["inserted"] == queue.status(ids[0])["runs"][0]["scheduled"]
    [claim] = queue.claim()
    queue.report(ids[0], claim["runId"], "exception", {"reason": "intermittent-task"})
    rows = queue.answer("GET", f"/task-queues/{QUEUE}/pending")["tasks"]
    assert [(row["taskId"], row["runId"]) for row in rows] == [
        (ids[0], 1),
        (ids[1], 0),
        (ids[2], 0),
    ]


async def engine_submit(running: Running, submission: Submission) -> None:
    [submitted] = await running.service.engine.submit([submission])
    assert submitted.error is None


def test_claimed_tasks_are_listed_those_claimed_first_before_the_others(
    queue: Queue, running: Running
):
    ids = [queue.create(priority=priority) for priority in ("low", "high", "medium")]
    in_order = [queue.claim(workerId=f"w{n}")[0]["status"]["taskId"] for n in range(3)]
    assert in_order == [ids[1], ids[2], ids[0]]
    claimed = {one: queue.status(one)["runs"][0]["started"] for one in ids}
    expected = sorted(ids, key=lambda one: (claimed[one], one))
    found = pages(queue, f"GET /task-queues/{QUEUE}/claimed", "tasks", 2)
    assert [[row["taskId"] for row in page] for page in found] == [expected[:2], expected[2:]]
    [row] = [row for page in found for row in page if row["taskId"] == ids[1]]
    assert set(row) == {"taskId", "runId", "workerGroup", "workerId", "claimed", "task"}
    assert (row["runId"], row["workerGroup"], row["workerId"]) == (0, "us-east", "w0")
    assert row["claimed"] == claimed[ids[1]]
    assert row["task"] == queue.answer("GET", f"/task/{ids[1]}")
    token = queue.answer("GET", f"/task-queues/{QUEUE}/claimed", params={"limit": 1})
    for one in ids:
        queue.report(one, 0, "completed")
    params = {"continuationToken": token["continuationToken"]}
    assert queue.answer("GET", f"/task-queues/{QUEUE}/claimed", params=params) == {"tasks": []}
