"""What is wrong is answered with the right problem, or dropped; the service lives on unharmed."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from andon import Andon

from .conftest import make_app
from .kit import Running, problem, serving
from .raw import connected

TASKS = "/api/v1/tasks"
JSON = {"content-type": "application/json"}
POST = b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One for the whole table: nothing here may hurt it."""
    with serving(make_app(f"sqlite:///{tmp_path_factory.mktemp('bad')}/tasks.db")) as running:
        yield running


@pytest.fixture(autouse=True)
def lives_on(http: httpx.Client) -> Iterator[None]:
    """Whatever was sent, no task came of it, and a good one is still taken."""
    before = stored(http)
    yield
    assert stored(http) == before
    good = http.post(TASKS, json={"name": "add", "args": {"a": 1}})
    assert good.status_code == 201
    http.post(f"{TASKS}/{good.json()['id']}/cancel")
    http.delete(f"{TASKS}/{good.json()['id']}")


def stored(http: httpx.Client) -> int:
    return http.get("/api/v1/storage").json()["entries"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"", 422, "name"),
        (b"{", 400, None),
        (b"nonsense", 400, None),
        (b'{"name": "add"} trailing', 400, None),
        (b'\xff\xfe{"name": "add"}', 400, None),
        (b'{"name": "\xff"}', 400, None),
        (b"[" * 100_000, 422, None),
        (b'{"name": "add", "args": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}", 400, None),
        (b'{"name": "elsewhere", "args": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, None),
        (b"null", 422, None),
        (b"[]", 422, None),
        (b"{}", 422, "name"),
        (b'{"name": 1}', 422, "name"),
        (b'{"name": null}', 422, "name"),
        (b'{"name": ""}', 422, "name"),
        (b'{"name": "sp ace"}', 422, "name"),
        (b'{"name": "../etc/passwd\\u0000"}', 422, "name"),
        (b'{"name": "' + b"n" * 129 + b'"}', 422, "name"),
        (b'{"name": "add", "nam": 1}', 422, "nam"),
        (b'{"name": "elsewhere", "id": "with space"}', 422, "id"),
        (b'{"name": "elsewhere", "id": ""}', 422, "id"),
        (b'{"name": "add", "id": 5}', 422, "id"),
        (b'{"name": "elsewhere", "queue": "q q"}', 422, "queue"),
        (b'{"name": "add", "args": {"a": "x"}}', 422, "args"),
        (b'{"name": "add", "args": {}}', 422, "args"),
        (b'{"name": "add", "args": {"a": 1, "z": 1}}', 422, "args"),
        (b'{"name": "elsewhere", "priority": 99}', 422, "priority"),
        (b'{"name": "add", "priority": "huge"}', 422, "priority"),
        (b'{"name": "add", "priority": 1.5}', 422, "priority"),
        (b'{"name": "add", "delay": "1h"}', 422, "delay"),
        (b'{"name": "elsewhere", "delay": -1}', 422, "delay"),
        (b'{"name": "elsewhere", "delay": 1e300}', 422, "delay"),
        (b'{"name": "add", "delay": 1, "run_at": 1900000000000}', 422, "run_at"),
        (b'{"name": "add", "run_at": "tomorrow"}', 422, "run_at"),
        (b'{"name": "add", "run_at": "2035-01-01T00:00:00"}', 422, "run_at"),
        (b'{"name": "add", "run_at": 12}', 422, "run_at"),
        (b'{"name": "elsewhere", "run_at": 99999999999999999999999}', 422, "run_at"),
        (b'{"name": "elsewhere", "deadline": "2001-01-01T00:00:00Z"}', 422, "deadline"),
        (b'{"name": "elsewhere", "deadline_in": -5}', 422, "deadline_in"),
        (b'{"name": "elsewhere", "version": -1}', 422, "version"),
        (b'{"name": "elsewhere", "version": 99999999999999999999999}', 422, "version"),
        (b'{"name": "elsewhere", "unique_key": ""}', 422, "unique_key"),
        (b'{"name": "elsewhere", "key": "' + b"k" * 1_025 + b'"}', 422, "key"),
        (b'{"name": "elsewhere", "group": "a\\u0000b"}', 422, "group"),
        (b'{"name": "add", "depends_on": "one"}', 422, "depends_on"),
        (b'{"name": "add", "depends_on": ["nowhere"], "args": [1]}', 422, "depends_on"),
        (b'{"name": "add", "requires": "luck"}', 422, "requires"),
        (b'{"name": "add", "needs": 2}', 422, "needs"),
        (b'{"name": "add", "tags": "a"}', 422, "tags"),
        (b'{"name": "add", "headers": {"a": 1}}', 422, "headers"),
        (b'{"name": "add", "options": {"colour": 1}}', 422, "options.colour"),
        (b'{"name": "add", "options": {"max_retries": -1}}', 422, "options.max_retries"),
        (b'{"name": "add", "options": {"max_retries": "many"}}', 422, "options.max_retries"),
        (b'{"name": "add", "options": {"retention": {"nowhere": 1}}}', 422, "options.retention"),
        (b'{"name": "add", "args": {"a": 1}, "unique": "yes"}', 422, "unique"),
        (b'{"name": "elsewhere", "args": "' + b"x" * 300_000 + b'"}', 413, "args"),
    ],
    ids=lambda value: value[:60].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_a_submission_that_cannot_be_is_refused_by_its_field(
    http: httpx.Client, body: bytes, status: int, field: str | None
):
    answer = http.post(TASKS, content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    document = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert document["status"] == status
    if field is not None:
        assert document["field"].partition("[")[0] == field, document


@pytest.mark.parametrize(
    ("method", "path", "status", "name"),
    [
        ("GET", "/nowhere", 404, "not-found"),
        ("GET", "/api/v1", 404, "not-found"),
        ("GET", "/api/v1/tasks/../../etc/passwd", 404, "not-found"),
        ("GET", "/api/v1/tasks/%2e%2e%2fetc%2fpasswd", 404, "task-not-found"),
        ("GET", "/api/v1/tasks/%00", 404, "task-not-found"),
        ("GET", "/api/v1/tasks/%ff%fe", 404, "task-not-found"),
        ("GET", "/api/v1/tasks/" + "x" * 5_000, 404, "task-not-found"),
        ("GET", "/api/v1/tasks/nobody", 404, "task-not-found"),
        ("POST", "/api/v1/tasks/nobody/cancel", 404, "task-not-found"),
        ("DELETE", "/api/v1/tasks/nobody", 404, "task-not-found"),
        ("GET", "/api/v1/jobs/nobody", 404, "task-not-found"),
        ("DELETE", "/api/v1/jobs/nobody", 404, "task-not-found"),
        ("GET", "/api/v1/events?task=nobody", 404, "task-not-found"),
        ("PUT", "/api/v1/tasks", 405, "method-not-allowed"),
        ("POST", "/healthz", 405, "method-not-allowed"),
        ("GET", "/api/v1/tasks?limit=0", 422, "invalid-request"),
        ("GET", "/api/v1/tasks?limit=many", 422, "invalid-request"),
        ("GET", "/api/v1/tasks?limit=1&limit=2", 422, "invalid-request"),
        ("GET", "/api/v1/tasks?colour=red", 422, "invalid-request"),
        ("GET", "/api/v1/tasks?state=nonsense", 422, "invalid-request"),
        ("GET", "/api/v1/tasks?state=QUEUED", 422, "invalid-request"),
        ("GET", "/api/v1/tasks?as=nobody", 422, "invalid-request"),
        ("GET", "/api/v1/tasks?queue=nowhere", 422, "invalid-request"),
        ("GET", "/api/v1/tasks?cursor=nonsense", 422, "invalid-request"),
        ("GET", "/api/v1/tasks?cursor=99999999999999999999999", 422, "invalid-request"),
        ("GET", "/api/v1/tasks?cursor=-1", 422, "invalid-request"),
        ("GET", "/api/v1/tasks?cursor=%C2%B2", 422, "invalid-request"),
        ("GET", "/api/v1/tasks?name=%ff", 400, "malformed-request"),
        ("GET", "/api/v1/tasks/nobody?wait=-1", 422, "invalid-request"),
        ("GET", "/api/v1/tasks/nobody?wait=nan", 422, "invalid-request"),
        ("GET", "/healthz?x=1", 422, "invalid-request"),
        ("GET", "/api/v1/events/stream?state=nonsense", 422, "invalid-request"),
        ("GET", "/api/v1/events/stream?queue=nowhere", 422, "invalid-request"),
    ],
)
def test_a_request_for_what_is_not_there_is_a_problem(
    http: httpx.Client, method: str, path: str, status: int, name: str
):
    # As it is written here: a client's own idea of a path must not tidy it up.
    url = httpx.URL(scheme="http", host="127.0.0.1", port=http.base_url.port).copy_with(
        raw_path=path.encode()
    )
    answer = http.request(method, url)
    problem(answer, status, name)


@pytest.mark.parametrize("cursor", ["nonsense", "9" * 40, "-1", "²", "~", "a~b", "0~99999999"])
def test_events_after_a_cursor_that_nobody_gave_come_with_a_gap_or_from_the_start(
    http: httpx.Client, cursor: str
):
    page = http.get("/api/v1/events", params={"cursor": cursor})
    assert page.status_code == 200


@pytest.mark.parametrize(
    "headers", [{}, {"content-type": "text/plain"}, {"content-type": "multipart/form-data"}]
)
def test_a_body_that_is_not_said_to_be_json_is_refused(http: httpx.Client, headers: dict[str, str]):
    answer = http.post(TASKS, content=b'{"name":"add"}', headers=headers)
    problem(answer, 415, "unsupported-media-type")


def test_a_giant_body_is_refused_before_it_is_read(app: Andon):
    with serving(app, max_body=10_000) as running, connected(running.url) as connection:
        connection.send(POST + b"Content-Length: 1000000000000\r\n\r\n")
        status, document = connection.answer()
        assert (status, document["type"]) == (413, "urn:andon:problem:body-too-large")
        assert connection.is_closed()


def test_a_giant_body_without_a_length_is_refused_when_it_is_too_long(app: Andon):
    with serving(app, max_body=10_000) as running, connected(running.url) as connection:
        connection.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        connection.send(b"".join(b"400\r\n" + b" " * 1024 + b"\r\n" for _ in range(12)))
        assert connection.answer()[0] == 413
        assert connection.is_closed()


def test_a_body_that_does_not_come_is_not_waited_for(app: Andon):
    with serving(app, body_timeout=0.2) as running, connected(running.url) as connection:
        connection.send(POST + b'Content-Length: 100\r\n\r\n{"name":')
        assert connection.answer()[0] == 408
        assert connection.is_closed()


def test_a_client_that_goes_in_the_middle_of_its_body_is_forgotten(service: Running):
    with connected(service.url) as connection:
        connection.send(POST + b'Content-Length: 100\r\n\r\n{"name":')


@pytest.mark.parametrize(
    "flood",
    [
        b"X-Flood: " + b"x" * 200_000 + b"\r\n",
        b"".join(b"X-%d: y\r\n" % n for n in range(20_000)),
    ],
    ids=["one long header", "many headers"],
)
def test_a_flood_of_headers_is_refused(service: Running, flood: bytes):
    with connected(service.url) as connection:
        try:
            connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + flood)
        except (BrokenPipeError, ConnectionResetError):
            return
        try:
            assert connection.answer()[0] == 431
        except ConnectionResetError:
            return
        assert connection.is_closed()


def test_headers_that_do_not_come_are_not_waited_for(app: Andon):
    with serving(app, header_timeout=0.2) as running:
        with connected(running.url) as connection:
            connection.send(b"GET /healthz HTTP/1.1\r\nHo")
            assert connection.answer()[0] == 408
            assert connection.is_closed()
        with connected(running.url) as connection:
            assert connection.is_closed()


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"NONSENSE\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_as_a_problem(service: Running, nonsense: bytes):
    with connected(service.url) as connection:
        connection.send(nonsense)
        status, document = connection.answer()
        assert status == 400
        assert document["type"] == "urn:andon:problem:malformed-request"
        assert connection.is_closed()


def test_more_connections_than_allowed_are_turned_away(app: Andon):
    with (
        serving(app, max_connections=2) as running,
        connected(running.url),
        connected(running.url),
        connected(running.url) as third,
    ):
        status, document = third.answer()
        assert (status, document["type"]) == (503, "urn:andon:problem:too-many-connections")
        assert third.is_closed()


def test_requests_in_a_row_are_answered_in_order(service: Running):
    with connected(service.url) as connection:
        body = b'{"name": 5}'
        connection.send(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert connection.answer()[0] == 422
        connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.answer() == (200, {"status": "ok"})


@pytest.mark.parametrize("tasks", [None, 5, "tasks", {}])
def test_a_bulk_body_of_the_wrong_shape_is_refused_whole(http: httpx.Client, tasks: Any):
    answer = http.post("/api/v1/bulk", json={"tasks": tasks})
    assert problem(answer, 422, "invalid-request")["field"].startswith("tasks")


def test_an_idle_connection_is_closed_and_one_in_use_is_kept(app: Andon):
    asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        serving(app, keep_alive=3) as running,
        connected(running.url) as idle,
        connected(running.url) as busy,
    ):
        began = time.monotonic()
        idle.send(asked)
        assert idle.answer()[0] == 200
        while time.monotonic() < began + 4:
            busy.send(asked)
            assert busy.answer()[0] == 200
            time.sleep(0.05)
        assert idle.is_closed()
        assert busy.is_closed()
        assert time.monotonic() - began >= 6


@pytest.mark.parametrize("hosts", [2, 3])
def test_a_request_for_two_hosts_is_refused(service: Running, hosts: int):
    host = b"Host: localhost\r\n" * hosts
    with connected(service.url) as connection:
        connection.send(b"GET /healthz HTTP/1.1\r\n" + host + b"\r\n")
        status, document = connection.answer()
        assert (status, document["type"]) == (400, "urn:andon:problem:malformed-request")
        connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.answer() == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("path", "status", "name"),
    [
        ("/api/v1/tasks?key=%00", 422, "invalid-request"),
        ("/api/v1/tasks?group=a%00b", 422, "invalid-request"),
        ("/api/v1/tasks?worker=%00", 422, "invalid-request"),
        ("/api/v1/tasks?cursor=" + "9" * 26, 422, "invalid-request"),
        ("/api/v1/tasks?cursor=" + "9" * 5_000, 422, "invalid-request"),
        ("/api/v1/tasks?limit=" + "9" * 26, 422, "invalid-request"),
        ("/api/v1/tasks/a/artifacts?run=" + "9" * 26, 422, "invalid-request"),
        ("/api/v1/tasks/a%00b", 404, "task-not-found"),
        ("/api/v1/jobs/%00", 404, "task-not-found"),
        ("/api/v1/events?task=%00", 422, "invalid-request"),
    ],
    ids=lambda part: part[:50] if isinstance(part, str) else None,
)
def test_what_no_store_can_be_asked_is_not_asked(
    http: httpx.Client, path: str, status: int, name: str
):
    problem(http.get(path), status, name)


