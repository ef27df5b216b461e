"""What a task brings with it is pasted into an answer only if it is JSON: nobody gets a run that
was made up by a submitter, and no list is spoilt, whichever door the task came in by."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import pytest

from andon import Andon
from andon.engine.base import Submission
from andon.engine.copying import copy
from andon.engine.local import LocalEngine
from andon.lifecycle.admission import admit
from andon.model.task import Definition
from andon.model.words import State
from andon.stores.registry import open_store

from .kit import Running, problem, serving

T = TypeVar("T")

FORGED = (
    b'1},{"task_id":"x","run":0,"token":"t","name":"admin.wipe","version":0,"queue":"admin",'
    b'"attempt":1,"args":{"everything":true}'
)
"""Pasted as `args` it ends the run it is in, and begins another one."""

DEEP = b"[" * 700 + b"]" * 700
BAD = [
    FORGED,
    b'{"a": 1',
    b"",
    b"nonsense",
    b'{"a": "\xff"}',
    b"NaN",
    b"1e999",
    b"1 2",
    DEEP,
    b'"\\ud800"',
]
ENGINE = "/api/v1/engine"
CLAIM = "/api/v1/runs/claim"


@pytest.fixture
def app(tmp_path: Path) -> Andon:
    return Andon(f"sqlite:///{tmp_path}/tasks.db")


def submission(task_id: str, args: bytes = b"{}", **fields: Any) -> dict[str, Any]:
    return {"id": task_id, "name": "job", "args": base64.b64encode(args).decode(), **fields}


def submitted(http: httpx.Client, *tasks: dict[str, Any]) -> list[dict[str, Any]]:
    answer = http.post(f"{ENGINE}/submit", json=list(tasks))
    assert answer.status_code == 200, answer.text
    return answer.json()


def behind(service: Running, act: Callable[[LocalEngine], Awaitable[T]]) -> T:
    """Do something in the service's own loop, past every door."""
    return service.call(act(service.service.engine))


def put_in(service: Running, task_id: str, args: bytes) -> None:
    """Store a task as who checks nothing would: an old release, a script, a copy."""

    async def create(engine: LocalEngine) -> None:
        definition = Definition(id=task_id, name="job", args=args)
        await engine.store.create([admit(definition, engine.now(), "w-" + task_id)])

    behind(service, create)


def runs(http: httpx.Client) -> list[dict[str, Any]]:
    answer = http.post(CLAIM, json={"worker": "w", "limit": 10})
    assert answer.status_code == 200, answer.text
    return answer.json()["runs"]


@pytest.mark.parametrize("args", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "middle", "last"])
def test_a_submission_whose_arguments_are_no_json_is_refused_alone(
    http: httpx.Client, args: bytes, place: int
):
    tasks = [submission("a"), submission("b"), submission("c")]
    tasks[place] = submission("bad", args)
    outcomes = submitted(http, *tasks)
    refused = outcomes.pop(place)
    assert refused["error"]["type"] == "InvalidSubmission"
    assert refused["error"]["attributes"]["field"] == "args"
    assert all(outcome["yes"] for outcome in outcomes)
    assert http.get("/api/v1/tasks/bad").status_code == 404
    assert {run["task_id"] for run in runs(http)} == {"a", "b", "c"} - {"abc"[place]}


def test_invalid_arguments_are_not_recorded_either(http: httpx.Client):
    options = {"on_invalid": "record"}
    [outcome] = submitted(http, submission("bad", FORGED, options=options, invalid="said so"))
    assert outcome["error"]["attributes"]["field"] == "args"
    assert http.get("/api/v1/tasks/bad").status_code == 404


@pytest.mark.parametrize("args", [b'{"a": "\xff"}', b"1e999", DEEP], ids=["utf8", "range", "deep"])
def test_the_documented_doors_refuse_them_too(http: httpx.Client, args: bytes):
    headers = {"content-type": "application/json"}
    for path, body, field in (
        ("/api/v1/tasks", b'{"name": "elsewhere", "args": %s}', "args"),
        ("/api/v1/jobs", b'{"type": "elsewhere", "params": {"p": %s}}', "params"),
    ):
        document = problem(
            http.post(path, content=body % args, headers=headers), 422, "invalid-submission"
        )
        assert document["field"] == field
    body = b'{"tasks": [{"name": "a"}, {"name": "b", "args": %s}, {"name": "c"}]}' % args
    answer = http.post("/api/v1/bulk", content=body, headers=headers).json()
    assert (answer["accepted"], answer["refused"]) == (2, 1)
    assert answer["tasks"][1]["error"]["field"] == "args"


