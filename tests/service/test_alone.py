"""One bad entry of a request fails alone, with its own problem in its place (docs/rulings.md,
R36)."""

import asyncio
import base64
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from andon import Andon
from andon.service.trust.registry import Registry
from andon.stores.registry import open_store

from .kit import Running, eventually, problem, serving

PLACES = pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "middle", "last"])
CLAIM = "/api/v1/runs/claim"
ENGINE = "/api/v1/engine"
NO_ENTRY: list[Any] = [None, 5, "text", [], {}, {"name": None}, {"name": "n", "colour": 1}]
BAD_TASKS: list[Any] = [
    *NO_ENTRY,
    {"name": ""},
    {"name": "sp ace"},
    {"name": "n", "id": "with space"},
    {"name": "n", "queue": "q q"},
    {"name": "n", "priority": 99},
    {"name": "n", "delay": 1e300},
    {"name": "n", "run_at": 2**63},
    {"name": "n", "version": 2**70},
    {"name": "n", "key": "a\0b"},
    {"name": "n", "tags": ["a\0b"]},
    {"name": "n", "tags": [""]},
    {"name": "n", "depends_on": ["\0"]},
    {"name": "n", "options": {"steps": ["x"]}},
    {"name": "n", "args": "x" * 300_000},
]


class Now:
    """Which test it is: all of them share a service, and none an id."""

    number = 0


def own(task_id: str) -> str:
    """The id in this test."""
    return f"{task_id}-{Now.number}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    url = f"sqlite:///{tmp_path_factory.mktemp('alone')}/tasks.db"
    with serving(Andon(url)) as running:
        yield running


@pytest.fixture(autouse=True)
def anew(service: Running) -> None:
    Now.number += 1


def among(good: list[Any], bad: Any, place: int) -> list[Any]:
    return [*good[:place], bad, *good[place:]]


def submit(http: httpx.Client, *ids: str, **said: Any) -> None:
    tasks = [{"name": "job", "id": task_id, **said} for task_id in ids]
    assert http.post("/api/v1/bulk", json={"tasks": tasks}).json()["refused"] == 0


def state(http: httpx.Client, task_id: str) -> str:
    return http.get(f"/api/v1/tasks/{task_id}").json()["state"]


@PLACES
@pytest.mark.parametrize("bad", BAD_TASKS, ids=lambda bad: str(bad)[:50])
def test_a_task_of_a_bulk_submit(http: httpx.Client, bad: Any, place: int):
    good = [{"name": "job", "id": own("a")}, {"name": "job", "id": own("b")}]
    answer = http.post("/api/v1/bulk", json={"tasks": among(good, bad, place)})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["accepted"], answer.json()["refused"]) == (2, 1)
    told = answer.json()["tasks"]
    refused = told.pop(place)
    assert refused["error"]["status"] in (413, 422)
    assert refused["error"]["detail"]
    assert [one["id"] for one in told] == [own("a"), own("b")]
    assert all(one["created"] for one in told)
    found = http.get("/api/v1/tasks", params={"newest_first": "true", "limit": 2}).json()
    assert [task["id"] for task in reversed(found["tasks"])] == [own("a"), own("b")]


