"""Claims, renewals and reports as workers in other languages make them."""

import asyncio
import threading
from typing import Any

import httpx
import pytest

from andon import Andon
from andon.contract.topics import ready_topic

from .kit import PATIENCE, Running, eventually, serving

CLAIM = "/api/v1/runs/claim"


def submit(http: httpx.Client, task_id: str, **fields: Any) -> None:
    body = {"id": task_id, "name": "job", "args": {"x": 1}, **fields}
    assert http.post("/api/v1/tasks", json=body).status_code == 201


def claim(http: httpx.Client, **fields: Any) -> list[dict[str, Any]]:
    answer = http.post(CLAIM, json={"worker": "w", **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["runs"]


def say(http: httpx.Client, run: dict[str, Any], what: str, **body: Any) -> httpx.Response:
    return http.post(
        f"/api/v1/runs/{run['task_id']}/{run['run']}/{what}",
        json=body,
        headers={"Authorization": f"Bearer {run['token']}"},
    )


def state(http: httpx.Client, task_id: str) -> dict[str, Any]:
    return http.get(f"/api/v1/tasks/{task_id}").json()


@pytest.fixture
def app(tmp_path: Any) -> Andon:
    return Andon(f"sqlite:///{tmp_path}/tasks.db")


def test_a_run_is_claimed_renewed_and_completed(http: httpx.Client):
    submit(http, "a", headers={"trace": "t"}, options={"timeout": 90, "lease": 7})
    [run] = claim(http)
    assert (run["task_id"], run["run"], run["attempt"]) == ("a", 0, 1)
    assert (run["args"], run["headers"]) == ({"x": 1}, {"trace": "t"})
    assert (run["timeout"], run["lease"]) == (90, 7)
    assert say(http, run, "renew", progress=30, message="on it").json() == {"verdict": "ok"}
    assert state(http, "a")["progress"] == 30
    done = say(http, run, "report", outcome="completed", result={"y": [1]})
    assert done.json() == {"task_id": "a", "run": 0, "state": "completed"}
    assert state(http, "a")["result"] == {"y": [1]}


def test_the_arguments_come_last_so_that_a_shell_can_cut_them_out(http: httpx.Client):
    submit(http, "a")
    body = http.post(CLAIM, json={"worker": "w"}).text
    assert body.endswith(',"headers":{},"args":{"x":1}}]}')


def listens(service: Running) -> bool:
    """Whether a claim waits for a hint."""
    store: Any = service.service.engine.store
    return ready_topic("default") in store._hub.listeners


def test_a_claim_waits_for_a_task_and_is_woken_by_it(
    http: httpx.Client, service: Running, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("andon.service.routes.runs.SLOW_POLL_S", 3_600.0)
    found: list[Any] = []
    with service.client() as other:
        waiting = threading.Thread(target=lambda: found.extend(claim(other, wait=PATIENCE)))
        waiting.start()
        eventually(lambda: listens(service))
        submit(http, "a")
        waiting.join(PATIENCE)
    assert [run["task_id"] for run in found] == ["a"]


def test_a_claim_that_finds_nothing_is_answered_after_its_wait(http: httpx.Client):
    assert claim(http, wait=0.1) == []


def test_a_claim_that_is_answered_after_its_wait_is_not_lost(
    http: httpx.Client, service: Running, monkeypatch: pytest.MonkeyPatch
):
    runs, real, asked = service.service.runs, service.service.runs.claim_json, list[Any]()

    async def slow(caller: Any, request: Any, write: Any) -> Any:
        asked.append(request)
        if len(asked) == 1:
            return []
        claimed = await real(caller, request, write)
        await asyncio.sleep(0.3)  # the wait is over meanwhile
        return claimed

    monkeypatch.setattr(runs, "claim_json", slow)
    submit(http, "a")
    assert [run["task_id"] for run in claim(http, wait=0.1)] == ["a"]


def test_a_claim_by_somebody_who_has_gone_takes_nothing(http: httpx.Client, service: Running):
    with service.client() as gone, pytest.raises(httpx.ReadTimeout):
        gone.post(CLAIM, json={"worker": "gone", "wait": 30}, timeout=0.3)
    submit(http, "a")
    assert [run["task_id"] for run in claim(http, wait=PATIENCE)] == ["a"]


def test_a_waiting_claim_ends_with_the_service(app: Andon):
    with serving(app) as running:
        found: list[Any] = []
        client = running.client()
        waiting = threading.Thread(target=lambda: found.append(claim(client, wait=30)))
        waiting.start()
        eventually(lambda: listens(running))
    waiting.join(PATIENCE)
    client.close()
    assert found == [[]]  # and no error: it was answered, not cut off at the end of the grace


def test_a_claim_repeated_with_its_token_gives_the_same_runs(http: httpx.Client):
    for task_id in "abc":
        submit(http, task_id)
    first = claim(http, limit=2, token="one")
    again = claim(http, limit=2, token="one")
    assert [run["task_id"] for run in first] == ["a", "b"]
    assert [run["token"] for run in again] == [run["token"] for run in first]
    assert [run["task_id"] for run in claim(http, limit=2, token="two")] == ["c"]


def test_nobody_gets_anothers_runs_by_its_claim_token(http: httpx.Client):
    submit(http, "a")
    assert len(claim(http, token="one")) == 1
    stolen = http.post(CLAIM, json={"worker": "thief", "token": "one"}).json()
    assert stolen == {"runs": []}


def test_many_runs_are_renewed_and_reported_at_once_each_on_its_own(http: httpx.Client):
    for task_id in "abc":
        submit(http, task_id)
    a, b, c = claim(http, limit=3)
    http.post("/api/v1/tasks/b/cancel", json={"force": True})
    http.post("/api/v1/tasks/c/cancel", json={})
    bearer = {"Authorization": f"Bearer {a['token']}"}
    signs = [{"token": run["token"]} for run in (a, b, c)] + [{"token": "run_x.y.z"}]
    renewed = http.post("/api/v1/runs/renew", json={"runs": signs}, headers=bearer)
    assert renewed.json() == {"verdicts": ["ok", "lost", "cancel", "lost"]}
    reports = [{"token": run["token"], "outcome": "completed", "result": 1} for run in (a, b, c)]
    reports.append({"token": a["token"], "outcome": "snoozed"})
    told = http.post("/api/v1/runs/report", json={"reports": reports}, headers=bearer).json()
    first, second, third, fourth = told["outcomes"]
    assert first == {"task_id": "a", "run": 0, "state": "completed"}
    assert second["error"]["type"] == "urn:andon:problem:lease-lost"
    assert third["state"] == "completed"
    assert fourth["error"]["field"] == "delay"


ERROR = {"message": "m", "code": "C"}


@pytest.mark.parametrize(
    ("report", "options", "ends", "reason"),
    [
        ({"outcome": "failed", "error": ERROR}, {"max_retries": 0}, "failed", "error"),
        ({"outcome": "failed", "error": ERROR}, {}, "retry", "error"),
        ({"outcome": "failed", "error": ERROR}, {"no_retry_on": ["C"]}, "failed", "error"),
        ({"outcome": "failed", "retryable": False}, {}, "failed", "error"),
        ({"outcome": "failed", "kind": "terminated"}, {}, "failed", "terminated"),
        ({"outcome": "failed", "kind": "timeout"}, {}, "retry", "timeout"),
        ({"outcome": "failed", "kind": "intermittent"}, {}, "retry", "intermittent-task"),
        ({"outcome": "snoozed", "delay": 60}, {}, "scheduled", "snoozed"),
        ({"outcome": "released"}, {}, "pending", "released"),
        ({"outcome": "exception", "reason": "malformed-payload"}, {}, "failed", None),
        ({"outcome": "exception", "reason": "result-invalid"}, {}, "failed", "result-invalid"),
        ({"outcome": "exception", "reason": "resource-unavailable"}, {}, "failed", None),
        ({"outcome": "exception", "reason": "internal-error"}, {}, "retry", "internal-error"),
        (
            {"outcome": "exception", "reason": "unknown-task"},
            {"on_unknown": "drop"},
            "dropped",
            "unknown-task",
        ),
        (
            {"outcome": "exception", "reason": "worker-shutdown"},
            {"on_shutdown": "stop"},
            "stalled",
            "worker-shutdown",
        ),
        (
            {"outcome": "exception", "reason": "worker-shutdown"},
            {"on_shutdown": "resubmit"},
            "pending",
            "released",
        ),
    ],
)
def test_every_outcome_leads_where_the_protocol_says(
    http: httpx.Client, report: dict[str, Any], options: Any, ends: str, reason: str | None
):
    submit(http, "a", options=options)
    [run] = claim(http)
    done = say(http, run, "report", **report)
    assert done.json()["state"] == ends, done.text
    if reason is not None:
        assert state(http, "a")["reason"] == reason
    assert say(http, run, "report", **report).json()["state"] == ends  # a repeat is answered alike


def test_a_run_that_was_asked_to_cancel_is_reported_cancelled(http: httpx.Client):
    submit(http, "a")
    [run] = claim(http)
    http.post("/api/v1/tasks/a/cancel", json={})
    assert say(http, run, "renew").json() == {"verdict": "cancel"}
    done = say(http, run, "report", outcome="exception", reason="cancelled")
    assert done.json()["state"] == "cancelled"


REPEATED: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (
        {"outcome": "completed", "result": {"y": 1}},
        [{"outcome": "completed", "result": {"y": 2}}, {"outcome": "completed"}],
    ),
    (
        {"outcome": "failed", "error": {"message": "x", "code": "A"}, "retryable": False},
        [
            {"outcome": "failed", "error": {"message": "x", "code": "B"}, "retryable": False},
            {"outcome": "completed"},
        ],
    ),
]


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "discarded"])
@pytest.mark.parametrize(("first", "others"), REPEATED)
def test_the_same_report_is_answered_the_same_and_another_is_refused(
    http: httpx.Client, first: dict[str, Any], others: list[dict[str, Any]], kept: bool
):
    submit(http, "a", options={} if kept else {"discard_states": ["completed", "failed"]})
    [run] = claim(http)
    answer = say(http, run, "report", **first)
    assert answer.status_code == 200, answer.text
    for other in others:
        refused = say(http, run, "report", **other)
        assert refused.status_code == 409, refused.text
        assert refused.json()["type"].endswith(":lease-lost")
    again = say(http, run, "report", **first)
    assert (again.status_code, again.json()) == (200, answer.json())


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"outcome": "exception"}, "reason"),
        ({"outcome": "snoozed"}, "delay"),
        ({"outcome": "wonderful"}, "outcome"),
        ({"outcome": "completed", "surprise": 1}, "surprise"),
        ({"outcome": "failed", "error": {"code": "C"}}, "error.message"),
        ({"outcome": "completed", "progress": 101}, "progress"),
        ({"outcome": "snoozed", "delay": 1e12}, "delay"),
    ],
)
def test_a_report_that_cannot_be_is_refused_by_its_field(
    http: httpx.Client, body: dict[str, Any], field: str
):
    submit(http, "a")
    [run] = claim(http)
    refused = say(http, run, "report", **body)
    assert refused.status_code == 422
    assert refused.json()["field"] == field
    assert state(http, "a")["state"] == "active"