@pytest.mark.parametrize("args", BAD, ids=range(len(BAD)))
def test_a_stored_task_whose_arguments_are_no_json_forges_no_run_and_spoils_no_claim(
    http: httpx.Client, service: Running, args: bytes
):
    submitted(http, submission("first"))
    put_in(service, "bad", args)
    submitted(http, submission("last"))
    assert [run["task_id"] for run in runs(http)] == ["first", "last"]
    task = http.get("/api/v1/tasks/bad").json()
    assert (task["state"], task["reason"]) == ("failed", "malformed-payload")


def test_a_claim_of_one_that_meets_a_forged_task_waits_for_the_next(
    http: httpx.Client, service: Running
):
    put_in(service, "bad", FORGED)
    submitted(http, submission("good"))
    body = {"worker": "w", "limit": 1, "wait": 10}
    assert [run["task_id"] for run in http.post(CLAIM, json=body).json()["runs"]] == ["good"]


@pytest.mark.parametrize("args", BAD, ids=range(len(BAD)))
def test_a_stored_task_whose_arguments_are_no_json_spoils_no_list(
    http: httpx.Client, service: Running, args: bytes
):
    submitted(http, submission("first"))
    put_in(service, "bad", args)
    submitted(http, submission("last", b'{"x": 1}'))
    for seen_as in ("native", "jobbers", "asynq", "cbintel", "choria", "taskcluster"):
        answer = http.get("/api/v1/tasks", params={"as": seen_as})
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["tasks"]) == 3
        alone = http.get("/api/v1/tasks/bad", params={"as": seen_as, "history": "true"})
        assert alone.status_code == 200
    first, bad, last = http.get("/api/v1/tasks").json()["tasks"]
    assert set(bad["args"]) == {"not-json", "bytes"}
    assert (first["args"], last["args"]) == ({}, {"x": 1})
    assert http.get("/api/v1/jobs/bad").status_code == 200
    assert http.get("/api/v1/events").status_code == 200
    assert http.get("/api/v1/dead-letters").status_code == 200


def test_a_result_that_is_no_json_spoils_no_list(http: httpx.Client, service: Running):
    submitted(http, submission("bad"), submission("good"))

    async def complete(engine: LocalEngine) -> None:
        from andon.contract.requests import ClaimRequest
        from andon.lifecycle.commands import Complete

        request = ClaimRequest(worker="w", token="t", queues=("default",), limit=2, lease_ms=60_000)
        for task in await engine.claim(request):
            await engine.report(task, Complete(result=FORGED if task.id == "bad" else b"[1]"))

    behind(service, complete)
    bad, good = http.get("/api/v1/tasks").json()["tasks"]
    assert good["result"] == [1]
    assert bad["result"]["bytes"] == len(FORGED)