@pytest.mark.parametrize("weight", ["1e30", "10000000000000000000000000", "2147483648"])
def test_a_weight_that_no_store_counts_to_is_refused(http: httpx.Client, weight: str):
    body = f'{{"weight": {weight}}}'
    problem(http.patch("/api/v1/queues/q", content=body, headers=JSON), 422, "invalid-request")


@pytest.mark.parametrize(
    ("action", "more"),
    [
        ("reschedule", {"run_at": 2**63}),
        ("rerun", {"run_at": 2**63}),
        ("rerun", {"deadline": 2**70}),
        ("reschedule", {"run_at": -1}),
    ],
)
def test_a_time_that_no_date_has_is_refused_in_an_act(
    http: httpx.Client, action: str, more: dict[str, Any]
):
    body = {"action": action, "ids": ["nobody"], **more}
    problem(http.post("/api/v1/acts", json=body), 422, "invalid-submission")
    elsewhere = {"ids": ["nobody"], "event": action, "fields": more}
    problem(http.post("/api/v1/engine/act", json=elsewhere), 422, "invalid-submission")


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_a_number_that_json_has_not_is_refused(http: httpx.Client, number: bytes):
    for path, body in (
        (TASKS, b'{"name": "elsewhere", "args": [%s]}'),
        ("/api/v1/bulk", b'{"tasks": [{"name": "elsewhere", "args": [%s]}]}'),
        ("/api/v1/jobs", b'{"type": "elsewhere", "params": {"x": %s}}'),
    ):
        answer = http.post(path, content=body % number, headers=JSON)
        problem(answer, 400, "malformed-request")
