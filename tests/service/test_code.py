"""Workers elsewhere say what they have code for, once, and get nothing else (docs/rulings.md,
R32)."""

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from andon import Andon
from andon.contract.requests import ClaimRequest
from andon.engine.http.engine import HttpEngine
from andon.model.code import Code

from .kit import PATIENCE, Running, eventually, problem, serving

CLAIM = "/api/v1/runs/claim"


@pytest.fixture
def app(tmp_path: Path) -> Andon:
    return Andon(f"sqlite:///{tmp_path}/tasks.db")


def submit(http: httpx.Client, task_id: str, name: str = "job", **fields: Any) -> None:
    body = {"id": task_id, "name": name, **fields}
    assert http.post("/api/v1/tasks", json=body).status_code == 201


def claim(http: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = http.post(CLAIM, json={"worker": "w", "limit": 10, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(claimed: dict[str, Any]) -> list[str]:
    return sorted(run["task_id"] for run in claimed["runs"])


class Counted:
    """How often what the service does for workers was done."""

    def __init__(self, service: Running, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.calls = 0
        real = getattr(service.service.runs, name)

        async def call(*args: Any) -> Any:
            self.calls += 1
            return await real(*args)

        monkeypatch.setattr(service.service.runs, name, call)


def test_a_worker_gets_the_types_it_names(http: httpx.Client):
    submit(http, "plain", "shop.charge")
    submit(http, "second", "shop.charge", version=2)
    submit(http, "pattern", "mail.send")
    submit(http, "hidden", "other")
    assert ids(claim(http, types=["shop.charge@2", "mail.*"])) == ["pattern", "second"]
    assert ids(claim(http, types=["shop.charge"])) == ["plain"]
    assert ids(claim(http, types=["*"])) == ["hidden"]


def test_a_worker_that_names_no_types_gets_everything(http: httpx.Client):
    submit(http, "one", "shop.charge", version=3)
    answer = claim(http)
    assert ids(answer) == ["one"]
    assert "code" not in answer


def test_a_worker_that_names_an_empty_list_gets_what_anybody_may_run(http: httpx.Client):
    submit(http, "closed")
    submit(http, "open", options={"on_unknown": "drop"})
    assert ids(claim(http, types=[])) == ["open"]


def test_after_the_list_its_code_will_do(http: httpx.Client):
    submit(http, "hidden", "other")
    code = claim(http, types=["job", "mail.*"])["code"]
    submit(http, "one")
    answer = claim(http, code=code)
    assert ids(answer) == ["one"]
    assert "code" not in answer
    assert ids(claim(http, code=code)) == []


def test_a_code_that_is_not_known_is_refused_and_the_list_helps(http: httpx.Client):
    submit(http, "one")
    code = Code.of([("job", 0)]).digest
    refused = problem(http.post(CLAIM, json={"worker": "w", "code": code}), 409, "unknown-code")
    assert refused["digest"] == code
    assert "types" in refused["detail"]
    assert http.get("/api/v1/tasks/one").json()["state"] == "pending"
    assert ids(claim(http, types=["job"], code=code)) == ["one"]


def test_a_service_that_was_begun_again_knows_the_code(app: Andon, tmp_path: Path):
    with serving(app) as first, first.client() as http:
        code = claim(http, types=["job"])["code"]
    with serving(Andon(app.url)) as second, second.client() as http:
        submit(http, "hidden", "other")
        submit(http, "one")
        assert ids(claim(http, code=code)) == ["one"]


@pytest.mark.parametrize(
    "fields",
    [
        {"types": ["a b"]},
        {"types": ["@2"]},
        {"types": ["a@"]},
        {"types": ["a@-1"]},
        {"types": ["a@9999999999999999999"]},
        {"types": ["a**"]},
        {"types": ["\u0000"]},
        {"types": [7]},
        {"types": "job"},
        {"types": ["job"], "code": "0" * 16},
        {"code": 7},
        {"code": "x" * 65},
        {"types": [f"{n:0120}" for n in range(3_000)]},
    ],
    ids=lambda fields: repr(fields)[:40],
)
def test_a_list_that_cannot_be_one_is_refused(http: httpx.Client, fields: dict[str, Any]):
    submit(http, "one")
    answer = http.post(CLAIM, json={"worker": "w", **fields})
    assert answer.status_code in (400, 422), answer.text
    assert http.get("/api/v1/tasks/one").json()["state"] == "pending"


@pytest.mark.parametrize("code", ["nonsense", "0" * 16, "/", "../x", "g" * 16])
def test_what_is_no_code_is_not_known(http: httpx.Client, code: str):
    problem(http.post(CLAIM, json={"worker": "w", "code": code}), 409, "unknown-code")


def test_a_held_claim_is_not_woken_for_the_store_by_kinds_it_may_not_claim(
    service: Running, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
):
    claims = Counted(service, monkeypatch, "claim_json")
    answers: list[dict[str, Any]] = []

    def wait() -> None:
        with service.client() as other:
            answers.append(claim(other, types=["mine"], wait=40))

    holder = threading.Thread(target=wait)
    holder.start()
    eventually(lambda: claims.calls == 1)
    for n in range(20):
        submit(http, f"other{n}", "other")
    submit(http, "mine", "mine")
    holder.join(PATIENCE)
    assert [ids(answer) for answer in answers] == [["mine"]]
    # Its first look, that which found it, and at most one more that a poll fell upon.
    assert claims.calls <= 3


def test_a_reported_unknown_task_waits_a_moment_and_spends_no_try(http: httpx.Client):
    submit(http, "one", options={"max_retries": 0})
    [run] = claim(http)["runs"]
    done = http.post(
        "/api/v1/runs/report",
        json={
            "reports": [{"token": run["token"], "outcome": "exception", "reason": "unknown-task"}]
        },
    )
    assert done.json()["outcomes"][0]["state"] == "scheduled"
    task = http.get("/api/v1/tasks/one").json()
    assert (task["tries"], task["reason"]) == (0, "unknown-task")


# --- what is shown ---


def test_what_a_task_waits_for_is_shown_with_it_and_with_its_queue(http: httpx.Client):
    submit(http, "one", "shop.charge", version=2)
    task = http.get("/api/v1/tasks/one").json()
    assert task["waits_for"] == {"why": "no-worker", "text": "no worker asks queue default"}
    claim(http, types=["mail.send"])

    def named() -> bool:
        return http.get("/api/v1/tasks/one").json()["waits_for"]["why"] == "no-code"

    eventually(named)
    text = "waits for a worker that has shop.charge v2"
    assert http.get("/api/v1/tasks/one").json()["waits_for"]["text"] == text
    [wait] = http.get("/api/v1/queues/default").json()["waits"]
    assert (wait["name"], wait["version"], wait["why"]) == ("shop.charge", 2, "no-code")
    [queue] = http.get("/api/v1/queues").json()
    assert [one["text"] for one in queue["waits"]] == [text]
    assert "waits_for" not in http.get("/api/v1/tasks/one?as=asynq").json()


def test_a_kind_that_nobody_has_code_for_is_a_metric(http: httpx.Client):
    submit(http, "one", "shop.charge", version=2)
    claim(http, types=["mail.send"])
    name = re.escape('andon_waiting_without_code_seconds{kind="shop.charge@2",queue="default"}')
    eventually(lambda: re.search(f"^{name} ", http.get("/metrics").text, re.MULTILINE))
    claim(http, types=["shop.charge@2"])
    assert not re.search(f"^{name} ", http.get("/metrics").text, re.MULTILINE)


def test_a_worker_that_claims_is_known_with_its_queues_and_code(
    service: Running, http: httpx.Client
):
    code = claim(http, types=["job"], worker="node:7", queues=["a", "b"])["code"]

    def known() -> Any:
        found = service.call(service.service.engine.workers())
        return [(one.queues, one.code) for one in found if one.id == "node:7"]

    assert eventually(known) == [(("a", "b"), code)]


# --- Python's own engine ---


def request(code: Code | None, token: str) -> ClaimRequest:
    return ClaimRequest(
        worker="w", token=token, queues=("default",), limit=10, lease_ms=30_000, code=code
    )


def test_an_engine_sends_its_list_once_and_again_only_when_asked(
    service: Running, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
):
    looks = Counted(service, monkeypatch, "code_of")
    submit(http, "hidden", "other")
    submit(http, "one")
    code = Code.of([("job", 0)])

    async def claim_thrice() -> list[tuple[list[str], int]]:
        engine = HttpEngine(service.url)
        await engine.open()
        try:
            found: list[tuple[list[str], int]] = []
            for token, named in (("1", code), ("2", code), ("3", None)):
                tasks = await engine.claim(request(named, token))
                found.append(([task.id for task in tasks], looks.calls))
            return found
        finally:
            await engine.close()

    # The first goes out by its digest, and then with the list.
    assert asyncio.run(claim_thrice()) == [(["one"], 2), ([], 3), (["hidden"], 4)]
