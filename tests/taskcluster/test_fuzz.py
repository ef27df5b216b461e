"""Nasty values at every route of the face, on every store: no answer is the service's own fault,
each refusal has the shape that clients know, and the service goes on as if nobody had asked.

The values are the same each time: a generator with a seed for each route.
"""

import random
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import quote, urlencode

import httpx
import msgspec
import pytest
from conftest import selected_stores
from servers import Servers
from tests.service.kit import serving
from tests.service.test_fuzz import NUMBERS, RAW, SHAPES, TEXTS, put

from andon import Andon
from andon.service.taskcluster.face import TABLE
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import BASE, Queue, own_queue, refused, slugid
from .test_paths import EXAMPLES, ROUTES, RUNNING, path_of

REQUESTS = 12
"""Of each route: some six hundred in all."""

TIMES = ["1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "2030-02-30T00:00:00Z", "2030-01-01"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("store_kind", selected_stores(metafunc.config), scope="module")


@pytest.fixture(scope="module")
def http(
    store_kind: str, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    url, folder = "memory://", tmp_path_factory.mktemp("store")
    if store_kind != "memory":
        url = servers.fresh_url(store_kind, folder)
    app = Andon(url, artifacts=f"file://{folder}/artifacts")
    settings = TaskclusterSettings(claim_wait=0.0)
    with serving(app, taskcluster=settings) as running, running.client() as client:
        RUNNING[:] = [running]  # what an example makes that no route does
        yield client


def value(random_: random.Random) -> Any:
    return random_.choice(random_.choice([TEXTS, NUMBERS, SHAPES, TIMES]))


def places(kind: Any, body: Any) -> list[tuple[str, ...]]:
    """The paths to what a body of this form may have in it, and to what this one has."""
    found: set[tuple[str, ...]] = set()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        found |= {(field.encode_name,) for field in msgspec.structs.fields(kind)}

    def walk(part: Any, path: tuple[str, ...]) -> None:
        found.add(path)
        if isinstance(part, dict):
            for name, inner in cast("dict[str, Any]", part).items():
                walk(inner, (*path, name))
        elif isinstance(part, list) and part:
            walk(part[0], (*path, "[]"))

    walk(body, ())
    return sorted(found)


def requests(queue: Queue, name: str) -> Iterator[dict[str, Any]]:
    """Requests of one route, each with something strange in its path, its query or its body."""
    random_ = random.Random(name)
    route, example = ROUTES[name], EXAMPLES[name]
    body = None if example.body is None else example.body()
    fields = [] if route.takes is None else places(route.takes, body)
    params = example.prepare(queue)
    for _ in range(REQUESTS):
        request: dict[str, Any] = {"method": route.method, "params": "", "json": body}
        changed = dict(params)
        what = random_.choice(["path", "query", "body", "body", "raw"])
        if what == "path" and route.params:
            changed[random_.choice(route.params)] = quote(random_.choice(TEXTS)[:3_000], safe="")
        elif what == "query" and route.query:
            chosen = random_.choice(sorted(route.query))
            request["params"] = urlencode({chosen: random_.choice(TEXTS)[:3_000]})
        elif what == "raw":
            del request["json"]
            request["content"] = random_.choice(RAW)
            request["headers"] = {"content-type": "application/json"}
        elif fields:
            request["json"] = put(body, random_.choice(fields), value(random_))
        else:
            request["json"] = value(random_)
        request["url"] = BASE + path_of(route, changed)
        yield request


def test_nothing_that_is_asked_is_the_services_own_fault(http: httpx.Client):
    queue = Queue(http)
    refusals = 0
    for name in sorted(ROUTES):
        for request in requests(queue, name):
            answer = http.request(**request)
            told = f"{name}: {str(request)[:1_500]}\n{answer.text[:1_500]}"
            assert answer.status_code < 500, told
            if answer.status_code >= 400 and answer.status_code != 424:
                refused(answer, answer.status_code, answer.json()["code"])
                refusals += 1
    assert refusals > len(TABLE.routes), "what is strange is mostly refused"

    of, task_id = own_queue(), slugid()
    queue.create(task_id, taskQueueId=of)
    [claim] = queue.claim(queue=of)
    assert claim["status"]["taskId"] == task_id
    assert queue.report(task_id, 0, "completed").status_code == 200
    for path in ("/task-queues", "/provisioners", f"/task-queues/{of}/claimed"):
        queue.answer("GET", path)
