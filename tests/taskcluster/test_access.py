"""Every route where it is asked who is asking: what each needs, and that nothing less will do."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import httpx
import pytest
from tests.service.kit import Running, serving

from andon import Andon
from andon.service.taskcluster.face import TABLE
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import BASE, WORKER, at, definition, nothing_moves, own_queue, refused, slugid
from .signer import Signer

GROUP = "gecko-group"


class Service:
    """A service that asks for signatures, and a client that may do everything."""

    def __init__(self, running: Running, http: httpx.Client) -> None:
        self.running = running
        self.http = http
        clients = running.service.authentication.clients
        token, _ = running.call(clients.create("root", ["*"]))
        self.root = Signer("root", token)

    def ask(self, signer: Signer | None, request: "Request") -> httpx.Response:
        url = f"{self.running.url}{BASE}{request.path}"
        headers = {} if signer is None else {"authorization": signer.header(request.method, url)}
        options = {} if request.body is None else {"json": request.body}
        return self.http.request(request.method, url, headers=headers, **options)

    def good(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.ask(self.root, Request(method, path, body, ()))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def create(self, **fields: Any) -> str:
        task_id = slugid()
        self.good("PUT", f"/task/{task_id}", definition(**fields))
        return task_id

    def claim(self) -> str:
        """A task that is claimed, of a queue of its own."""
        queue = own_queue()
        task_id = self.create(taskQueueId=queue)
        [claim] = self.good("POST", f"/claim-work/{queue}", WORKER)["tasks"]
        assert claim["status"]["taskId"] == task_id
        return task_id


class Request(NamedTuple):
    """A request, and the scopes that are just enough for it."""

    method: str
    path: str
    body: Any
    scopes: tuple[str, ...]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    app = Andon(f"sqlite:///{tmp_path_factory.mktemp('access')}/tasks.db")
    settings = TaskclusterSettings(claim_wait=0.0)
    with serving(app) as first:  # without the face: there has to be a client before it starts
        clients = first.service.authentication.clients
        first.call(clients.create("first", []))
        first.call(clients.set_role("anonymous", ["queue:get-artifact:public/*"]))
    with (
        serving(app, taskcluster=settings, require_token=True) as running,
        running.client() as http,
    ):
        yield Service(running, http)


def create_task(service: Service) -> Request:
    body = definition(
        taskQueueId="proj/wt",
        schedulerId="sched",
        projectId="gecko",
        priority="high",
        scopes=["secrets:get:a b", "docker"],
        routes=["index.gecko", "other"],
    )
    scopes = (
        "secrets:get:*",
        "docker",
        "queue:route:index.*",
        "queue:route:other",
        "queue:create-task:project:gecko",
        "queue:scheduler-id:sched",
        "queue:create-task:very-high:proj/wt",
    )
    return Request("PUT", f"/task/{slugid()}", body, scopes)


def of_task(method: str, tail: str, scope: str) -> Callable[[Service], Request]:
    def made(service: Service) -> Request:
        task_id = service.create()
        return Request(method, f"/task/{task_id}{tail}", None, (f"{scope}:{task_id}",))

    return made


def of_run(how: str, scope: str, body: Any = None) -> Callable[[Service], Request]:
    def made(service: Service) -> Request:
        task_id = service.claim()
        scopes = (f"{scope}:{task_id}/0",)
        return Request("POST", f"/task/{task_id}/runs/0/{how}", body, scopes)

    return made


def act(name: str) -> Callable[[Service], Request]:
    def made(service: Service) -> Request:
        task_id = service.create(schedulerId="sched")
        scope = f"queue:{name}-task:sched/{task_id}/{task_id}"
        return Request("POST", f"/task/{task_id}/{name}", None, (scope,))

    return made


def many(path: str, scope: str) -> Callable[[Service], Request]:
    def made(service: Service) -> Request:
        ids = [service.create(), slugid()]
        return Request("POST", path, {"taskIds": ids}, tuple(f"{scope}:{one}" for one in ids))

    return made


def change_priority(service: Service) -> Request:
    task_id = service.create()
    scopes = (f"queue:change-task-priority:{task_id}",)
    return Request("POST", f"/task/{task_id}/priority", {"newPriority": "high"}, scopes)


def group(service: Service) -> Request:
    task_id = service.create()
    scopes = (f"queue:list-task-group:{task_id}",)
    return Request("GET", f"/task-group/{task_id}/list", None, scopes)


def of_group(method: str, tail: str, scope: str, body: Any = None) -> Callable[[Service], Request]:
    def made(service: Service) -> Request:
        task_id = service.create(schedulerId="sched")
        if tail == "/cancel":
            service.good("POST", f"/task-group/{task_id}/seal")
        scopes = (scope.format(group=task_id),)
        return Request(method, f"/task-group/{task_id}{tail}", body, scopes)

    return made


def plain(method: str, path: str, *scopes: str, body: Any = None) -> Callable[[Service], Request]:
    return lambda service: Request(method, path, body, scopes)


PUBLIC = {
    "ping": plain("GET", "/ping"),
    "version": plain("GET", "/__version__"),
    "heartbeat": plain("GET", "/__heartbeat__"),
    "lbheartbeat": plain("GET", "/__lbheartbeat__"),
}


def artifact(method: str, kind: str, scope: str, body: Any = None) -> Callable[[Service], Request]:
    """A request for the artifact `public/log` of a run, which has left it behind."""

    def made(service: Service) -> Request:
        task_id = service.claim()
        of_run = f"/task/{task_id}/runs/0/artifacts/log"
        service.good("POST", of_run, LINK)
        path = f"/task/{task_id}/{kind.replace('RUN', 'runs/0')}"
        return Request(method, path, body, (scope.replace("TASK", task_id),))

    return made


def of_worker(method: str, path: str, scope: str, body: Any = None) -> Callable[[Service], Request]:
    """A request about a worker that has claimed, where QUEUE, PROV and TYPE are its own."""

    def made(service: Service) -> Request:
        queue = own_queue()
        service.good("POST", f"/claim-work/{queue}", WORKER)
        provisioner, _, worker_type = queue.partition("/")

        def filled(text: str) -> str:
            text = text.replace("QUEUE", queue).replace("PROV", provisioner)
            return text.replace("TYPE", worker_type).replace("NAME", "us-east/i-0a1b")

        return Request(method, filled(path), body, (filled(scope),))

    return made


LINK = {
    "storageType": "reference",
    "contentType": "text/plain",
    "expires": at(timedelta(hours=1)),
    "url": "https://example.org/log",
}
TYPE = "/provisioners/PROV/worker-types/TYPE"
MAKE = "queue:create-artifact:TASK/0"
COUNTS = ("queue:pending-count:proj/wt", "queue:claimed-count:proj/wt")
NEEDING: dict[str, Callable[[Service], Request]] = {
    "createTask": create_task,
    "task": of_task("GET", "", "queue:get-task"),
    "status": of_task("GET", "/status", "queue:status"),
    "tasks": many("/tasks", "queue:get-task"),
    "statuses": many("/tasks/status", "queue:status"),
    "scheduleTask": act("schedule"),
    "rerunTask": act("rerun"),
    "cancelTask": act("cancel"),
    "changeTaskPriority": change_priority,
    "listDependentTasks": of_task("GET", "/dependents", "queue:list-dependent-tasks"),
    "listTaskGroup": group,
    "getTaskGroup": of_group("GET", "", "queue:list-task-group:{group}"),
    "sealTaskGroup": of_group("POST", "/seal", "queue:seal-task-group:sched/{group}"),
    "cancelTaskGroup": of_group("POST", "/cancel", "queue:cancel-task-group:sched/{group}"),
    "changeTaskGroupPriority": of_group(
        "POST",
        "/priority",
        "queue:change-task-group-priority:sched/{group}",
        {"newPriority": "low"},
    ),
    "claimWork": plain(
        "POST",
        "/claim-work/proj%2Fempty",
        "queue:claim-work:proj/empty",
        "queue:worker-id:us-east/i-0a1b",
        body=WORKER,
    ),
    "reclaimTask": of_run("reclaim", "queue:reclaim-task"),
    "reportCompleted": of_run("completed", "queue:resolve-task"),
    "reportFailed": of_run("failed", "queue:resolve-task"),
    "reportException": of_run("exception", "queue:resolve-task", {"reason": "internal-error"}),
    "taskQueueCounts": plain("GET", "/task-queues/proj%2Fwt/counts", *COUNTS),
    "taskQueueCountsBatch": plain(
        "POST", "/task-queues/counts", *COUNTS, body={"taskQueueIds": ["proj/wt"]}
    ),
    "createArtifact": artifact("POST", "RUN/artifacts/log", MAKE, LINK),
    "finishArtifact": artifact("PUT", "RUN/artifacts/log", MAKE, {"uploadId": slugid()}),
    "listArtifacts": artifact("GET", "RUN/artifacts", "queue:list-artifacts:TASK:0"),
    "listLatestArtifacts": artifact("GET", "artifacts", "queue:list-artifacts:TASK"),
    "artifactInfo": artifact("GET", "RUN/artifact-info/log", "queue:list-artifacts:TASK:0"),
    "latestArtifactInfo": artifact("GET", "artifact-info/log", "queue:list-artifacts:TASK"),
    "artifact": artifact("GET", "RUN/artifact-content/log", "queue:get-artifact:log"),
    "latestArtifact": artifact("GET", "artifact-content/log", "queue:get-artifact:log"),
    "getArtifact": artifact("GET", "RUN/artifacts/log", "queue:get-artifact:log"),
    "getLatestArtifact": artifact("GET", "artifacts/log", "queue:get-artifact:log"),
    "pendingTasks": plain("GET", "/pending/proj%2Fwt", COUNTS[0]),
    "listPendingTasks": plain(
        "GET", "/task-queues/proj%2Fwt/pending", "queue:pending-list:proj/wt"
    ),
    "listClaimedTasks": plain(
        "GET", "/task-queues/proj%2Fwt/claimed", "queue:claimed-list:proj/wt"
    ),
    "listTaskQueues": plain("GET", "/task-queues", "queue:list-task-queues"),
    "getTaskQueue": of_worker("GET", "/task-queues/QUEUE", "queue:get-task-queue:QUEUE"),
    "listProvisioners": plain("GET", "/provisioners", "queue:list-provisioners"),
    "getProvisioner": of_worker("GET", "/provisioners/PROV", "queue:get-provisioner:PROV"),
    "listWorkerTypes": of_worker(
        "GET", "/provisioners/PROV/worker-types", "queue:list-worker-types:PROV"
    ),
    "getWorkerType": of_worker("GET", TYPE, "queue:get-worker-type:QUEUE"),
    "listWorkers": of_worker("GET", f"{TYPE}/workers", "queue:list-workers:QUEUE"),
    "getWorker": of_worker("GET", f"{TYPE}/workers/NAME", "queue:get-worker:QUEUE/NAME"),
    "quarantineWorker": of_worker(
        "PUT",
        f"{TYPE}/workers/NAME",
        "queue:quarantine-worker:QUEUE/NAME",
        {"quarantineUntil": at(timedelta(hours=1))},
    ),
    "declareWorker": of_worker(
        "PUT",
        f"{TYPE}/NAME",
        "queue:declare-worker:QUEUE/NAME#expires",
        {"expires": at(timedelta(hours=1))},
    ),
}

GOOD = {"finishArtifact": 400, "getArtifact": 303, "getLatestArtifact": 303}
"""What the others answer, to whoever may ask, is 200. There is no object service, so that nothing
is finished."""

TABLE_METHODS = {route.name: route.method for route in TABLE.routes}

every_route = pytest.mark.parametrize("name", sorted(NEEDING))


def test_every_route_is_here():
    assert {*PUBLIC, *NEEDING} == {route.name for route in TABLE.routes}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_what_says_nothing_of_tasks_is_for_everybody(service: Service, name: str):
    answer = service.ask(None, PUBLIC[name](service))
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"


@every_route
def test_the_scopes_that_it_needs_are_enough(service: Service, name: str):
    request = NEEDING[name](service)
    answer = service.ask(service.root.temporary(list(request.scopes)), request)
    assert answer.status_code == GOOD.get(name, 200), answer.text


@every_route
def test_with_any_one_of_them_missing_it_is_refused(service: Service, name: str):
    request = NEEDING[name](service)
    for missing in request.scopes:
        some = [scope for scope in request.scopes if scope != missing]
        signer = service.root.temporary([*some, "queue:no-such:*", missing + "x", missing[:-1]])
        with nothing_moves(service.running):
            error = refused(service.ask(signer, request), 403, "InsufficientScopes", name)
        assert "Client root lacks" in error["message"]
        assert missing.rstrip("*") in error["message"] or "create-task" in missing


@every_route
def test_without_credentials_it_is_refused(service: Service, name: str):
    request = NEEDING[name](service)
    with nothing_moves(service.running):
        error = refused(service.ask(None, request), 403, "InsufficientScopes", name)
    assert "without credentials" in error["message"]


def widened(signer: Signer) -> Signer:
    """Credentials whose certificate says more than was signed."""
    assert signer.certificate is not None
    return signer._replace(certificate={**signer.certificate, "scopes": ["*"]})


@every_route
def test_a_wrong_signature_is_refused(service: Service, name: str):
    request = NEEDING[name](service)
    wrong = (
        Signer("root", "x" * 43),
        Signer("nobody", service.root.access_token),
        service.root.temporary(["*"], life=-1000),
        widened(service.root.temporary(["docker"])),
    )
    for signer in wrong:
        answer = service.ask(signer, request)
        refused(answer, 401, "AuthenticationFailed", name)
        assert answer.headers["www-authenticate"] == "hawk"


@pytest.mark.parametrize("name", [n for n in sorted(NEEDING) if TABLE_METHODS[n] == "GET"])
def test_head_needs_what_get_needs(service: Service, name: str):
    request = NEEDING[name](service)._replace(method="HEAD")
    answer = service.ask(service.root.temporary(list(request.scopes)), request)
    assert (answer.status_code, answer.content) == (GOOD.get(name, 200), b"")
    for nobody, status in ((None, 403), (service.root.temporary([]), 403)):
        answer = service.ask(nobody, request)
        assert (answer.status_code, answer.content) == (status, b"")
    as_get = service.root.header("GET", f"{service.running.url}{BASE}{request.path}")
    url = f"{service.running.url}{BASE}{request.path}"
    assert service.http.head(url, headers={"authorization": as_get}).status_code == 401


def test_a_signed_url_holds_for_head_too(service: Service):
    url = f"{service.running.url}{BASE}/task/{service.create()}"
    signed = service.root.signed_url(url, 10**10)
    assert service.http.get(signed).status_code == 200
    answer = service.http.head(signed)
    assert (answer.status_code, answer.content) == (200, b"")
    assert service.http.post(signed).status_code == 404


def test_a_refused_request_changes_nothing(service: Service):
    nobody = service.root.temporary([])
    request = create_task(service)
    refused(service.ask(nobody, request), 403, "InsufficientScopes")
    task_id = request.path.removeprefix("/task/")
    answer = service.ask(service.root, Request("GET", request.path, None, ()))
    refused(answer, 404, "ResourceNotFound", "task")
    claimed = service.claim()
    for how in ("completed", "failed", "reclaim"):
        path = f"/task/{claimed}/runs/0/{how}"
        refused(service.ask(nobody, Request("POST", path, None, ())), 403, "InsufficientScopes")
    assert service.good("GET", f"/task/{claimed}/status")["status"]["state"] == "running"
    assert task_id != claimed


def test_a_priority_may_be_used_by_whoever_may_use_a_higher_one(service: Service):
    request = create_task(service)
    for priority, enough in (("highest", True), ("high", True), ("medium", False)):
        scopes = [*request.scopes[:-1], f"queue:create-task:{priority}:proj/wt"]
        again = request._replace(path=f"/task/{slugid()}")
        answer = service.ask(service.root.temporary(scopes), again)
        assert answer.status_code == (200 if enough else 403), answer.text


@pytest.mark.parametrize("name", ["schedule", "rerun", "cancel"])
def test_an_act_may_be_allowed_for_a_project_or_as_it_once_was(service: Service, name: str):
    for scopes in (
        [f"queue:{name}-task-in-project:gecko"],
        [f"queue:{name}-task", "assume:scheduler-id:sched/*"],
    ):
        task_id = service.create(schedulerId="sched", projectId="gecko")
        request = Request("POST", f"/task/{task_id}/{name}", None, ())
        assert service.ask(service.root.temporary(scopes), request).status_code == 200
        fewer = service.root.temporary(scopes[:-1])
        refused(service.ask(fewer, request), 403, "InsufficientScopes", f"{name}Task")


def run_signer(claim: dict[str, Any]) -> Signer:
    """The credentials of a claim."""
    given = claim["credentials"]
    certificate = json.loads(given["certificate"])
    return Signer(given["clientId"], given["accessToken"], certificate)


def test_a_run_speaks_for_itself_with_the_credentials_of_its_claim(service: Service):
    queue = own_queue()
    task_id = service.create(taskQueueId=queue, scopes=["queue:status:*"])
    [claim] = service.good("POST", f"/claim-work/{queue}", WORKER)["tasks"]
    first = run_signer(claim)
    again = service.ask(first, Request("POST", f"/task/{task_id}/runs/0/reclaim", None, ()))
    assert again.status_code == 200
    second = run_signer(again.json())
    status = Request("GET", f"/task/{task_id}/status", None, ())
    assert service.ask(first, status).status_code == 200
    assert service.ask(second, status).status_code == 200
    other = service.claim()
    report = Request("POST", f"/task/{other}/runs/0/completed", None, ())
    refused(service.ask(second, report), 403, "InsufficientScopes", "reportCompleted")
    report = Request("POST", f"/task/{task_id}/runs/0/completed", None, ())
    assert service.ask(second, report).status_code == 200
    assert service.ask(first, report).status_code == 200, "a repeat, with credentials still good"


def test_credentials_of_a_run_are_no_use_to_the_worker_of_the_next(service: Service):
    queue = own_queue()
    task_id = service.create(taskQueueId=queue)
    [claim] = service.good("POST", f"/claim-work/{queue}", WORKER)["tasks"]
    first = run_signer(claim)
    body = {"reason": "worker-shutdown"}
    report = Request("POST", f"/task/{task_id}/runs/0/exception", body, ())
    assert service.ask(first, report).status_code == 200
    other = {**WORKER, "workerId": "another"}
    [claim] = service.good("POST", f"/claim-work/{queue}", other)["tasks"]
    assert claim["runId"] == 1
    for how in ("reclaim", "completed"):
        request = Request("POST", f"/task/{task_id}/runs/1/{how}", None, ())
        refused(service.ask(first, request), 403, "InsufficientScopes")
    forged = Signer(first.client_id.replace("i-0a1b", "another"), *first[1:])
    request = Request("POST", f"/task/{task_id}/runs/1/completed", None, ())
    refused(service.ask(forged, request), 401, "AuthenticationFailed")


def test_pages_from_elsewhere_may_ask_a_service_that_knows_who_asks(service: Service):
    answer = service.http.options(
        f"{BASE}/task/{slugid()}",
        headers={"origin": "https://ci.example.com", "access-control-request-method": "PUT"},
    )
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "PUT" in answer.headers["access-control-allow-methods"]
    assert "Authorization" in answer.headers["access-control-allow-headers"]
    answer = service.ask(None, Request("GET", "/nothing", None, ()))
    refused(answer, 404, "ResourceNotFound")
    assert answer.headers["access-control-allow-origin"] == "*"
