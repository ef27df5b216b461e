"""Queues, workers, the store, and the service itself."""

from typing import Any

import httpx
import pytest

from andon import Andon
from andon.contract.requests import ClaimRequest
from andon.model.fleet import WorkerInfo

from .kit import Running, eventually, problem, serving

QUEUES = "/api/v1/queues"


def test_a_queue_is_configured_and_shown(http: httpx.Client):
    made = http.patch(f"{QUEUES}/mail", json={"max_concurrent": 3, "policy": {"max_retries": 9}})
    assert (made.json()["max_concurrent"], made.json()["policy"]) == (3, {"max_retries": 9})
    cleared = http.patch(f"{QUEUES}/mail", json={"max_concurrent": None})
    assert (cleared.json()["max_concurrent"], cleared.json()["policy"]) == (
        None,
        {"max_retries": 9},
    )
    assert [queue["name"] for queue in http.get(QUEUES).json()] == ["mail"]


def test_a_queue_with_a_slash_in_its_name_is_named_encoded(http: httpx.Client):
    http.post("/api/v1/tasks", json={"name": "elsewhere", "queue": "mail/out"})
    assert http.get(f"{QUEUES}/mail%2Fout").json()["counts"]["pending"] == 1
    assert http.post(f"{QUEUES}/mail%2Fout/pause").json()["paused"] is True


def test_a_paused_queue_hands_nothing_out(service: Running, http: httpx.Client):
    http.post("/api/v1/tasks", json={"name": "add", "args": {"a": 1}, "id": "one"})
    assert http.post(f"{QUEUES}/default/pause").json()["paused"] is True
    with service.working():
        held = http.get("/api/v1/tasks/one", params={"wait": 0.3}).json()
        assert held["state"] == "pending"
        assert http.post(f"{QUEUES}/default/resume").json()["paused"] is False
        assert http.get("/api/v1/tasks/one", params={"wait": 15}).json()["state"] == "completed"


def test_an_autoscaler_sees_what_is_pending(http: httpx.Client):
    http.post("/api/v1/tasks", json={"name": "elsewhere"})
    counts = http.get(f"{QUEUES}/default/pending").json()
    assert (counts["pending"], counts["active"], counts["paused"]) == (1, 0, False)
    assert counts["oldest_age"] >= 0
    assert http.get(f"{QUEUES}/unheard-of/pending").json()["pending"] == 0


def test_a_queue_tells_its_history_by_day(service: Running, http: httpx.Client):
    http.post("/api/v1/tasks", json={"name": "elsewhere"})
    history = http.get(f"{QUEUES}/default/history", params={"days": 2}).json()
    assert history["queue"] == "default"
    today, yesterday = history["days"]
    assert yesterday["day"] < today["day"]
    assert today["submitted"] + yesterday["submitted"] == 1
    assert today["processed"] == today["failed"] == 0
    assert len(http.get(f"{QUEUES}/default/history").json()["days"]) == 7
    problem(http.get(f"{QUEUES}/nowhere/history"), 404, "not-found")
    for days in (0, 91, "many"):
        asked = http.get(f"{QUEUES}/default/history", params={"days": days})
        problem(asked, 422, "invalid-request")