def test_a_result_that_is_too_large_is_refused_and_the_run_goes_on(http: httpx.Client):
    submit(http, "a")
    [run] = claim(http)
    refused = say(http, run, "report", outcome="completed", result="x" * 300_000)
    assert refused.status_code == 413
    assert say(http, run, "renew").status_code == 200


def test_dependencies_are_given_to_the_run_that_loads_them(http: httpx.Client):
    submit(http, "parent")
    submit(http, "child", depends_on=["parent"], load_dependencies=True)
    [parent] = claim(http)
    say(http, parent, "report", outcome="completed", result=[5])
    [child] = claim(http, wait=PATIENCE)
    found = http.get(
        "/api/v1/runs/child/0/dependencies",
        headers={"Authorization": f"Bearer {child['token']}"},
    ).json()
    assert (found["parent"]["state"], found["parent"]["result"]) == ("completed", [5])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "worker"),
        ({"worker": "w", "limit": 0}, "limit"),
        ({"worker": "w", "limit": 1001}, "limit"),
        ({"worker": "w", "queues": []}, "queues"),
        ({"worker": "w", "queues": ["default", "q q"]}, "queues"),
        ({"worker": "w", "room": {"job": -1}}, "room"),
        ({"worker": "w", "lease": 0}, "lease"),
        ({"worker": "w", "wait": -1}, "wait"),
        ({"worker": "", "limit": 1}, "worker"),
    ],
)
def test_a_claim_that_cannot_be_is_refused_by_its_field(
    http: httpx.Client, body: dict[str, Any], field: str
):
    refused = http.post(CLAIM, json=body)
    assert refused.status_code == 422
    assert refused.json()["field"].partition("[")[0] == field


def test_a_run_may_submit_what_its_task_may(app: Andon):
    with serving(app) as running, running.client() as http:
        submit(http, "a", scopes=["tasks:create:follow-up"])
        [run] = claim(http)
        bearer = {"Authorization": f"Bearer {run['token']}"}
        body = {"name": "job", "queue": "follow-up"}
        assert http.post("/api/v1/tasks", json=body, headers=bearer).status_code == 201
        other = {"name": "job", "queue": "default"}
        assert http.post("/api/v1/tasks", json=other, headers=bearer).status_code == 403
        say(http, run, "report", outcome="completed")
        assert http.post("/api/v1/tasks", json=body, headers=bearer).status_code == 401
