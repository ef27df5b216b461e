"""Nasty values at every route, on every store: no answer is the service's own fault, what is
refused leaves nothing behind, and the service goes on as if nobody had asked.

The values are the same each time: a generator with a seed per route. A failure names its request.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, get_type_hints
from urllib.parse import quote, urlencode

import httpx
import msgspec
import pytest
from conftest import selected_stores
from litestar.params import BodyKwarg, HeaderParameter, QueryParameter
from servers import Servers

from andon.contract.queries import Query
from andon.contract.requests import ClaimRequest
from andon.service.app import ROUTERS

from .conftest import make_app
from .kit import Running, serving
from .test_access import ENDLESS, ROUTES, World

if TYPE_CHECKING:
    from pathlib import Path

    from andon import Andon

REQUESTS = 14
"""Of each route and kind of request: some two thousand in all, a few seconds on a fast store."""

TEXTS = [
    "",
    " ",
    "\0",
    "a\0b",
    "x" * 200,
    "x" * 3_000,
    "\u202e\u2066",
    "🙂" * 40,
    "../../etc/passwd",
    "%00",
    "*",
    "?",
    "@2",
    "name?",
    "a b",
    "\x1b[31m",
    "\n\r",
    "null",
    "NaN",
    "-1",
    "9" * 26,
    "9" * 5_000,
    "1:" + "9" * 26,
    "0-0~" + "9" * 30,
    "2030-01-15T10:30:00",
    "9999-12-31T23:59:59.999999Z",
    "0001-01-01T00:00:00Z",
    "queue:q",
    "task:\0",
    "ready:",
]
NUMBERS: list[Any] = [
    -1,
    0,
    1,
    2**31 - 1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**26,
    10**30,
    -0.5,
    1e-300,
    1e30,
    1e308,
    253_402_300_799_999,
    253_402_300_800_000,
]
SHAPES: list[Any] = [
    None,
    True,
    [],
    {},
    [None],
    [[]],
    {"a": None},
    {"\0": "\0"},
    ["a", "a"],
    [{}] * 3,
    [None, {"token": 5}, "x"],
    {"max_retries": 1e30, "retention": [1], "steps": [1e308], "backoff": "custom"},
    {"paused": 7, "weight": 1e30, "rate_limit": 1e300, "policy": 5},
]
RAW = [
    b"",
    b"{",
    b"\xff",
    b"null",
    b"[]",
    b"5",
    b'"\xed\xa0\x80"',
    b"[" * 2_000 + b"]" * 2_000,
    b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
    b"\x00",
    b"NaN",
    b"1e999",
    b'{"id": "a", "id": "b"}',
]
HEADERS = [
    "bytes=0-" + "9" * 26,
    "bytes=-" + "9" * 26,
    "bytes=9-1",
    "*",
    '"x"',
    "\xff",
    "x" * 4_000,
    "application/x-ndjson",
    "application/x-ndjson;q=nan, ;;q=,\xff",
]
STRANGE_RAW_VALUES = [b'"\xff"', b"1e999", b"[" * 700 + b"]" * 700, b'"\\ud83d\\ude42"', b"1" * 40]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", selected_stores(metafunc.config), scope="module")


class Door:
    """One route, and what can be said about its requests."""

    def __init__(self, name: str, handler: Any) -> None:
        self.name = name
        self.method, _, self.path = name.partition(" ")
        self.query: list[str] = []
        self.headers: list[str] = ["Accept"] if self.method == "GET" else []
        self.fields: list[tuple[str, ...]] = []
        for parameter, hint in get_type_hints(handler.fn, include_extras=True).items():
            for told in getattr(hint, "__metadata__", ()):
                if isinstance(told, QueryParameter):
                    self.query.append(told.name or parameter)
                elif isinstance(told, HeaderParameter):
                    self.headers.append(told.name or parameter)
                elif isinstance(told, BodyKwarg) and hint.__origin__ is not bytes:
                    self.fields = fields_of(hint.__origin__)


def fields_of(kind: Any) -> list[tuple[str, ...]]:
    """The paths to whatever a body of this type may have in it; `[]` is the first of a list."""
    [root], components = msgspec.json.schema_components([kind])
    found: list[tuple[str, ...]] = []

    def walk(schema: dict[str, Any], path: tuple[str, ...]) -> None:
        if "$ref" in schema:
            schema = components[schema["$ref"].rpartition("/")[2]]
        if path:
            found.append(path)
        if len(path) > 3:
            return
        for name, part in schema.get("properties", {}).items():
            walk(part, (*path, name))
        if isinstance(schema.get("items"), dict):
            walk(schema["items"], (*path, "[]"))
        for part in schema.get("anyOf", ()):
            if part.get("type") != "null" and (part.keys() - {"type"}):
                walk(part, path)

    walk(root, ())
    return sorted(set(found))


def doors() -> list[Door]:
    return [
        Door(f"{method} {route.path}", handler)
        for router in ROUTERS
        for route in router.routes
        for handler in getattr(route, "route_handlers", ())
        for method in handler.http_methods
        if method != "OPTIONS"
    ]


DOORS = sorted(doors(), key=lambda door: door.name)


def put(body: Any, path: tuple[str, ...], value: Any) -> Any:
    """The body with something else at a path, which is made where it was not there."""
    if not path:
        return value
    first, *rest = path
    if first == "[]":
        body = list(body) if isinstance(body, list) and body else [{}]
        body[0] = put(body[0], tuple(rest), value)
        return body
    body = dict(body) if isinstance(body, dict) else {}
    body[first] = put(body.get(first), tuple(rest), value)
    return body


class Fuzz:
    """One service, its own idea of what it may have stored, and what it is asked."""

    def __init__(self, running: Running) -> None:
        self.world = World(running)
        self.http = running.client()
        self.accepted: set[str] = set()

    def task(self) -> str:
        task_id = self.world.task()
        self.accepted.add(task_id)
        return task_id

    def run(self) -> tuple[str, str]:
        task_id, token = self.world.run()
        self.accepted.add(task_id)
        return task_id, token

    def requests(self, door: Door, random_: random.Random) -> Iterator[dict[str, Any]]:
        route = ROUTES[door.name]
        is_run = route.needs == "run"
        task_id, token = self.run() if is_run or "runs/" in door.path else (self.task(), "")
        body = json.loads(
            json.dumps(route.body).replace("{task}", task_id).replace("{run_token}", token)
        )
        headers = {"authorization": f"Bearer {token}"} if token else {}
        names = {"task_id": task_id, "job_id": task_id, "name": "q", "number": "0", "token_id": "x"}
        has_body = door.method in ("POST", "PATCH")
        query = dict(pair.split("=") for pair in route.query.split("&") if pair)
        value = lambda: random_.choice(random_.choice([TEXTS, NUMBERS, SHAPES]))  # noqa: E731

        def made(**other: Any) -> dict[str, Any]:
            fresh = deepcopy(body)
            text = json.dumps(fresh).replace("{new}", f"new{random_.getrandbits(40)}")
            given = {"path": names, "query": query, "headers": headers, "content": text.encode()}
            return {**given, **other}

        for field in [name for name in names if "{" + name + ":" in door.path] * 3:
            for _ in range(REQUESTS // 3):
                yield made(path={**names, field: random_.choice(TEXTS)})
        for name in door.query:
            for _ in range(REQUESTS // 3):
                given = random_.choice([*TEXTS, *map(str, NUMBERS)])
                yield made(query={**query, name: given})
        for name in door.headers:
            for given in HEADERS:
                yield made(headers={**headers, name: given})
        if not has_body:
            return
        for content in RAW:
            yield made(content=content)
        for path in door.fields:
            for _ in range(max(2, REQUESTS // max(1, len(door.fields) // 8))):
                changed = put(body, path, value())
                yield made(content=json.dumps(changed).replace("{new}", "new1").encode())
            raw = json.dumps(put(body, path, "@raw@")).replace("{new}", "new2").encode()
            yield made(content=raw.replace(b'"@raw@"', random_.choice(STRANGE_RAW_VALUES)))

    def send(self, door: Door, asked: dict[str, Any]) -> tuple[int, Any]:
        path = door.path
        for name, value in asked["path"].items():
            for kind in ("str", "int"):
                path = path.replace("{" + name + ":" + kind + "}", quote(value, safe=""))
        if asked["query"]:
            path = f"{path}?{urlencode(asked['query'])}"
        headers: dict[Any, Any] = {
            name.encode(): value.encode("latin-1", "replace")
            for name, value in asked["headers"].items()
            if value.isprintable()
        }
        content = None
        if door.method in ("POST", "PATCH", "PUT"):
            content = asked["content"]
            headers.setdefault(b"content-type", b"application/json")
        base = self.http.base_url
        url = base.copy_with(raw_path=path.encode("latin-1", "replace"))
        with self.http.stream(door.method, url, content=content, headers=headers) as answer:
            if ENDLESS.intersection({answer.headers.get("content-type")}):
                return answer.status_code, None
            answer.read()
            is_json = "json" in answer.headers.get("content-type", "")
            return answer.status_code, self.checked(answer) if is_json else None

    @staticmethod
    def checked(answer: httpx.Response) -> Any:
        document = answer.json()
        if answer.headers["content-type"] == "application/problem+json":
            assert document["status"] == answer.status_code
            assert document["type"].startswith("urn:andon:problem:")
            assert document["title"]
            assert document["detail"]
            assert document["instance"]
        else:
            is_job = answer.status_code == 422 and document.get("status") == "FAILED"
            assert answer.status_code < 400 or is_job
        return document

    def note(self, said: Any) -> None:
        """Remember what was accepted."""
        if isinstance(said, dict):
            self.accepted.update(said[key] for key in ("successor", "id") if key in said)
            for one in [said, *(said.get("tasks") or [])]:
                if isinstance(one, dict) and (one.get("created") or "job_id" in one):
                    self.accepted.add(one.get("id") or one["job_id"])
        elif isinstance(said, list):
            self.accepted.update(
                one["id"] for one in said if isinstance(one, dict) and "yes" in one
            )


@pytest.fixture(scope="module")
def running(
    store_kind: str, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    url = servers.fresh_url(store_kind, folder)
    app: Andon = make_app(url, artifacts=f"file://{folder}/artifacts")
    with serving(app, max_wait=0.05, max_body=400_000) as running:
        yield running


@pytest.fixture(scope="module")
def fuzz(running: Running) -> Iterator[Fuzz]:
    fuzz = Fuzz(running)
    yield fuzz
    fuzz.http.close()
    fuzz.world.client.close()


@pytest.mark.slow
def test_nothing_that_is_asked_is_too_much_for_a_route(fuzz: Fuzz, running: Running):
    assert {door.name for door in DOORS} == set(ROUTES)
    failed: list[str] = []
    answered: Counter[int] = Counter()
    for door in DOORS:
        for asked in fuzz.requests(door, random.Random(door.name)):
            try:
                status, said = fuzz.send(door, asked)
                assert status < 500, said
                answered[status] += 1
            except Exception as error:
                failed.append(f"{door.name} {str(asked)[:500]}: {error!r}"[:1_500])
            else:
                if status < 400 or door.path == "/api/v1/jobs":  # which records the invalid
                    fuzz.note(said)
    assert not failed, f"{len(failed)} requests\n" + "\n\n".join(failed[:40])
    assert {200, 201, 400, 404, 409, 422} <= answered.keys(), answered
    print(answered)
    it_is_as_it_was(fuzz, running)


def it_is_as_it_was(fuzz: Fuzz, running: Running) -> None:
    """Everything can be shown, only what was accepted is there, and a task is taken."""
    http = fuzz.http
    assert http.get("/healthz").status_code == 200
    assert http.get("/readyz").status_code == 200
    for path in ("queues", "workers", "storage", "events", "tokens", "dead-letters"):
        assert http.get(f"/api/v1/{path}").status_code == 200, path
    for seen_as in ("native", "jobbers", "asynq", "cbintel", "choria", "taskcluster"):
        cursor = ""
        while True:
            asked = {"as": seen_as, "cursor": cursor, "limit": 500}
            page = http.get("/api/v1/tasks", params=asked)
            assert page.status_code == 200, page.text
            cursor = page.json()["cursor"]
            if not cursor:
                break

    async def stored() -> set[str]:
        engine = running.service.engine
        cursor, ids = "", set[str]()
        while True:
            page = await engine.find(Query(limit=500, cursor=cursor))
            ids.update(task.id for task in page.tasks)
            cursor = page.cursor
            if not cursor:
                return ids

    assert running.call(stored()) <= fuzz.accepted

    async def taken() -> list[str]:
        engine = running.service.engine
        request = ClaimRequest(
            worker="last", token="last", queues=("afterwards",), limit=1, lease_ms=60_000
        )
        return [
            task.id
            for partition in range(await engine.partitions())
            for task in await engine.claim(msgspec.structs.replace(request, partition=partition))
        ]

    good = http.post("/api/v1/tasks", json={"name": "elsewhere", "queue": "afterwards"})
    assert good.status_code == 201
    assert running.call(taken()) == [good.json()["id"]]
