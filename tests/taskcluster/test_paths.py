"""Every route of the face: found by its path as clients encode it and as people type it, and what
is wrong with a request told in one shape."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest
from tests.service.kit import Running, serving

from andon import Andon
from andon.artifacts.base import Artifact
from andon.artifacts.blobs import once
from andon.service.taskcluster.face import TABLE
from andon.service.taskcluster.settings import TaskclusterSettings
from andon.service.taskcluster.table import Route

from .kit import (
    BASE,
    HOUR,
    QUEUE,
    WORKER,
    Queue,
    at,
    definition,
    nothing_moves,
    own_queue,
    refused,
    slugid,
)

Prepare = Callable[[Queue], dict[str, str]]


class Example(NamedTuple):
    """A request of a route that is answered well."""

    prepare: Prepare
    body: Callable[[], Any] | None = None
    """Makes it when it is sent: a time in it is near now, whenever in the run that is."""


def nothing(queue: Queue) -> dict[str, str]:
    return {}


def new(queue: Queue) -> dict[str, str]:
    return {"taskId": slugid()}


def pending(queue: Queue) -> dict[str, str]:
    task_id = queue.create()
    return {"taskId": task_id, "taskGroupId": task_id}


def sealed(queue: Queue) -> dict[str, str]:
    params = pending(queue)
    queue.answer("POST", f"/task-group/{params['taskGroupId']}/seal")
    return params


def claimed(queue: Queue) -> dict[str, str]:
    of_its_own = own_queue()
    task_id = queue.create(taskQueueId=of_its_own)
    [claim] = queue.claim(queue=of_its_own)
    assert claim["status"]["taskId"] == task_id
    return {"taskId": task_id, "runId": "0"}


def queued(queue: Queue) -> dict[str, str]:
    return {"taskQueueId": quote(own_queue(), safe="")}


def known(queue: Queue) -> dict[str, str]:
    """A worker that has claimed, of a queue of its own."""
    of_its_own = own_queue()
    assert queue.claim(queue=of_its_own) == []
    provisioner, _, worker_type = of_its_own.partition("/")
    return {
        "taskQueueId": quote(of_its_own, safe=""),
        "provisionerId": provisioner,
        "workerType": worker_type,
        **WORKER,
    }


UPLOAD = slugid()
RUNNING: list[Running] = []
"""The service, once there is one."""


def s3() -> dict[str, str]:
    return {"storageType": "s3", "contentType": "text/plain", "expires": at(HOUR)}


def left_nothing(queue: Queue) -> dict[str, str]:
    return {**claimed(queue), "name": "public%2Fa%20b.txt"}


def left_file(queue: Queue) -> dict[str, str]:
    params = left_nothing(queue)
    path = f"/task/{params['taskId']}/runs/0/artifacts/{params['name']}"
    url = queue.answer("POST", path, s3())["putUrl"]
    sent = queue.http.put(url, content=b"hello", headers={"content-type": "text/plain"})
    assert sent.status_code == 200, sent.text
    return params


def left_object(queue: Queue) -> dict[str, str]:
    """What no route makes, since there is no object service."""
    params = {**claimed(queue), "name": "object"}
    [running] = RUNNING
    kept = running.call(running.service.engine.artifacts())
    of = (params["taskId"], 0, "object")
    entry = Artifact(task=of[0], run=0, name=of[2], content_type="a/b", created_at=1, upload=UPLOAD)
    running.call(kept.register(entry))
    running.call(kept.fill(*of, once(b"x")))
    return params


GOOD = {"finishArtifact": 204, "getArtifact": 303, "getLatestArtifact": 303}
"""What the others answer is 200."""

EXAMPLES: dict[str, Example] = {
    "ping": Example(nothing),
    "version": Example(nothing),
    "heartbeat": Example(nothing),
    "lbheartbeat": Example(nothing),
    "createTask": Example(new, definition),
    "task": Example(pending),
    "status": Example(pending),
    "tasks": Example(nothing, lambda: {"taskIds": [slugid()]}),
    "statuses": Example(nothing, lambda: {"taskIds": [slugid()]}),
    "scheduleTask": Example(pending),
    "rerunTask": Example(pending),
    "cancelTask": Example(pending),
    "changeTaskPriority": Example(pending, lambda: {"newPriority": "high"}),
    "listDependentTasks": Example(pending),
    "listTaskGroup": Example(pending),
    "getTaskGroup": Example(pending),
    "sealTaskGroup": Example(pending),
    "cancelTaskGroup": Example(sealed),
    "changeTaskGroupPriority": Example(pending, lambda: {"newPriority": "high"}),
    "claimWork": Example(queued, lambda: WORKER),
    "reclaimTask": Example(claimed),
    "reportCompleted": Example(claimed),
    "reportFailed": Example(claimed),
    "reportException": Example(claimed, lambda: {"reason": "worker-shutdown"}),
    "createArtifact": Example(left_nothing, s3),
    "finishArtifact": Example(left_object, lambda: {"uploadId": UPLOAD}),
    "listArtifacts": Example(left_file),
    "listLatestArtifacts": Example(left_file),
    "artifactInfo": Example(left_file),
    "latestArtifactInfo": Example(left_file),
    "artifact": Example(left_file),
    "latestArtifact": Example(left_file),
    "getArtifact": Example(left_file),
    "getLatestArtifact": Example(left_file),
    "taskQueueCounts": Example(queued),
    "taskQueueCountsBatch": Example(nothing, lambda: {"taskQueueIds": [QUEUE]}),
    "pendingTasks": Example(queued),
    "listPendingTasks": Example(queued),
    "listClaimedTasks": Example(queued),
    "listTaskQueues": Example(nothing),
    "getTaskQueue": Example(known),
    "listProvisioners": Example(nothing),
    "getProvisioner": Example(known),
    "listWorkerTypes": Example(known),
    "getWorkerType": Example(known),
    "listWorkers": Example(known),
    "getWorker": Example(known),
    "quarantineWorker": Example(
        known, lambda: {"quarantineUntil": at(HOUR), "quarantineInfo": "odd"}
    ),
    "declareWorker": Example(known, lambda: {"expires": at(HOUR)}),
}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """One service for all of these requests: most are refused, and no two are about one task."""
    url = f"sqlite:///{tmp_path_factory.mktemp('paths')}/tasks.db"
    settings = TaskclusterSettings(claim_wait=0.0)
    with serving(Andon(url), taskcluster=settings) as running, running.client() as client:
        RUNNING[:] = [running]
        yield client


ROUTES = {route.name: route for route in TABLE.routes}
every_route = pytest.mark.parametrize("name", sorted(ROUTES))

ANYTHING = {"reportCompleted"}
"""Routes that take a body of any properties, for the sake of old workers."""


def path_of(route: Route, params: dict[str, str]) -> str:
    path = route.path
    for name, value in params.items():
        path = path.replace(f"<{name}>", value).replace(f"<{name}*>", value)
    assert "<" not in path
    return path


class Asking:
    """The example of one route, sent with something changed."""

    def __init__(self, queue: Queue, name: str) -> None:
        self.queue = queue
        self.route = ROUTES[name]
        self.params = EXAMPLES[name].prepare(queue)
        body = EXAMPLES[name].body
        self.body = body() if body else None
        self.good = GOOD.get(name, 200)  #: the status of a good answer

    def __call__(self, **changed: Any) -> httpx.Response:
        path = changed.pop("path", None) or path_of(self.route, self.params)
        method = changed.pop("method", self.route.method)
        if "content" not in changed and "json" not in changed and self.body is not None:
            changed["json"] = self.body
        return self.queue.http.request(method, BASE + path, **changed)

    def refused(self, status: int, code: str, **changed: Any) -> dict[str, Any]:
        """The error that the answer must be; nothing may have come of the request."""
        [running] = RUNNING
        with nothing_moves(running):
            return refused(self(**changed), status, code, self.route.name)


@pytest.fixture
def asking(queue: Queue, name: str) -> Asking:
    return Asking(queue, name)


def test_every_route_has_an_example():
    assert set(EXAMPLES) == set(ROUTES)


def test_no_two_routes_have_one_name_or_one_path():
    assert len({route.name for route in TABLE.routes}) == len(TABLE.routes)
    assert len({(route.method, route.path) for route in TABLE.routes}) == len(TABLE.routes)


@every_route
def test_it_answers_its_path_as_clients_encode_it(asking: Asking, name: str):
    assert asking().status_code == asking.good, asking().text


@pytest.mark.parametrize("name", [n for n, r in sorted(ROUTES.items()) if "taskQueueId" in r.path])
def test_a_queue_may_be_typed_as_two_segments(asking: Asking, name: str):
    encoded = asking.params["taskQueueId"]
    asking.params["taskQueueId"] = encoded.replace("%2F", "/")
    plain = asking()
    assert plain.status_code == 200, plain.text
    asking.params["taskQueueId"] = encoded
    assert asking().json() == plain.json()


def test_what_could_be_a_queue_typed_as_two_segments_is_one(queue: Queue):
    for tail in ("counts", "pending", "claimed"):
        error = refused(queue.ask("GET", f"/task-queues/proj/{tail}"), 404, "ResourceNotFound")
        assert error["requestInfo"]["method"] == "getTaskQueue"
        assert error["requestInfo"]["params"] == {"taskQueueId": f"proj/{tail}"}


@every_route
def test_another_method_is_told_that_there_is_nothing(asking: Asking, name: str):
    path = path_of(asking.route, asking.params)
    taken = {route.method for route in TABLE.routes if TABLE.find(route.method, path)}
    for method in {"GET", "PUT", "POST", "PATCH", "DELETE"} - taken:
        refused(asking(method=method), 404, "ResourceNotFound", "unknown")


reading = pytest.mark.parametrize(
    "name", [n for n, r in sorted(ROUTES.items()) if r.method == "GET"]
)


def headers_of(answer: httpx.Response) -> dict[str, str]:
    """The headers, but for what no two answers share: the date, and a URL that is signed anew."""
    return {k: v for k, v in answer.headers.items() if k not in ("date", "location")}


@reading
def test_head_is_answered_as_get_but_without_a_body(asking: Asking, name: str):
    whole, head = asking(), asking(method="HEAD")
    assert (head.status_code, head.content) == (whole.status_code, b"")
    own = {"content-length"} if name == "ping" else set[str]()  # it says for how long it is up
    for key, value in headers_of(whole).items():
        assert key in own or head.headers[key] == value
    assert set(head.headers) == set(whole.headers)
    assert asking().status_code == asking.good, "the connection is in order after it"


@reading
def test_head_is_refused_as_get_but_without_a_body(asking: Asking, name: str):
    head = asking(method="HEAD", params={"colour": "red"})
    assert (head.status_code, head.content) == (400, b"")
    assert int(head.headers["content-length"]) > 0
    refused(asking(params={"colour": "red"}), 400, "InvalidRequestArguments", name)


def test_head_of_what_there_is_not_has_no_body(queue: Queue):
    for path in ("/nothing", "/tasks", f"/task/{slugid()}"):
        head = queue.ask("HEAD", path)
        assert (head.status_code, head.content) == (404, b"")
    queue.answer("GET", "/ping")


BAD = {
    "taskId": ("x", "a" * 22, slugid() + "A", "%00", "%ff", "..%2F" + slugid()),
    "taskGroupId": ("x", slugid()[:-1]),
    "runId": ("-1", "x", "1.0", "9" * 30, "%20"),
    "name": ("%00", "%ff", "a%0Ab", "x" * 1_025, "%E2%82%AC"),
    "taskQueueId": ("proj%2F", "proj%2FWT", "proj%2Fwt%2Fmore", "a%20b%2Fwt", "p" * 39 + "%2Fwt"),
    "provisionerId": ("%00", "a%20b", "p" * 39, "%E2%82%AC", "a%2Fb"),
    "workerType": ("WT", "1", "a-", "a" * 39, "%ff"),
    "workerGroup": ("%00", "a%2Fb", "g" * 39, "%E2%82%AC"),
    "workerId": ("%00", "a%2Fb", "w" * 39, "a.b"),
}


@every_route
def test_a_parameter_that_cannot_be_is_refused(asking: Asking, name: str):
    good = dict(asking.params)
    for param in asking.route.params:
        for bad in BAD[param]:
            asking.params = {**good, param: bad}
            error = asking.refused(400, "InvalidRequestArguments")
            assert param in error["message"]
            assert set(error["requestInfo"]["params"]) == set(asking.route.params)


@every_route
def test_a_query_parameter_that_it_does_not_take_is_refused(asking: Asking, name: str):
    error = asking.refused(400, "InvalidRequestArguments", params={"colour": "red"})
    assert "colour" in error["message"]
    paged = "limit" in asking.route.query
    assert asking(params={"limit": "10"}).status_code == (asking.good if paged else 400)
    for query in ("limit=x", "limit=-1", "limit=", "continuationToken=", "limit=1&limit=2"):
        asking.refused(400, "InvalidRequestArguments", params=query)


@every_route
def test_a_signature_in_the_query_is_no_parameter(asking: Asking, name: str):
    assert asking(params={"bewit": "abc"}).status_code == asking.good


@every_route
def test_a_body_that_is_no_json_is_refused(asking: Asking, name: str):
    headers = {"content-type": "application/json"}
    for bad in (b"{", b"[1,", b"nothing", b'"text"', b"7", b"null", b'{"a": "\xff"}', b"[" * 9_999):
        error = asking.refused(400, "MalformedPayload", content=bad, headers=headers)
        assert error["requestInfo"]["payload"] == {}


@every_route
def test_a_body_of_another_type_is_refused_where_one_is_taken(asking: Asking, name: str):
    headers = {"content-type": "text/plain"}
    if asking.route.takes is None:
        assert asking(content=b"hello", headers=headers).status_code == asking.good
    else:
        asking.refused(400, "MalformedPayload", content=b"{}", headers=headers)


@every_route
def test_a_body_that_is_not_there_counts_as_an_empty_object(asking: Asking, name: str):
    if asking.body is None:
        assert asking(content=b"", headers={"content-length": "0"}).status_code == asking.good
    else:
        asking.refused(400, "InputValidationError", content=b"")


@every_route
def test_a_property_that_it_does_not_know_is_refused(asking: Asking, name: str):
    body = {**(asking.body or {}), "colour": "red"}
    if asking.route.takes is None or name in ANYTHING:
        assert asking(json=body).status_code == asking.good
    else:
        error = asking.refused(400, "InputValidationError", json=body)
        assert "colour" in error["message"]
        assert error["requestInfo"]["payload"] == body
        asking.refused(400, "InputValidationError", json=[body])


@pytest.mark.parametrize("name", ["createTask"])
def test_a_body_beyond_the_limit_is_refused(asking: Asking, name: str):
    body = definition(payload={"x": "y" * 10 * 1024 * 1024})
    asking.refused(413, "InputTooLarge", json=body)


@pytest.mark.parametrize(
    "path", ["", "/", "/nothing", "/task", "/task/", "/task//status", "/ping/more"]
)
def test_a_path_that_there_is_not_is_refused_in_the_same_shape(queue: Queue, path: str):
    refused(queue.ask("GET", path), 404, "ResourceNotFound", "unknown")


def test_what_stands_beside_the_version_is_refused_in_the_same_shape(queue: Queue):
    for path in ("/api/queue/", "/api/queue/v2/ping", "/api/queue/v1ping"):
        refused(queue.http.get(path), 404, "ResourceNotFound", "unknown")


def test_the_routes_of_andon_are_beside_it(queue: Queue):
    task_id = queue.create()
    shown = queue.http.get(f"/api/v1/tasks/{task_id}", params={"as": "taskcluster"}).json()
    assert shown["state"] == "pending"
