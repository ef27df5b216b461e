"""Programs that were written for the original, unchanged: its clients for Python and JavaScript,
and what submits graphs. Each is a process in an environment of its own, the service another one."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import shared_stores
from servers import Servers
from tests.service.kit import eventually
from tests.taskcluster import shapes

from andon.service.taskcluster.face import TABLE

from .call_table import Call, table_of_calls
from .environments import node_with, python_with, run_script
from .kit import HOUR, Queue, at, own_queue, slugid
from .serving import Served, new_client, serving_on
from .shaped import check_read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAMS = Path(__file__).parent / "programs"
STORES = ("sqlite", "postgres")
"""One file, and one server."""

TASKGRAPH = ("taskcluster-taskgraph", "taskcluster")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        kinds = [kind for kind in shared_stores(metafunc.config) if kind in STORES]
        metafunc.parametrize("store_kind", kinds, scope="module")


@pytest.fixture(scope="module")
def store(store_kind: str, servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> str:
    return servers.fresh_url(store_kind, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def credentials(store: str) -> dict[str, str]:
    """A client that may do everything."""
    return asyncio.run(new_client(store, "tests/root", ["*"]))


WAIT = ("--claim-wait", "200ms")


@pytest.fixture(scope="module")
def opened(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that asks nobody."""
    with serving_on(store, tmp_path_factory.mktemp("opened"), *WAIT) as served:
        yield served