@PLACES
@pytest.mark.parametrize(
    "bad", [None, 5, {}, "", "\0", "a\0b", "sp ace", "nobody", "x" * 5_000, ["a"]], ids=repr
)
@pytest.mark.parametrize("path", ["acts", "dead-letters/purge"])
def test_an_id_of_an_act(http: httpx.Client, bad: Any, place: int, path: str):
    submit(http, own("a"), own("b"))
    body: dict[str, Any] = {"ids": among([own("a"), own("b")], bad, place)}
    if path == "acts":
        body["action"] = "cancel"
    answer = http.post(f"/api/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    told = answer.json()["tasks"]
    assert (answer.json()["found"], len(told)) == (3, 3)
    assert told.pop(place)["error"]["status"] in (404, 422)
    assert [one["id"] for one in told] == [own("a"), own("b")]
    if path == "acts":
        assert [state(http, own(one)) for one in "ab"] == ["cancelled", "cancelled"]


@PLACES
@pytest.mark.parametrize(
    ("method", "more"), [("cancel", {}), ("retry", {}), ("act", {"event": "run-now"})]
)
def test_an_id_of_an_act_of_another_engine(
    http: httpx.Client, place: int, method: str, more: dict[str, Any]
):
    submit(http, own("a"), own("b"), delay=1000)
    for bad in (None, 7, "\0", "nobody"):
        ids = among([own("a"), own("b")], bad, place)
        answer = http.post(f"{ENGINE}/{method}", json={"ids": ids, **more})
        assert answer.status_code == 200, answer.text
        outcomes = answer.json()
        assert outcomes.pop(place)["error"]["type"] in ("InvalidSubmission", "TaskNotFound")
        assert [one["id"] for one in outcomes] == [own("a"), own("b")]


@PLACES
@pytest.mark.parametrize("bad", [None, 5, [], {"id": "x"}, {"id": "x", "name": "n", "args": "§"}])
def test_a_submission_of_another_engine(http: httpx.Client, bad: Any, place: int):
    args = base64.b64encode(b"{}").decode()
    good = [{"id": own(one), "name": "job", "args": args} for one in "ab"]
    answer = http.post(f"{ENGINE}/submit", json=among(good, bad, place))
    assert answer.status_code == 200, answer.text
    outcomes = answer.json()
    assert outcomes.pop(place)["error"]["type"] == "InvalidSubmission"
    assert [(one["id"], one["yes"]) for one in outcomes] == [(own("a"), True), (own("b"), True)]


def claimed(http: httpx.Client, *ids: str) -> list[dict[str, Any]]:
    queue = own("q")
    submit(http, *ids, queue=queue)
    asked = {"worker": "w", "limit": 10, "queues": [queue]}
    return http.post(CLAIM, json=asked).json()["runs"]


def with_results(http: httpx.Client, place: int) -> tuple[list[str], str]:
    """Three tasks, each after one that has ended, in their order; the result of the one in that
    place is larger than arguments may be. Their ids, and their queue."""
    first, queue = own("first"), own("then")
    ended: list[dict[str, Any]] = [{"name": "p", "id": own(f"p{n}"), "queue": first} for n in "abc"]
    after = [
        {
            "name": "job",
            "id": own(n),
            "queue": queue,
            "depends_on": [own(f"p{n}")],
            "load_dependencies": True,
            "args": {"a": [{"$result": own(f"p{n}")}] * 100},
            "headers": {"andon-results": "a"},
        }
        for n in "abc"
    ]
    assert http.post("/api/v1/bulk", json={"tasks": ended + after}).json()["refused"] == 0
    asked = {"worker": "w", "limit": 10, "queues": [first]}
    bad = own(f"p{'abc'[place]}")
    reports = [
        {
            "token": run["token"],
            "outcome": "completed",
            "result": "x" * (200_000 if run["task_id"] == bad else 5),
        }
        for run in http.post(CLAIM, json=asked).json()["runs"]
    ]
    assert len(http.post("/api/v1/runs/report", json={"reports": reports}).json()["outcomes"]) == 3
    ids = [own(n) for n in "abc"]
    eventually(lambda: [state(http, one) for one in ids] == ["pending"] * 3)
    return ids, queue


@PLACES
def test_a_claimed_run_whose_arguments_are_too_large_with_results_in_them(
    http: httpx.Client, place: int
):
    ids, queue = with_results(http, place)
    answer = http.post(CLAIM, json={"worker": "w", "limit": 10, "queues": [queue], "wait": 5})
    bad = ids.pop(place)
    assert [run["task_id"] for run in answer.json()["runs"]] == ids
    task = http.get(f"/api/v1/tasks/{bad}").json()
    assert (task["state"], task["reason"]) == ("failed", "malformed-payload")


@PLACES
@pytest.mark.parametrize("door", ["protocol", "engine"])
def test_a_claimed_run_that_cannot_be_written(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch, place: int, door: str
):
    ids, queue = [own(n) for n in "abc"], own("q")
    submit(http, *ids, queue=queue, options={"max_retries": 0})
    bad = ids[place]
    module, name = {
        "protocol": ("andon.service.routes.runs", "claimed_run"),
        "engine": ("andon.engine.http.wire", "Claimed"),
    }[door]
    make = getattr(importlib.import_module(module), name)

    def made(task: Any, *more: Any, **options: Any) -> Any:
        if task.id == bad:
            raise OverflowError("a number that no JSON has")
        return make(task, *more, **options)

    monkeypatch.setattr(f"{module}.{name}", made)
    asked: dict[str, Any] = {"worker": "w", "limit": 10, "queues": [queue]}
    if door == "engine":
        asked |= {"token": own("t"), "lease_ms": 60_000}
        runs = http.post(f"{ENGINE}/claim", json=asked).json()
        claimed = [one["task"]["definition"]["id"] for one in runs]
    else:
        claimed = [one["task_id"] for one in http.post(CLAIM, json=asked).json()["runs"]]
    ids.remove(bad)
    assert claimed == ids
    task = http.get(f"/api/v1/tasks/{bad}").json()
    assert (task["state"], task["reason"]) == ("failed", "internal-error")


BAD_RENEWALS: list[Any] = [
    None,
    7,
    {},
    {"lease": -1},
    {"lease": 1e300},
    {"progress": 101},
    {"progress": 2**70},
    {"message": "x" * 5_000},
]


@PLACES
@pytest.mark.parametrize("bad", BAD_RENEWALS, ids=lambda bad: str(bad)[:30])
def test_a_renewal(http: httpx.Client, bad: Any, place: int):
    one, two, three = claimed(http, own("a"), own("b"), own("c"))
    good = [{"token": one["token"], "progress": 5}, {"token": two["token"], "progress": 6}]
    if isinstance(bad, dict) and bad:
        bad = {"token": three["token"], **bad}
    answer = http.post("/api/v1/runs/renew", json={"runs": among(good, bad, place)})
    assert answer.status_code == 200, answer.text
    verdicts = answer.json()["verdicts"]
    assert verdicts.pop(place) == "invalid"
    assert verdicts == ["ok", "ok"]
    shown = [http.get(f"/api/v1/tasks/{own(one)}").json()["progress"] for one in "abc"]
    assert shown == [5, 6, 0]


@PLACES
@pytest.mark.parametrize(
    "bad",
    [
        {"lease_ms": 0},
        {"lease_ms": 2**63},
        {"lease_ms": 5_000, "progress": -1},
        {"lease_ms": 5_000, "progress": 2**70},
    ],
    ids=str,
)
def test_a_renewal_of_another_engine(http: httpx.Client, bad: dict[str, Any], place: int):
    one, two, three = claimed(http, own("a"), own("b"), own("c"))
    good = [{"token": run["token"], "lease_ms": 5_000} for run in (one, two)]
    body = among(good, {"token": three["token"], **bad}, place)
    verdicts = http.post(f"{ENGINE}/renew", json=body).json()
    assert verdicts.pop(place) == "invalid"
    assert verdicts == ["ok", "ok"]


BAD_REPORTS: list[Any] = [
    None,
    7,
    {"outcome": "vanished"},
    {"outcome": "snoozed"},
    {"outcome": "snoozed", "delay": 1e300},
    {"outcome": "snoozed", "delay": -1},
    {"outcome": "failed", "delay": 1e308},
    {"outcome": "failed", "error": {"message": 5}},
    {"outcome": "exception"},
    {"outcome": "completed", "progress": 2**70},
    {"outcome": "completed", "result": "x" * 300_000},
]


@PLACES
@pytest.mark.parametrize("bad", BAD_REPORTS, ids=lambda bad: str(bad)[:50])
def test_a_report(http: httpx.Client, bad: Any, place: int):
    one, two, three = claimed(http, own("a"), own("b"), own("c"))
    good = [{"token": run["token"], "outcome": "completed"} for run in (one, two)]
    if isinstance(bad, dict):
        bad = {"token": three["token"], **bad}
    answer = http.post("/api/v1/runs/report", json={"reports": among(good, bad, place)})
    assert answer.status_code == 200, answer.text
    outcomes = answer.json()["outcomes"]
    assert outcomes.pop(place)["error"]["status"] in (413, 422)
    assert [one["state"] for one in outcomes] == ["completed", "completed"]
    assert state(http, own("c")) == "active"


@PLACES
@pytest.mark.parametrize(
    "bad",
    [
        {"event": "complete", "progress": 2**70},
        {"event": "complete", "progress": 101},
        {"event": "complete", "heartbeat_at": 2**70},
        {"event": "complete", "heartbeat_at": -1},
        {"event": "complete", "message": "x" * 5_000},
        {"event": "snooze", "fields": {"delay": 10**20}},
        {"event": "submit"},
        {"event": "vanish"},
        {"event": "complete", "fields": {"result": "§"}},
        {"event": "fail", "fields": {}},
    ],
    ids=str,
)
def test_a_report_of_another_engine(http: httpx.Client, bad: dict[str, Any], place: int):
    one, two, three = claimed(http, own("a"), own("b"), own("c"))
    good = [{"token": run["token"], "event": "complete"} for run in (one, two)]
    body = among(good, {"token": three["token"], **bad}, place)
    answer = http.post(f"{ENGINE}/report", json=body)
    assert answer.status_code == 200, answer.text
    outcomes = answer.json()
    assert outcomes.pop(place)["error"]["type"] == "InvalidSubmission"
    assert [one["state"] for one in outcomes] == ["completed", "completed"]
    assert state(http, own("c")) == "active"


@PLACES
def test_a_task_type(http: httpx.Client, place: int):
    good: list[Any] = [{"name": "one"}, {"name": "two", "version": 2}]
    for bad in (None, {"name": ""}, {"name": "n\0"}, {"name": "n", "policy": {"colour": 1}}):
        sent = http.post(f"{ENGINE}/publish_types", json={"types": among(good, bad, place)})
        assert sent.status_code == 200, sent.text
        known = http.post(f"{ENGINE}/types", json={}).json()
        assert {one["name"] for one in known} == {"one", "two"}


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """A client that may do everything, and one that may do so in the queue `mine`."""
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")

    async def tokens() -> list[str]:
        store = open_store(app.url)
        await store.open()
        registry = Registry(store)
        mine = [f"tasks:{what}:mine" for what in ("create", "cancel", "change", "read")]
        made = [await registry.create("all", ["*"]), await registry.create("mine", mine)]
        await store.close()
        return [text for text, _ in made]

    everything, mine = asyncio.run(tokens())
    with (
        serving(app, require_token=True) as running,
        running.client(headers={"authorization": f"Bearer {everything}"}) as one,
        running.client(headers={"authorization": f"Bearer {mine}"}) as two,
    ):
        yield one, two


@PLACES
def test_a_task_that_is_not_the_callers_to_act_on(
    narrow: tuple[httpx.Client, httpx.Client], place: int
):
    everything, mine = narrow
    submit(everything, "other", queue="other")
    submit(everything, "a", "b", queue="mine")
    ids = among(["a", "b"], "other", place)
    answer = mine.post("/api/v1/acts", json={"action": "cancel", "ids": ids})
    assert answer.status_code == 200
    told = answer.json()["tasks"]
    refused = told.pop(place)
    assert (refused["id"], refused["error"]["status"]) == ("other", 403)
    assert (answer.json()["changed"], answer.json()["refused"]) == (2, 1)
    outcomes = mine.post(f"{ENGINE}/cancel", json={"ids": ids}).json()
    assert outcomes.pop(place)["error"]["type"] == "PermissionRefused"
    assert [one["state"] for one in outcomes] == ["cancelled", "cancelled"]
    assert state(everything, "other") == "pending"


def test_what_is_all_forbidden_is_refused_whole(narrow: tuple[httpx.Client, httpx.Client]):
    everything, mine = narrow
    submit(everything, "x", "y", queue="other")
    body = {"action": "cancel", "ids": ["x", "y"]}
    problem(mine.post("/api/v1/acts", json=body), 403, "forbidden")
    problem(mine.post(f"{ENGINE}/cancel", json={"ids": ["x", "y"]}), 403, "forbidden")


@PLACES
def test_a_task_that_is_not_the_callers_to_read(
    narrow: tuple[httpx.Client, httpx.Client], place: int
):
    everything, mine = narrow
    submit(everything, "other", queue="other")
    submit(everything, "a", "b", queue="mine")
    ids = among(["a", "b"], "other", place)
    answer = mine.post(f"{ENGINE}/get", json={"ids": ids})
    assert answer.status_code == 200
    found = answer.json()
    assert found.pop(place) is None
    assert [one["definition"]["id"] for one in found] == ["a", "b"]
    problem(mine.post(f"{ENGINE}/get", json={"ids": ["other"]}), 403, "forbidden")


@PLACES
def test_an_id_that_is_none_to_read(http: httpx.Client, place: int):
    submit(http, own("a"), own("b"))
    for bad in (None, 7, "\0", "nobody"):
        ids = among([own("a"), own("b")], bad, place)
        found = http.post(f"{ENGINE}/get", json={"ids": ids}).json()
        assert found.pop(place) is None
        assert [one["definition"]["id"] for one in found] == [own("a"), own("b")]


@pytest.mark.parametrize("path", ["acts", "dead-letters/purge", "dead-letters/resubmit"])
def test_no_ids_are_no_tasks(http: httpx.Client, path: str):
    body = {"ids": [], **({"action": "cancel"} if path == "acts" else {})}
    assert (
        problem(http.post(f"/api/v1/{path}", json=body), 422, "invalid-request")["field"] == "ids"
    )


def test_many_bad_entries_keep_their_places(http: httpx.Client):
    tasks = [{"name": "job", "id": own(f"t{n}")} if n % 3 else n for n in range(300)]
    told = http.post("/api/v1/bulk", json={"tasks": tasks}).json()
    assert (told["accepted"], told["refused"]) == (200, 100)
    for n, one in enumerate(told["tasks"]):
        assert (one["id"], one["created"]) == ((own(f"t{n}"), True) if n % 3 else ("", False))
        assert n % 3 or one["error"]["field"] == f"tasks[{n}]"
