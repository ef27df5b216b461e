"""A client that is revoked while its worker waits."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.service.kit import PATIENCE, eventually, serving

from andon import Andon
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import WORKER, own_queue, refused
from .signer import Signer
from .test_access import Request, Service


@pytest.fixture
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    app = Andon(f"sqlite:///{tmp_path_factory.mktemp('revoked')}/tasks.db")
    with serving(app) as first:  # without the face: there has to be a client before it starts
        first.call(first.service.authentication.clients.create("first", []))
    settings = TaskclusterSettings(claim_wait=PATIENCE)
    with (
        serving(app, taskcluster=settings, require_token=True) as running,
        running.client() as http,
    ):
        yield Service(running, http)
        running.begin_stop()


def test_what_it_waited_for_is_not_for_it_any_more(service: Service):
    running, queue = service.running, own_queue()
    clients = running.service.authentication.clients
    token, _ = running.call(clients.create("worker", ["queue:*"]))
    worker = Signer("worker", token)
    claim = Request("POST", f"/claim-work/{queue}", WORKER, ())

    def waiting() -> float:
        [metric] = running.service.metrics.waiting_workers.collect()
        return metric.samples[0].value

    def is_refused() -> bool:
        return service.ask(worker, Request("GET", "/task-queues", None, ())).status_code == 401

    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(service.ask, worker, claim)
        eventually(lambda: waiting() == 1)
        running.call(clients.revoke("worker"))
        eventually(is_refused)
        task_id = service.create(taskQueueId=queue)
        refused(answer.result(PATIENCE), 401, "AuthenticationFailed", "claimWork")
    [again] = service.good("POST", f"/claim-work/{queue}", WORKER)["tasks"]
    assert again["status"]["taskId"] == task_id
    assert [run.get("reasonResolved") for run in again["status"]["runs"]] == [
        "worker-shutdown",
        None,
    ]
