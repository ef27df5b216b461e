"""Listing tasks and acting on them over HTTP: one by one, by id, by filter."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from andon.client.services import service_at
from andon.contract.limits import SCAN_BUDGET
from andon.contract.requests import ClaimRequest
from andon.lifecycle.commands import Fail
from andon.model.letters import LetterGroups
from andon.model.task import TaskError

from .kit import Running, problem

TASKS = "/api/v1/tasks"
POLICIES = "/api/v1/policies"
ACTS = "/api/v1/acts"


@pytest.fixture
def five(http: httpx.Client) -> httpx.Client:
    """Five pending tasks, t0 to t4, two of them tagged."""
    tasks = [
        {"name": "elsewhere", "id": f"t{n}", "tags": ["odd"] if n % 2 else []} for n in range(5)
    ]
    http.post("/api/v1/bulk", json={"tasks": tasks})
    return http


def ids(answer: httpx.Response) -> list[str]:
    return [task["id"] for task in answer.json()["tasks"]]


def test_pages_lead_through_all_tasks_once(five: httpx.Client):
    seen: list[str] = []
    cursor = ""
    for _ in range(10):
        page = five.get(TASKS, params={"limit": 2, "cursor": cursor})
        seen += ids(page)
        cursor = page.json()["cursor"]
        if not cursor:
            break
    assert seen == ["t0", "t1", "t2", "t3", "t4"]


def test_a_page_is_full_or_the_last_unless_it_takes_too_long(
    five: httpx.Client, monkeypatch: pytest.MonkeyPatch
):
    few = [{"name": "rare", "id": f"rare{n}"} for n in range(2)]
    many = [{"name": "elsewhere"}] * (SCAN_BUDGET // 2 + 10)
    for tasks in (few, many, many):
        assert five.post("/api/v1/bulk", json={"tasks": tasks}).json()["refused"] == 0
    rare = {"name": "rare", "limit": 2, "newest_first": "true"}
    page = five.get(TASKS, params=rare)
    assert ids(page) == ["rare1", "rare0"]
    monkeypatch.setattr("andon.service.listing.PATIENCE_S", -1.0)
    page = five.get(TASKS, params=rare)
    assert ids(page) == []
    page = five.get(TASKS, params={**rare, "cursor": page.json()["cursor"]})
    assert ids(page) == ["rare1", "rare0"]


def test_newest_first_is_the_other_way_round(five: httpx.Client):
    assert ids(five.get(TASKS, params={"newest_first": "true", "limit": 2})) == ["t4", "t3"]


def test_what_waits_for_a_time_is_listed_by_due_time(http: httpx.Client):
    for name, delay in (("b", 7200), ("c", 10800), ("a", 3600)):
        asked = {"name": "elsewhere", "id": name, "delay": delay}
        assert http.post(TASKS, json=asked).status_code == 201
    scheduled = {"state": "scheduled"}
    assert ids(http.get(TASKS, params=scheduled)) == ["a", "b", "c"]
    page = http.get(TASKS, params={**scheduled, "limit": 1})
    rest = {**scheduled, "cursor": page.json()["cursor"]}
    assert [*ids(page), *ids(http.get(TASKS, params=rest))] == ["a", "b", "c"]
    assert ids(http.get(TASKS, params={**scheduled, "newest_first": "true"})) == ["a", "c", "b"]
    assert ids(http.get(TASKS, params={**scheduled, "newest_first": "false"})) == ["b", "c", "a"]
    assert http.get(TASKS, params={"cursor": rest["cursor"]}).status_code == 422
    lines = http.get(TASKS, params=scheduled, headers={"Accept": "application/x-ndjson"})
    assert [json.loads(line)["id"] for line in lines.text.splitlines()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"tag": "odd"}, ["t1", "t3"]),
        ({"state": "pending,active", "name": "elsewhere"}, ["t0", "t1", "t2", "t3", "t4"]),
        ({"state": "completed"}, []),
        ({"state": "QUEUED", "as": "cbintel", "tag": "odd"}, ["t1", "t3"]),
        ({"name": "nobody"}, []),
        ({"queue": "default", "tag": "odd"}, ["t1", "t3"]),
    ],
)
def test_filters_narrow_the_list(five: httpx.Client, filters: dict[str, Any], found: list[str]):
    page = five.get(TASKS, params=filters).json()["tasks"]
    assert [task.get("id", task.get("job_id")) for task in page] == found


@pytest.mark.parametrize(
    ("path", "body", "state"),
    [
        ("cancel", {}, "cancelled"),
        ("cancel", {"force": True}, "cancelled"),
        ("reprioritise", {"priority": "highest"}, "pending"),
        ("archive", {}, "failed"),
        ("reschedule", {"run_at": "2035-01-01T00:00:00Z"}, "scheduled"),
        ("retry", {}, "pending"),
    ],
)
def test_a_waiting_task_can_be_changed(
    five: httpx.Client, path: str, body: dict[str, Any], state: str
):
    done = five.post(f"{TASKS}/t0/{path}", json=body)
    assert (done.status_code, done.json()["state"]) == (200, state)
    assert five.get(f"{TASKS}/t0").json()["state"] == state


def test_a_blocked_task_is_rerun_only_where_that_is_asked_for(five: httpx.Client):
    task = {"id": "child", "name": "job", "depends_on": ["t0"]}
    assert five.post(TASKS, json=task).status_code == 201
    refused = problem(five.post(f"{TASKS}/child/rerun", json={}), 409, "invalid-transition")
    assert "schedule it, or run it now" in refused["detail"]
    done = five.post(f"{TASKS}/child/rerun", json={"blocked": True})
    assert (done.status_code, done.json()["state"]) == (200, "pending")
    [run] = five.get(f"{TASKS}/child").json()["runs"]
    assert run["created_reason"] == "rerun"
    listed = five.get(f"{TASKS}/t0/dependents", params={"limit": 1}).json()
    assert ([task["id"] for task in listed["tasks"]], listed["cursor"]) == (["child"], "")
    assert five.get(f"{TASKS}/child/dependents").json() == {"tasks": [], "cursor": ""}
    problem(five.get(f"{TASKS}/nobody/dependents"), 404, "task-not-found")


def test_a_task_is_edited_and_the_request_may_be_repeated(five: httpx.Client):
    for created in (True, False):
        done = five.post(f"{TASKS}/t0/edit", json={"args": {"a": 2}, "id": "next"})
        assert (done.status_code, done.json()) == (
            200,
            {"id": "t0", "successor": "next", "state": "pending", "created": created},
        )
    old, new = five.get(f"{TASKS}/t0").json(), five.get(f"{TASKS}/next").json()
    assert (old["state"], old["reason"], old["successor"]) == ("cancelled", "edited", "next")
    assert (new["args"], new["predecessor"], new["tags"]) == ({"a": 2}, "t0", old["tags"])
    problem(five.post(f"{TASKS}/t0/edit", json={"args": {}}), 409, "invalid-transition")
    problem(five.post(f"{TASKS}/nobody/edit", json={"args": {}}), 404, "task-not-found")
    assert five.post(f"{TASKS}/t1/edit", json={}).status_code == 422
    assert five.get(f"{TASKS}/t1").json()["state"] == "pending"


def test_retry_policies_are_set_used_and_deleted(http: httpx.Client):
    gentle = f"{POLICIES}/gentle"
    assert http.put(gentle, json={"max_retries": 9, "backoff": "linear"}).status_code == 200
    assert http.get(POLICIES).json() == {"gentle": {"max_retries": 9, "backoff": "linear"}}
    assert http.get(gentle).json()["max_retries"] == 9
    task = http.post(TASKS, json={"name": "fail", "id": "t", "options": {"retry": "gentle"}})
    assert task.status_code == 201
    assert http.get(f"{TASKS}/t").json()["policy"]["max_retries"] == 9
    other = http.post(TASKS, json={"name": "fail", "options": {"retry": "gentel"}})
    assert "Did you mean 'gentle'" in other.json()["detail"]
    assert other.status_code == 422
    refused = problem(http.put(gentle, json={"timeout": 5}), 422, "invalid-request")
    assert refused["field"] == "timeout"
    assert http.delete(gentle).status_code == 200
    assert http.get(gentle).status_code == http.delete(gentle).status_code == 404


def test_an_act_without_options_needs_no_body(five: httpx.Client):
    assert five.post(f"{TASKS}/t0/cancel").json() == {
        "id": "t0", "state": "cancelled", "changed": True,
    }  # fmt: skip
    assert five.post(f"{TASKS}/t0/cancel").json()["changed"] is False


def test_a_task_that_has_ended_is_rerun_retried_and_deleted(five: httpx.Client):
    five.post(f"{TASKS}/t0/cancel")
    rerun = five.post(f"{TASKS}/t0/rerun", json={"run_at": "2035-01-01T00:00:00Z"})
    assert rerun.json()["state"] == "scheduled"
    assert five.post(f"{TASKS}/t0/run-now").json()["state"] == "pending"
    five.post(f"{TASKS}/t0/cancel")
    assert five.post(f"{TASKS}/t0/retry").json()["state"] == "pending"
    five.post(f"{TASKS}/t0/cancel")
    assert five.delete(f"{TASKS}/t0").json() == {"id": "t0", "state": None, "changed": True}
    problem(five.get(f"{TASKS}/t0"), 404, "task-not-found")


def test_a_blocked_task_is_released_by_hand(five: httpx.Client):
    five.post(TASKS, json={"name": "elsewhere", "id": "child", "depends_on": ["t0"]})
    assert five.post(f"{TASKS}/child/schedule").json()["state"] == "pending"


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", ""), ("POST", "/rerun"), ("POST", "/run-now"), ("POST", "/schedule")],
)
def test_a_move_that_the_table_does_not_have_is_a_conflict(
    five: httpx.Client, method: str, path: str
):
    refused = problem(five.request(method, f"{TASKS}/t0{path}"), 409, "invalid-transition")
    assert (refused["task_id"], refused["state"]) == ("t0", "pending")
    assert five.get(f"{TASKS}/t0").json()["state"] == "pending"


def test_acting_by_filter_does_it_to_each(five: httpx.Client):
    done = five.post(ACTS, json={"action": "cancel", "filter": {"tag": "odd"}}).json()
    assert (done["found"], done["changed"], done["refused"]) == (2, 2, 0)
    assert [task["id"] for task in done["tasks"]] == ["t1", "t3"]
    assert ids(five.get(TASKS, params={"state": "cancelled"})) == ["t1", "t3"]


def test_a_dry_run_changes_nothing(five: httpx.Client):
    done = five.post(ACTS, json={"action": "cancel", "all": True, "dry_run": True}).json()
    assert (done["found"], done["changed"], done["dry_run"]) == (5, 0, True)
    assert ids(five.get(TASKS, params={"state": "cancelled"})) == []


def test_a_limit_is_kept(five: httpx.Client):
    done = five.post(ACTS, json={"action": "cancel", "all": True, "limit": 3}).json()
    assert done["changed"] == 3


def test_acting_by_id_says_what_was_refused(five: httpx.Client):
    five.post(f"{TASKS}/t0/cancel")
    done = five.post(ACTS, json={"action": "delete", "ids": ["t0", "t1", "nobody"]}).json()
    assert (done["changed"], done["refused"]) == (1, 2)
    errors = [task.get("error", {}).get("type", "").rpartition(":")[2] for task in done["tasks"]]
    assert errors == ["", "invalid-transition", "task-not-found"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "cancel"}, "filter"),
        ({"action": "cancel", "filter": {}}, "filter"),
        ({"action": "cancel", "ids": ["t0"], "all": True}, "ids"),
        ({"action": "cancel", "filter": {"states": ["nonsense"]}}, "filter.states"),
        ({"action": "cancel", "filter": {"queue": "nowhere"}}, "filter.queue"),
        ({"action": "reschedule", "all": True}, "run_at"),
        ({"action": "reprioritise", "all": True}, "priority"),
        ({"action": "dance", "all": True}, "action"),
        ({"action": "cancel", "all": True, "limit": 0}, "limit"),
    ],
)
def test_an_act_that_is_not_clear_is_refused(five: httpx.Client, body: dict[str, Any], field: str):
    refused = problem(five.post(ACTS, json=body), 422, "invalid-request")
    assert refused["field"] == field
    assert len(ids(five.get(TASKS, params={"state": "pending"}))) == 5


def test_dead_letters_are_listed_resubmitted_and_purged(service: Running, http: httpx.Client):
    for task_id in ("one", "two"):
        http.post(TASKS, json={"name": "fail", "id": task_id})
    with service.working():
        for task_id in ("one", "two"):
            assert http.get(f"{TASKS}/{task_id}", params={"wait": 15}).json()["state"] == "failed"
    http.post(TASKS, json={"name": "elsewhere", "id": "alive"})
    assert ids(http.get("/api/v1/dead-letters")) == ["one", "two"]
    again = http.post("/api/v1/dead-letters/resubmit", json={"ids": ["one", "alive"]}).json()
    assert (again["changed"], again["refused"]) == (1, 1)
    assert ids(http.get("/api/v1/dead-letters")) == ["two"]
    assert http.post("/api/v1/dead-letters/purge", json={"all": True}).json()["changed"] == 1
    assert ids(http.get(TASKS)) == ["one", "alive"]


def test_a_group_with_an_owner_is_shown_and_sealed(five: httpx.Client):
    groups = "/api/v1/groups"
    problem(five.get(f"{groups}/build"), 404, "task-not-found")
    task = {"name": "job", "group": "build", "group_owner": "ci"}
    assert five.post(TASKS, json=task).status_code == 201
    shown = five.get(f"{groups}/build").json()
    assert (shown["id"], shown["owner"], shown["sealed_at"]) == ("build", "ci", None)
    sealed = five.post(f"{groups}/build/seal", json={})
    assert sealed.status_code == 200
    assert sealed.json()["sealed_at"] is not None
    assert five.post(f"{groups}/build/seal").json() == sealed.json()
    refused = problem(five.post(TASKS, json=task), 409, "group-refused")
    assert (refused["group"], refused["owner"]) == ("build", "ci")
    assert isinstance(refused["sealed_at"], int)
    other = problem(
        five.post(TASKS, json={**task, "group": "b2", "group_owner": ""}), 422, "invalid-submission"
    )
    assert "group_owner" in other["detail"]


def test_dead_letters_are_grouped_and_a_group_is_resubmitted(service: Running, http: httpx.Client):
    engine = service.service.engine

    async def die(task_id: str, message: str) -> None:
        request = ClaimRequest(
            worker="w", token=task_id, queues=("default",), limit=1, lease_ms=60_000
        )
        (task,) = await engine.claim(request)
        error = TaskError(message=message, type="E")
        await engine.report(task, Fail(error=error, retryable=False))

    for number in range(3):
        http.post(TASKS, json={"name": "fail", "id": f"t{number}"})
        service.call(die(f"t{number}", "order 12 lost" if number == 1 else f"order {number} paid"))
    found = http.get("/api/v1/dead-letters/groups").json()
    assert [(one["count"], one["pattern"]) for one in found["groups"]] == [
        (2, "E: order # paid"),
        (1, "E: order # lost"),
    ]
    assert (found["looked"], found["whole"], found["cursor"]) == (3, True, "")
    some = http.get("/api/v1/dead-letters/groups", params={"look": 2}).json()
    assert (some["looked"], some["whole"]) == (2, False)
    more = {"cursor": some["cursor"]}
    assert http.get("/api/v1/dead-letters/groups", params=more).json()["looked"] == 1
    kind = found["groups"][0]["fingerprint"]
    assert ids(http.get("/api/v1/dead-letters", params={"fingerprint": kind})) == ["t0", "t2"]
    body = {"filter": {"fingerprint": kind}, "dry_run": True}
    assert http.post("/api/v1/dead-letters/resubmit", json=body).json()["found"] == 2
    body["dry_run"] = False
    assert http.post("/api/v1/dead-letters/resubmit", json=body).json()["changed"] == 2
    assert ids(http.get("/api/v1/dead-letters")) == ["t1"]
    assert http.get("/api/v1/dead-letters/groups", params={"look": 0}).status_code == 422


def test_the_engine_over_http_groups_dead_letters(service: Running, http: httpx.Client):
    http.post(TASKS, json={"name": "fail", "id": "one"})
    with service.working():
        http.get(f"{TASKS}/one", params={"wait": 15})

    async def groups() -> LetterGroups:
        engine = service_at(service.url)
        await engine.open()
        try:
            return await engine.letter_groups("default", look=5)
        finally:
            await engine.close()

    found = asyncio.run(groups())
    assert found == service.call(service.service.engine.letter_groups("default"))
    assert found.groups[0].pattern == "ValueError: as asked"
