"""Payloads that are bytes, both ways, and what a task says of itself in native JSON."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from andon import Andon
from andon.contract.requests import ClaimRequest, Renewal
from andon.engine.base import Submission

from .kit import Running, problem, serving

TASKS = "/api/v1/tasks"
BYTES = bytes(range(256))
CODED = base64.b64encode(BYTES).decode()


@pytest.fixture
def app(tmp_path: Path) -> Andon:
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")

    @app.task(name="turn")
    async def turn(data: bytes) -> bytes:
        return data[::-1]

    @app.task(name="add")
    async def add(a: int, b: int = 1) -> int:
        return a + b

    return app


@pytest.fixture
def service(app: Andon) -> Iterator[Running]:
    with serving(app) as running:
        yield running


def stored(http: httpx.Client) -> int:
    return len(http.get(TASKS).json()["tasks"])


def test_bytes_reach_the_handler_and_its_own_come_back(service: Running, http: httpx.Client):
    made = http.post(TASKS, json={"id": "t", "name": "turn", "payload_base64": CODED})
    assert made.status_code == 201, made.text
    with service.working():
        ended = http.get(f"{TASKS}/t", params={"wait": 20}).json()
    assert ended["state"] == "completed"
    assert ended["args"] == CODED
    assert base64.b64decode(ended["result"]) == BYTES[::-1]
    assert "payload_base64" not in ended


def test_a_worker_elsewhere_gets_bytes_in_base64(http: httpx.Client):
    http.post(TASKS, json={"id": "t", "name": "elsewhere", "payload_base64": CODED})
    claimed = http.post("/api/v1/runs/claim", json={"worker": "w"}).json()
    assert [run["args"] for run in claimed["runs"]] == [CODED]


def test_no_bytes_are_bytes_too(http: httpx.Client):
    http.post(TASKS, json={"id": "t", "name": "turn", "payload_base64": ""})
    assert http.get(f"{TASKS}/t").json()["args"] == ""


@pytest.mark.parametrize("bad", ["AA", "A===", "ä", "no base64!", 5, ["AAAA"], CODED + "\n"])
def test_what_is_no_base64_is_refused_and_names_the_field(http: httpx.Client, bad: Any):
    refused = http.post(TASKS, json={"name": "turn", "payload_base64": bad})
    assert problem(refused, 422, "invalid-request")["field"] == "payload_base64"
    assert stored(http) == 0


@pytest.mark.parametrize("args", [{}, [], None, "x"])
def test_arguments_beside_bytes_are_refused(http: httpx.Client, args: Any):
    body = {"name": "turn", "payload_base64": CODED, "args": args}
    refused = problem(http.post(TASKS, json=body), 422, "invalid-submission")
    assert refused["field"] == "payload_base64"
    assert stored(http) == 0


def test_bytes_for_a_handler_that_takes_none_are_refused(http: httpx.Client):
    refused = http.post(TASKS, json={"name": "add", "payload_base64": CODED})
    assert problem(refused, 422, "invalid-submission")["field"] == "args"


def test_bytes_that_are_too_large_are_refused(http: httpx.Client):
    large = base64.b64encode(b"x" * 256 * 1024).decode()
    problem(
        http.post(TASKS, json={"name": "turn", "payload_base64": large}), 413, "payload-too-large"
    )


def test_one_bad_payload_of_a_bulk_fails_alone(http: httpx.Client):
    good = {"name": "turn", "payload_base64": CODED}
    tasks = [good, {"name": "turn", "payload_base64": "no"}, good]
    told = http.post("/api/v1/bulk", json={"tasks": tasks}).json()
    assert [one["created"] for one in told["tasks"]] == [True, False, True]
    assert told["tasks"][1]["error"]["field"] == "tasks[1].payload_base64"


def test_what_is_no_json_in_the_store_is_shown_to_the_byte(service: Running, http: httpx.Client):
    service.call(service.service.engine.submit([Submission(id="t", name="x", args=b"\xff\x00")]))
    shown = http.get(f"{TASKS}/t").json()
    assert shown["args"]["bytes"] == 2
    assert base64.b64decode(shown["payload_base64"]) == b"\xff\x00"


def test_arguments_that_only_look_like_what_is_no_json_are_shown_as_they_are(http: httpx.Client):
    args = {"not-json": "it is", "bytes": 1}
    http.post(TASKS, json={"id": "t", "name": "x", "args": args})
    shown = http.get(f"{TASKS}/t").json()
    assert shown["args"] == args
    assert "payload_base64" not in shown


def test_a_task_says_who_runs_it_until_when_and_what_it_was_submitted_with(
    service: Running, http: httpx.Client
):
    said = {"key": "customer", "group": "night", "headers": {"trace": "1"}}
    http.post(TASKS, json={"id": "t", "name": "x", **said})
    waiting = http.get(f"{TASKS}/t").json()
    assert {name: waiting[name] for name in said} == said
    assert (waiting["worker"], waiting["lease_until"]) == ("", None)

    engine = service.service.engine
    request = ClaimRequest(worker="w1", token="t", queues=("default",), limit=1, lease_ms=60_000)
    [task] = service.call(engine.claim(request))
    first = http.get(f"{TASKS}/t").json()
    renewal = Renewal(task="t", run=task.status.run, lease_ms=3_600_000)
    service.call(engine.renew([renewal]))
    renewed = http.get(f"{TASKS}/t").json()
    assert first["worker"] == renewed["worker"] == "w1"
    assert first["created_at"] < first["lease_until"] < renewed["lease_until"]
    assert renewed["revision"] == first["revision"]

    http.post(f"{TASKS}/t/cancel", json={"force": True})
    ended = http.get(f"{TASKS}/t").json()
    assert (ended["worker"], ended["lease_until"]) == ("", None)