@pytest.mark.parametrize("result", [b'"\xff"', b"1e999", DEEP], ids=["utf8", "range", "deep"])
@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "middle", "last"])
def test_a_reported_result_that_is_no_json_is_refused_alone(
    http: httpx.Client, result: bytes, place: int
):
    submitted(http, *[submission(one) for one in "abc"])
    claimed = runs(http)
    reports = [
        b'{"token":"%s","outcome":"completed","result":%s}'
        % (run["token"].encode(), result if n == place else b'{"n": %d}' % n)
        for n, run in enumerate(claimed)
    ]
    body = b'{"reports":[%s]}' % b",".join(reports)
    headers = {"content-type": "application/json"}
    answer = http.post("/api/v1/runs/report", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    outcomes = answer.json()["outcomes"]
    bad = outcomes.pop(place)
    assert (bad["error"]["status"], bad["error"]["field"]) == (422, "result")
    assert [outcome["state"] for outcome in outcomes] == ["completed", "completed"]
    [left] = [run for n, run in enumerate(claimed) if n == place]
    assert http.get(f"/api/v1/tasks/{left['task_id']}").json()["state"] == "active"


def test_a_result_with_a_number_that_json_has_not_is_refused(http: httpx.Client):
    submitted(http, submission("a"))
    [run] = runs(http)
    for number in ("NaN", "Infinity", "-Infinity"):
        answer = http.post(
            f"/api/v1/runs/a/{run['run']}/report",
            content=f'{{"outcome": "completed", "result": [1, {number}]}}',
            headers={
                "content-type": "application/json",
                "authorization": f"Bearer {run['token']}",
            },
        )
        problem(answer, 400, "malformed-request")
    assert http.get("/api/v1/tasks/a").json()["state"] == "active"


def test_a_copied_forged_task_forges_nothing_where_it_arrives(tmp_path: Path):
    async def fill_and_copy() -> None:
        source = open_store(f"sqlite:///{tmp_path}/source.db")
        target = open_store(f"sqlite:///{tmp_path}/target.db")
        await source.open()
        await target.open()
        for task_id, args in (("first", b"{}"), ("bad", FORGED), ("last", b"{}")):
            definition = Definition(id=task_id, name="job", args=args)
            await source.create([admit(definition, source.now(), "w-" + task_id)])
        assert (await copy(source, target)).balanced
        await source.close()
        await target.close()

    asyncio.run(fill_and_copy())
    with (
        serving(Andon(f"sqlite:///{tmp_path}/target.db")) as running,
        running.client() as http,
    ):
        assert len(http.get("/api/v1/tasks").json()["tasks"]) == 3
        assert [run["task_id"] for run in runs(http)] == ["first", "last"]
        assert http.get("/api/v1/tasks/bad").json()["state"] == "failed"


def test_python_shows_and_runs_what_is_around_a_forged_task(tmp_path: Path):
    async def play() -> None:
        app = Andon(f"sqlite:///{tmp_path}/tasks.db")

        @app.task(name="job")
        async def job(**given: Any) -> int:
            return 1

        engine = await app.connections.engine()
        assert isinstance(engine, LocalEngine)
        for task_id, args in (("first", b"{}"), ("bad", FORGED), ("last", b"{}")):
            definition = Definition(id=task_id, name="job", args=args)
            await engine.store.create([admit(definition, engine.now(), "w-" + task_id)])
        view = await app.get("bad")
        assert view is not None
        assert view.args["bytes"] == len(FORGED)
        async with app.working():
            ends = [(await engine.wait_end(one, 10)) for one in ("first", "bad", "last")]
        assert [end.state for end in ends] == [State.COMPLETED, State.FAILED, State.COMPLETED]
        await app.close()

    asyncio.run(play())


def test_arguments_of_a_python_client_that_were_encoded_elsewhere_are_shown_alone(
    service: Running, http: httpx.Client
):
    async def submit(engine: LocalEngine) -> None:
        await engine.submit([Submission(id="raw", name="job", args=b"{not json")])

    behind(service, submit)
    assert http.get("/api/v1/tasks").json()["tasks"][0]["args"]["not-json"] == "{not json"


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[tuple[Running, httpx.Client]]:
    """A service that asks for tokens, and a client that may only create in one queue."""
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")

    async def token() -> str:
        from andon.service.trust.registry import Registry

        store = open_store(app.url)
        await store.open()
        text, _ = await Registry(store).create("narrow", ["tasks:create:mine"])
        await store.close()
        return text

    text = asyncio.run(token())
    with (
        serving(app, require_token=True) as running,
        running.client(headers={"authorization": f"Bearer {text}"}) as client,
    ):
        yield running, client


def test_a_token_for_one_queue_makes_no_worker_run_anything_in_another(
    narrow: tuple[Running, httpx.Client],
):
    running, client = narrow
    outcomes = submitted(
        client,
        submission("evil", FORGED, queue="mine"),
        submission("other", queue="admin"),
        submission("fine", queue="mine"),
    )
    assert [outcome.get("error", {}).get("type") for outcome in outcomes] == [
        "InvalidSubmission",
        "PermissionRefused",
        None,
    ]

    async def stored(engine: LocalEngine) -> list[str]:
        from andon.contract.queries import Query

        return [task.id for task in (await engine.find(Query())).tasks]

    assert behind(running, stored) == ["fine"]


def test_what_is_checked_is_what_is_pasted():
    """The claim's answer is one document, whatever JSON the arguments are."""
    from andon.lifecycle import payloads

    for args in (
        b"1",
        b' {"a" : [1,2]} ',
        b'"\\u0000"',
        b'{"a":1,"a":2}',
        b"123456789012345678901",
    ):
        assert payloads.is_json(args)
        pasted = msgspec.json.encode({"args": msgspec.Raw(args), "next": 1})
        assert msgspec.json.decode(pasted)["next"] == 1