def test_a_queue_that_nobody_used_is_not_there(http: httpx.Client):
    problem(http.get(f"{QUEUES}/nowhere"), 404, "not-found")
    problem(http.post(f"{QUEUES}/nowhere/pause"), 404, "not-found")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"max_size": 0}, "max_size"),
        ({"max_size": "many"}, "max_size"),
        ({"rate_limit": -1}, "rate_limit"),
        ({"colour": "red"}, "colour"),
        ({"on_full": "explode"}, "on_full"),
        ({"policy": {"max_retries": -1}}, "policy.max_retries"),
        ({"policy": {"colour": "red"}}, "policy.colour"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(
    http: httpx.Client, changes: dict[str, Any], field: str
):
    refused = problem(http.patch(f"{QUEUES}/mail", json=changes), 422, "invalid-request")
    assert refused["field"] == field
    assert http.get(QUEUES).json() == []


def test_workers_are_listed(service: Running, http: httpx.Client):
    assert http.get("/api/v1/workers").json() == []
    with service.working(id="w1", concurrency=7):
        [worker] = eventually(lambda: http.get("/api/v1/workers").json())
        assert (worker["id"], worker["concurrency"], worker["state"]) == ("w1", 7, "running")


def test_a_worker_that_is_gone_is_removed(service: Running, http: httpx.Client):
    for name in ("a", "b"):
        task = {"name": "elsewhere", "id": name, "options": {"max_retries": 2, "retry_delay": None}}
        assert http.post("/api/v1/tasks", json=task).is_success
    engine = service.service.engine
    claims = ClaimRequest(worker="w", token="t", queues=("default",), limit=2, lease_ms=60_000)
    service.call(engine.claim(claims))
    service.call(engine.put_worker(WorkerInfo(id="w", seen_at=engine.now())))
    looked = http.post("/api/v1/workers/remove", json={"worker": "w", "dry_run": True}).json()
    assert (looked["found"], looked["changed"]) == (2, 0)
    assert [one["id"] for one in http.get("/api/v1/workers").json()] == ["w"]
    removed = http.post("/api/v1/workers/remove", json={"worker": "w"}).json()
    assert (removed["found"], removed["changed"], removed["refused"]) == (2, 2, 0)
    assert http.get("/api/v1/tasks/a").json()["state"] == "pending"
    assert http.get("/api/v1/workers").json() == []
    for bad in ("", "w\0", "w" * 5_000):
        answer = http.post("/api/v1/workers/remove", json={"worker": bad})
        assert (answer.status_code, answer.json()["field"]) == (422, "worker")


def test_the_store_says_what_it_promises(http: httpx.Client):
    info = http.get("/api/v1/storage").json()
    assert info["kind"] == "sqlite"
    assert set(info["durability"]) == {"process_crash", "os_crash", "power_cut"}


def test_profiles_name_the_states(http: httpx.Client):
    profiles = {one["name"]: one["states"] for one in http.get("/api/v1/profiles").json()}
    assert profiles["cbintel"]["active"] == ["PROCESSING"]
    assert profiles["native"]["active"] == ["active"]


def test_a_service_that_works_is_alive_and_ready(http: httpx.Client):
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/readyz").json() == {"status": "ok"}


def test_metrics_tell_what_happened(service: Running, http: httpx.Client):
    http.post("/api/v1/tasks", json={"name": "add", "args": {"a": 1}, "id": "one"})
    http.get("/api/v1/tasks/one")
    text = http.get("/metrics")
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = text.text.splitlines()
    assert 'andon_queue_tasks{queue="default",state="pending"} 1.0' in lines
    assert 'andon_tasks_submitted_total{queue="default"} 1.0' in lines
    assert 'andon_store_seconds_count{operation="create"} 1.0' in lines
    assert 'andon_store_batch_size_count{operation="create"} 1.0' in lines
    template = 'method="GET",route="/api/v1/tasks/{task_id}",status="200"'
    assert f"andon_http_request_seconds_count{{{template}}} 1.0" in lines


def test_runs_that_pass_through_the_process_are_measured(service: Running, http: httpx.Client):
    engine = service.service.engine

    async def claim_and_fail() -> None:
        from andon.contract.requests import ClaimRequest
        from andon.lifecycle.commands import Complete, Fail, Lose
        from andon.model.task import TaskError

        commands = [Fail(error=TaskError(message="no")), Lose(), Complete(result=b"1")]
        for number, command in enumerate(commands):
            request = ClaimRequest(
                worker="w", token=f"t{number}", queues=("default",), limit=1, lease_ms=30_000
            )
            [task] = await engine.claim(request)
            await engine.report(task, command)

    options = {"retry_delay": None}
    http.post("/api/v1/tasks", json={"name": "add", "args": {"a": 1}, "options": options})
    service.call(claim_and_fail())
    lines = http.get("/metrics").text.splitlines()
    assert 'andon_retries_total{task="add"} 2.0' in lines
    assert 'andon_leases_lost_total{task="add"} 1.0' in lines
    assert 'andon_run_seconds_count{outcome="completed",task="add"} 1.0' in lines
    assert 'andon_run_seconds_count{outcome="pending",task="add"} 2.0' in lines
    assert 'andon_claim_latency_seconds_count{queue="default"} 3.0' in lines


def test_an_address_that_asks_too_often_is_told_to_wait(app: Andon):
    with serving(app, rate_limit=0.5, rate_burst=2) as running, running.client() as http:
        statuses = [http.get("/healthz").status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        refused = http.get("/healthz")
        problem(refused, 429, "too-many-requests")
        assert int(refused.headers["retry-after"]) >= 1


def test_a_queue_name_that_cannot_be_is_refused_by_its_name(http: httpx.Client):
    refused = http.patch(f"{QUEUES}/bad%20name", json={"paused": True})
    assert problem(refused, 422, "invalid-request")["field"] == "name"


@pytest.mark.parametrize(
    ("token", "field"),
    [
        ({"scopes": ["a\nb"]}, "scopes"),
        ({"scopes": ["a**"]}, "scopes"),
        ({"scopes": []}, "scopes"),
        ({"expires_in": 1e300}, "expires_in"),
        ({"expires_in": 1e12}, "expires_in"),
        ({"expires_in": 0}, "expires_in"),
        ({"name": ""}, "name"),
    ],
)
def test_a_token_that_cannot_be_is_refused_and_not_kept(
    http: httpx.Client, token: dict[str, Any], field: str
):
    asked = {"name": "n", "scopes": ["tasks:*"], **token}
    assert (
        problem(http.post("/api/v1/tokens", json=asked), 422, "invalid-request")["field"] == field
    )
    assert http.get("/api/v1/tokens").json() == []


def test_a_method_that_no_route_has_is_refused(http: httpx.Client):
    for method in ("OPTIONS", "PUT"):
        problem(http.request(method, "/api/v1/tasks"), 405, "method-not-allowed")


@pytest.mark.parametrize(
    ("which", "field"),
    [
        ({"filter": {"states": ["nope"]}}, "filter.states"),
        ({"filter": {"queue": "nope"}}, "filter.queue"),
    ],
)
def test_a_filter_that_cannot_be_is_refused_by_its_part(
    http: httpx.Client, which: dict[str, Any], field: str
):
    for path, body in (("acts", {"action": "cancel", **which}), ("dead-letters/purge", which)):
        refused = problem(http.post(f"/api/v1/{path}", json=body), 422, "invalid-request")
        assert refused["field"] == field