@pytest.fixture(scope="module")
def asking(
    store: str, credentials: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A service that asks everybody who they are."""
    folder = tmp_path_factory.mktemp("asking")
    with serving_on(store, folder, *WAIT, "--require-token") as served:
        yield served


def given(service: Served, credentials: dict[str, str] | None, **more: Any) -> dict[str, Any]:
    """What a program that calls every route is told."""
    return {
        "rootUrl": service.url,
        "credentials": credentials,
        "ids": [slugid() for _ in range(5)],
        "queue": own_queue(),
        "times": {"created": at(), "deadline": at(HOUR)},
        **more,
    }


def check(told: dict[str, Any], said: dict[str, Any]) -> None:
    """What every client must have been answered."""
    a, b, c, _, _ = told["ids"]
    assert said["ping"]["alive"] is True
    assert said["created"] == "pending"
    assert said["again"] is True
    assert said["other"] == [409, "RequestConflict", "createTask"]
    assert said["malformed"] == [400, "InputValidationError", "createTask"]
    assert said["wrong"] == [400, "InputError", "createTask"]
    assert said["task"]["taskQueueId"] == told["queue"]
    assert said["task"]["retries"] == 5
    assert said["not found"] == [404, "ResourceNotFound", "status"]
    assert said["blocked"] == "unscheduled"
    assert sorted(said["group"]) == sorted([a, b, c])
    assert said["listTaskGroup pages"] == [2, 1]
    assert said["pending"] == 1
    assert said["claimed"] == [a, 0, {"text": "π", "list": [1, None]}]
    assert said["reclaimed"] is True
    assert said["completed"] == said["completed again"] == "completed"
    assert said["then failed"] == [409, "RequestConflict", "reportFailed"]
    assert said["dependent"] == c
    assert said["retried"] == ["pending", 4, 2]
    assert said["other exception"] == [409, "RequestConflict", "reportException"]
    assert said["cancelled"] == "exception"
    assert said["rerun"] == said["scheduled"] == "pending"
    assert said["empty"] == {"tasks": []}


def check_python(told: dict[str, Any], said: dict[str, Any]) -> None:
    a, b, c, _, _ = told["ids"]
    check(told, said)
    assert said["version"] == ["build", "commit", "source", "version"]
    assert said["heartbeat"] == [{}, {}]
    assert said["bad id"] == [400, "InvalidRequestArguments", "task"]
    assert said["tasks"] == [a, b, c]
    assert said["tasks pages"] == said["statuses pages"] == [1, 2]
    assert said["statuses"] == ["pending", "unscheduled", "unscheduled"]
    assert (said["counts"]["pendingTasks"], said["counts"]["claimedTasks"]) == (1, 0)
    assert said["batch"]["taskQueueCounts"] == [said["counts"]]
    assert said["exception again"] == "pending"
    assert said["lost"] == [409, "RequestConflict", "reclaimTask"]
    assert said["failed"] == "failed"
    check_workers(told, said, [[a, 0], [c, 0], [c, 2]])
    assert said["bad worker"] == [400, "InvalidRequestArguments", "getWorker"]
    assert said["held"] == [[b, 0]]
    assert said["running"] == [[b, "w-2"]]


def check_workers(told: dict[str, Any], said: dict[str, Any], runs: list[list[Any]]) -> None:
    """What is known once one worker has claimed these runs and another was declared."""
    provisioner, _, worker_type = told["queue"].partition("/")
    later = told["times"]["deadline"]
    assert said["recent"] == [{"taskId": task_id, "runId": run} for task_id, run in runs]
    assert (said["declared"]["workerId"], said["declared"]["recentTasks"]) == ("w-2", [])
    assert [row["workerId"] for row in said["listed"]] == ["w-1", "w-2"]
    assert said["listed"][0]["latestTask"] == said["recent"][-1]
    assert said["quarantined"] == [later, "odd"]
    assert [row["workerId"] for row in said["in quarantine"]["workers"]] == ["w-1"]
    assert [row["workerId"] for row in said["free"]["workers"]] == ["w-2"]
    assert said["no worker"] == [404, "ResourceNotFound", "getWorker"]
    assert said["no quarantine"] == [404, "ResourceNotFound", "quarantineWorker"]
    assert said["nothing"] == {"tasks": []}
    assert said["queue"] in said["queues"]
    listed = [one["provisionerId"] for one in said["provisioners"]]
    assert said["provisioner"]["provisionerId"] in listed
    assert said["worker type"] in said["worker types"]
    assert said["worker type"]["taskQueueId"] == said["queue"]["taskQueueId"] == told["queue"]
    assert said["worker type"]["workerType"] == worker_type
    assert said["provisioner"]["provisionerId"] == provisioner


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_python_client_without_credentials(opened: Served, mode: str):
    told = given(opened, None, mode=mode)
    check_python(told, run_script([python_with("python"), PROGRAMS / "calls.py"], told))


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_python_client_with_credentials(asking: Served, credentials: dict[str, str], mode: str):
    told = given(asking, credentials, mode=mode)
    check_python(told, run_script([python_with("python"), PROGRAMS / "calls.py"], told))


def check_node(told: dict[str, Any], said: dict[str, Any]) -> None:
    a, _, c, _, _ = told["ids"]
    check(told, said)
    check_workers(told, said, [[a, 0], [c, 0]])
    assert said["listWorkers pages"] == [2]


def run_node(told: dict[str, Any]) -> dict[str, Any]:
    folder = node_with("node")
    command = ["node", PROGRAMS / "calls.mjs"]
    return run_script(command, told, CLIENT_FOLDER=str(folder))


def test_the_javascript_client_without_credentials(opened: Served):
    told = given(opened, None)
    check_node(told, run_node(told))


def test_the_javascript_client_with_credentials(asking: Served, credentials: dict[str, str]):
    told = given(asking, credentials)
    check_node(told, run_node(told))


LEVELS = [100, 200, 150, 50]


def test_taskgraph_submits_a_graph_that_its_decision_task_releases(
    asking: Served, opened: Served, credentials: dict[str, str]
):
    """500 tasks, created by many threads with the credentials of the decision task; then a worker
    runs them, each after all that it depends on."""
    queue_id = own_queue()
    hooks = {"response": [check_read]}
    with httpx.Client(base_url=opened.url, timeout=60, event_hooks=hooks) as http:
        queue = Queue(http)
        decision = slugid()
        queue.create(
            decision,
            taskQueueId=queue_id,
            schedulerId="gecko-level-1",
            scopes=["queue:*"],
            deadline=at(timedelta(hours=2)),
        )
        [claim] = queue.claim(queue=queue_id)
        certificate = claim["credentials"]["certificate"]
        submitted = run_script(
            [python_with("taskgraph", TASKGRAPH), PROGRAMS / "graph.py"],
            {"decision": decision, "queue": queue_id, "levels": LEVELS},
            TASKCLUSTER_ROOT_URL=asking.url,
            TASKCLUSTER_CLIENT_ID=claim["credentials"]["clientId"],
            TASKCLUSTER_ACCESS_TOKEN=claim["credentials"]["accessToken"],
            TASKCLUSTER_CERTIFICATE=certificate,
            TASK_ID=decision,
        )
        needed: dict[str, list[str]] = submitted["tasks"]
        assert len(needed) == sum(LEVELS)
        assert submitted["states"] == ["unscheduled"]
        assert submitted["incomplete"] == sorted([decision, *needed])
        assert submitted["group"] == [decision]
        assert submitted["scheduler"] == ["gecko-level-1"]
        assert sum(decision in before for before in needed.values()) == LEVELS[0]

        done = {decision}
        assert queue.report(decision, 0, "completed").status_code == 200
        claims: list[dict[str, Any]] = []

        def claimed() -> bool:
            claims[:] = queue.claim(32, queue=queue_id)
            return bool(claims)

        while len(done) <= len(needed):
            eventually(claimed)  # what is left is released by what was done
            for one in claims:
                task_id = one["status"]["taskId"]
                assert set(needed[task_id]) <= done, "it waits for all that it depends on"
                assert one["task"]["extra"]["treeherder"]["symbol"] == "B"
            for one in claims:
                task_id = one["status"]["taskId"]
                assert queue.report(task_id, 0, "completed").status_code == 200
                done.add(task_id)
        assert done == {decision, *needed}
        counts = queue.answer("GET", f"/task-queues/{queue_id}/counts")
        assert (counts["pendingTasks"], counts["claimedTasks"]) == (0, 0)


def sent(calls: list[Call]) -> list[dict[str, Any]]:
    """The table as a program is told it."""
    return [
        {
            "method": call.method,
            "arguments": call.arguments,
            "query": call.query or {},
            "as": "run" if call.by_run else "",
            "until": call.until,
        }
        for call in calls
    ]


def check_table(calls: list[Call], said: dict[str, Any]) -> None:
    """Every method that the client has was called, and each call answered as the table says."""
    assert set(said["methods"]) <= {call.method for call in calls}
    assert len(said["methods"]) >= 49
    for call, one in zip(calls, said["answers"], strict=True):
        if one is None:
            assert call.method not in said["methods"]
        elif call.refused is not None:
            status, body = one["error"]
            assert status == call.refused[0], (call, one)
            if call.raw:
                shapes.error_artifact_validator().validate(body)
                continue
            shapes.error_validator().validate(body)
            assert body["code"] == call.refused[1], (call, one)
        else:
            assert "answer" in one, (call, one)
            shapes.answer_validator(call.method).validate(one["answer"])
            assert call.check is None or call.check(one["answer"]), (call, one)


def test_every_route_is_in_the_table_of_calls():
    assert {route.name for route in TABLE.routes} <= {call.method for call in table_of_calls()}


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("signed", [True, False], ids=["with credentials", "without credentials"])
def test_every_method_of_the_python_client(
    opened: Served, asking: Served, credentials: dict[str, str], mode: str, signed: bool
):
    calls = table_of_calls()
    service = asking if signed else opened
    told = {
        "rootUrl": service.url,
        "credentials": credentials if signed else None,
        "mode": mode,
        "calls": sent(calls),
    }
    check_table(calls, run_script([python_with("python"), PROGRAMS / "table.py"], told))


@pytest.mark.parametrize("signed", [True, False], ids=["with credentials", "without credentials"])
def test_every_method_of_the_javascript_client(
    opened: Served, asking: Served, credentials: dict[str, str], signed: bool
):
    calls = table_of_calls()
    service = asking if signed else opened
    told = {
        "rootUrl": service.url,
        "credentials": credentials if signed else None,
        "calls": sent(calls),
    }
    command = ["node", PROGRAMS / "table.mjs"]
    check_table(calls, run_script(command, told, CLIENT_FOLDER=str(node_with("node"))))
