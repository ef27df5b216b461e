"""Lists as lines of JSON: whole, in order, a page at a time, and ended with their reader."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from andon import Andon
from andon.contract.queries import Page, Query
from andon.engine.base import Submission

from .kit import PATIENCE, Running, eventually, problem, serving

if TYPE_CHECKING:
    from andon.service.trust.registry import Registry

TASKS = "/api/v1/tasks"
LINES = {"accept": "application/x-ndjson"}
ASKED = b"GET /api/v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/x-ndjson\r\n\r\n"


def store(running: Running, *submissions: Submission) -> None:
    outcomes = running.call(running.service.engine.submit(list(submissions)))
    assert all(one.error is None for one in outcomes)


def many(count: int, size: int = 2) -> list[Submission]:
    args = json.dumps("x" * size).encode()
    return [Submission(id=f"t{n:04}", name="job", args=args) for n in range(count)]


def lines(answer: httpx.Response) -> list[Any]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.text == "" or answer.text.endswith("\n")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_every_task_comes_once_in_the_order_of_creation(service: Running, http: httpx.Client):
    store(service, *many(450))
    told = lines(http.get(TASKS, headers=LINES))
    assert [task["id"] for task in told] == [f"t{n:04}" for n in range(450)]
    page = http.get(TASKS, params={"limit": 2}).json()["tasks"]
    assert told[:2] == page


def test_filters_profiles_and_a_limit_hold(service: Running, http: httpx.Client):
    store(service, *many(5), Submission(id="mail", name="job", queue="mail"))
    asked = {"queue": "default", "limit": 3, "newest_first": "true", "as": "asynq"}
    told = lines(http.get(TASKS, params=asked, headers=LINES))
    page = http.get(TASKS, params=asked).json()["tasks"]
    assert told == page
    assert len(told) == 3


def test_nothing_is_no_lines(http: httpx.Client):
    assert lines(http.get(TASKS, headers=LINES)) == []


@pytest.mark.parametrize("path", ["queues", "workers", "dead-letters"])
def test_other_lists_are_told_in_lines_too(service: Running, http: httpx.Client, path: str):
    store(service, *many(1))
    document = http.get(f"/api/v1/{path}").json()
    records = document["tasks"] if path == "dead-letters" else document
    assert lines(http.get(f"/api/v1/{path}", headers=LINES)) == records


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("application/x-ndjson;q=0", "application/json"),
        ("application/json, application/x-ndjson;q=0.5", "application/json"),
        ("application/x-ndjson;q=nonsense", "application/x-ndjson"),
        ("text/html, Application/X-NDJSON", "application/x-ndjson"),
        ("application/json;q=0.5, application/x-ndjson", "application/x-ndjson"),
    ],
)
def test_the_client_says_what_it_would_rather_have(http: httpx.Client, accept: str, kind: str):
    assert http.get(TASKS, headers={"accept": accept}).headers["content-type"] == kind


@pytest.mark.parametrize(
    ("query", "field"),
    [("cursor=nonsense", "cursor"), ("state=lost", "state"), ("queue=no", "queue")],
)
def test_what_is_wrong_with_the_request_is_a_problem(http: httpx.Client, query: str, field: str):
    answer = http.get(f"{TASKS}?{query}", headers=LINES)
    assert problem(answer, 422, "invalid-request")["field"] == field


def test_a_store_that_fails_on_the_way_cuts_the_answer_short(
    service: Running, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
):
    store(service, *many(450))
    find, pages = service.service.engine.find, 0

    async def fails(query: Query) -> Page:
        nonlocal pages
        pages += 1
        if pages == 3:
            raise OSError("the disk is gone")
        return await find(query)

    monkeypatch.setattr(service.service.engine, "find", fails)
    with pytest.raises(httpx.RemoteProtocolError):
        http.get(TASKS, headers=LINES)


def test_a_reader_that_stops_or_goes_is_not_read_for_ahead(
    service: Running, monkeypatch: pytest.MonkeyPatch
):
    store(service, *many(1_200, 60_000))  # more than any socket takes
    find, pages = service.service.engine.find, 0

    async def counted(query: Query) -> Page:
        nonlocal pages
        pages += 1
        return await find(query)

    monkeypatch.setattr(service.service.engine, "find", counted)
    with socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2]))) as line:
        line.sendall(ASKED)
        assert b"200" in line.recv(100)
        eventually(lambda: service.service.streams == 1)
    eventually(lambda: service.service.streams == 0)
    assert pages < 6


def test_lists_count_among_the_streams_of_which_there_may_be_so_many(tmp_path: Path):
    with serving(
        Andon(f"sqlite:///{tmp_path}/tasks.db"), max_streams=1, body_timeout=300
    ) as running:
        store(running, *many(400, 60_000))  # more than any socket takes
        with socket.create_connection(("127.0.0.1", int(running.url.rpartition(":")[2]))) as line:
            line.sendall(ASKED)
            assert b"200" in line.recv(100)
            with running.client() as http:
                problem(http.get(TASKS, headers=LINES), 503, "too-many-streams")


def test_a_reader_that_does_not_read_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with serving(Andon(f"sqlite:///{tmp_path}/tasks.db"), body_timeout=0.2) as running:
        store(running, *many(400, 60_000))
        find, begun = running.service.engine.find, threading.Event()

        async def noted(query: Query) -> Page:
            begun.set()
            return await find(query)

        monkeypatch.setattr(running.service.engine, "find", noted)
        with socket.create_connection(("127.0.0.1", int(running.url.rpartition(":")[2]))) as line:
            line.sendall(ASKED)
            assert begun.wait(PATIENCE)
            eventually(lambda: running.service.streams == 0)
            line.settimeout(PATIENCE)
            told = bytearray()
            with suppress(ConnectionError):
                while piece := line.recv(1_000_000):
                    told += piece
            assert not told.endswith(b"0\r\n\r\n"), "it was told as whole"


@pytest.fixture
def watchful(tmp_path: Path) -> Iterator[Running]:
    """A service that often looks whether a stream's token is good still."""
    with serving(Andon(f"sqlite:///{tmp_path}/tasks.db"), stream_ping=0.05) as running:
        store(running, *many(400, 60_000))  # more than any socket takes
        yield running


def test_a_list_ends_with_the_token_it_was_asked_for_with(watchful: Running):
    registry: Registry = watchful.service.access.registry
    text, record = watchful.call(registry.create("reader", ["tasks:read:*"]))
    headers = {**LINES, "authorization": f"Bearer {text}"}
    with watchful.client(headers=headers) as http, http.stream("GET", TASKS) as answer:
        pieces = answer.iter_raw(1_000)
        next(pieces)
        assert watchful.service.streams == 1
        watchful.call(registry.revoke(record.id))
        eventually(lambda: watchful.service.streams == 0)
        with pytest.raises(httpx.HTTPError):
            list(pieces)


def test_a_stop_cuts_lists_short_at_once(watchful: Running):
    with watchful.client(headers=LINES) as http, http.stream("GET", TASKS) as answer:
        pieces = answer.iter_raw(1_000)
        next(pieces)
        assert watchful.service.streams == 1
        watchful.begin_stop()
        eventually(lambda: watchful.service.streams == 0)
        with pytest.raises(httpx.HTTPError):
            list(pieces)
