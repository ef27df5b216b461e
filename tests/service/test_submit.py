"""Submitting tasks over HTTP, one by one and in bulk."""

from typing import Any

import httpx
import pytest

from andon import Andon

from .kit import Running, eventually, problem, serving

TASKS = "/api/v1/tasks"
BULK = "/api/v1/bulk"


def test_a_task_that_is_submitted_can_be_read(http: httpx.Client):
    made = http.post(TASKS, json={"name": "add", "args": {"a": 1}, "id": "one"})
    assert made.status_code == 201
    assert made.json() == {"id": "one", "state": "pending", "created": True}
    assert made.headers["location"] == "/api/v1/tasks/one"
    read = http.get(f"{TASKS}/one").json()
    assert (read["name"], read["args"], read["state"]) == ("add", {"a": 1}, "pending")


def test_the_same_submission_again_is_the_same_task(http: httpx.Client):
    body = {"name": "add", "args": {"a": 1}, "id": "one", "delay": 60}
    assert http.post(TASKS, json=body).status_code == 201
    again = http.post(TASKS, json=body)
    assert (again.status_code, again.json()["created"]) == (200, False)
    assert "location" not in again.headers


def test_an_id_that_is_taken_by_another_task_is_a_conflict(http: httpx.Client):
    http.post(TASKS, json={"name": "add", "args": {"a": 1}, "id": "one"})
    refused = http.post(TASKS, json={"name": "add", "args": {"a": 2}, "id": "one"})
    assert problem(refused, 409, "task-conflict")["task_id"] == "one"


def test_everything_that_can_be_said_of_a_task_is_kept(http: httpx.Client):
    http.post(TASKS, json={"name": "parent", "id": "parent"})
    said: dict[str, Any] = {
        "id": "child",
        "name": "elsewhere",
        "args": [1, "two"],
        "version": 3,
        "queue": "mail/out",
        "priority": "high",
        "run_at": "2035-01-15T10:30:00+01:00",
        "deadline": 2_100_000_000_000,
        "expires_at": "2040-01-01T00:00:00Z",
        "depends_on": ["parent"],
        "load_dependencies": True,
        "requires": "all-resolved",
        "needs": 1,
        "unique_key": "once",
        "key": "customer-1",
        "group": "night",
        "tags": ["a", "b"],
        "headers": {"trace": "1"},
        "scopes": ["project:x"],
        "options": {"max_retries": 7, "retry_on": ["TIMEOUT"]},
    }
    assert http.post(TASKS, json=said).json()["state"] == "blocked"
    task = http.get(f"{TASKS}/child").json()
    for name in ("args", "version", "queue", "load_dependencies", "requires", "needs", "key"):
        assert task[name] == said[name]
    assert (task["tags"], task["headers"], task["scopes"]) == (
        ["a", "b"],
        {"trace": "1"},
        ["project:x"],
    )
    assert (task["priority"], task["dependencies"]) == (1, ["parent"])
    assert task["run_at"] == "2035-01-15T09:30:00.000Z"
    assert task["policy"]["max_retries"] == 7


def test_without_an_id_the_service_makes_one(http: httpx.Client):
    first, second = (http.post(TASKS, json={"name": "add", "args": [1]}).json() for _ in "12")
    assert first["id"] < second["id"]


def test_a_unique_task_is_refused_while_another_holds_the_key(http: httpx.Client):
    body = {"name": "add", "args": {"a": 1}, "unique": True}
    held = http.post(TASKS, json=body).json()
    refused = problem(http.post(TASKS, json=body), 409, "unique-key-held")
    assert refused["holder"] == held["id"]


def test_a_full_queue_says_when_to_try_again(http: httpx.Client):
    http.patch("/api/v1/queues/small", json={"max_size": 1})
    http.post(TASKS, json={"name": "elsewhere", "queue": "small"})
    refused = http.post(TASKS, json={"name": "elsewhere", "queue": "small"})
    assert problem(refused, 429, "queue-full")["max_size"] == 1
    assert refused.headers["retry-after"] == "1"


def test_bulk_answers_for_each_task_in_its_place(http: httpx.Client):
    answer = http.post(
        BULK,
        json={
            "tasks": [
                {"name": "add", "args": {"a": 1}, "id": "good"},
                {"name": "add", "args": {"a": "wrong"}, "id": "bad"},
                {"name": "elsewhere", "id": "child", "depends_on": ["good"]},
                {"name": "elsewhere", "id": "orphan", "depends_on": ["nowhere"]},
                {"name": "elsewhere", "id": "good"},
                {"name": "elsewhere", "id": "late", "deadline": "2001-01-01T00:00:00Z"},
            ]
        },
    )
    assert answer.status_code == 200
    said = answer.json()
    assert (said["accepted"], said["refused"]) == (2, 4)
    assert [item["id"] for item in said["tasks"]] == [
        "good", "bad", "child", "orphan", "good", "late",
    ]  # fmt: skip
    assert [item.get("error", {}).get("field") for item in said["tasks"]] == [
        None, "args", None, "depends_on", "id", "deadline",
    ]  # fmt: skip
    assert said["tasks"][2]["state"] == "blocked"


def test_bulk_takes_thousands_and_may_be_repeated(http: httpx.Client):
    tasks = [{"name": "elsewhere", "args": [n], "id": f"n{n}"} for n in range(2_000)]
    first = http.post(BULK, json={"tasks": tasks}).json()
    assert (first["accepted"], first["refused"]) == (2_000, 0)
    again = http.post(BULK, json={"tasks": tasks}).json()
    assert not any(item["created"] for item in again["tasks"])
    assert http.get("/api/v1/queues/default").json()["counts"]["pending"] == 2_000


def test_bulk_is_bounded(app: Andon):
    with serving(app, max_bulk=2) as running, running.client() as http:
        refused = http.post(BULK, json={"tasks": [{"name": "elsewhere"}] * 3})
        assert problem(refused, 422, "invalid-request")["field"] == "tasks"


@pytest.mark.parametrize(
    "profile", ["native", "jobbers", "asynq", "cbintel", "choria", "taskcluster"]
)
def test_a_task_is_shown_as_every_profile_would(http: httpx.Client, profile: str):
    http.post(TASKS, json={"name": "add", "args": {"a": 1}, "id": "one"})
    shown = http.get(f"{TASKS}/one", params={"as": profile, "history": "true"}).json()
    names = {"native": "state", "cbintel": "status", "choria": "State", "jobbers": "status"}
    assert "pending" in str(shown).lower() or "new" in str(shown) or "submitted" in str(shown)
    assert shown["history"] or profile not in names
    [listed] = http.get(TASKS, params={"as": profile}).json()["tasks"]
    # One task alone is also told what it waits for.
    assert {k: v for k, v in shown.items() if k not in ("history", "waits_for")} == {
        k: v for k, v in listed.items() if k != "history"
    }


def test_a_result_can_be_waited_for(service: Running, http: httpx.Client):
    http.post(TASKS, json={"name": "add", "args": {"a": 2, "b": 3}, "id": "sum", "delay": 0.2})
    with service.working():
        task = http.get(f"{TASKS}/sum", params={"wait": 15}).json()
    assert (task["state"], task["result"]) == ("completed", 5)


def test_a_wait_that_is_over_shows_the_task_as_it_stands(http: httpx.Client):
    http.post(TASKS, json={"name": "add", "args": {"a": 1}, "id": "one"})
    assert http.get(f"{TASKS}/one", params={"wait": 0.05}).json()["state"] == "pending"


def test_the_result_of_a_task_that_is_discarded_reaches_who_waits(
    service: Running, http: httpx.Client
):
    body = {"name": "add", "args": {"a": 2}, "id": "gone", "options": {"retention": 0}}
    http.post(TASKS, json={**body, "delay": 1})
    with service.working():
        task = http.get(f"{TASKS}/gone", params={"wait": 15}).json()
    assert (task["state"], task["result"], task["name"]) == ("completed", 3, "add")
    problem(http.get(f"{TASKS}/gone"), 404, "task-not-found")


@pytest.mark.parametrize("path", [TASKS, "/api/v1/jobs"])
def test_who_comes_after_a_task_was_discarded_with_its_end_is_told_that_end(
    service: Running, http: httpx.Client, path: str
):
    body = {"name": "add", "args": {"a": 2}, "id": "gone", "options": {"retention": 0}}
    with service.working():
        http.post(TASKS, json=body)
        eventually(lambda: http.get(f"{TASKS}/gone").status_code == 404)
        task = http.get(f"{path}/gone", params={"wait": 15}).json()
        assert (task.get("state") or task["status"]).lower() == "completed"
        assert task["result"] == 3
        problem(http.get(f"{path}/never", params={"wait": 15}), 404, "task-not-found")


def test_a_discarded_task_is_shown_with_what_its_end_tells_and_nothing_made_up(
    service: Running, http: httpx.Client
):
    body = {"name": "add", "args": {"a": 2}, "id": "gone", "options": {"retention": 0}}
    with service.working():
        http.post(TASKS, json=body)
        eventually(lambda: http.get(f"{TASKS}/gone").status_code == 404)
        task = http.get(f"{TASKS}/gone", params={"wait": 15}).json()
    assert (task["id"], task["state"], task["result"]) == ("gone", "completed", 3)
    assert task["name"] == "?"
    assert not {"args", "queue", "policy"} & task.keys()


@pytest.mark.parametrize(
    ("task", "field"),
    [
        ({"name": "sp ace"}, "name"),
        ({"name": "n", "id": "no id"}, "id"),
        ({"name": "n", "queue": "no queue"}, "queue"),
        ({"name": "n", "depends_on": ["missing"]}, "depends_on"),
        ({"name": "n", "delay": -1}, "delay"),
        ({"name": "n", "delay": 10, "deadline_in": 5}, "delay"),
        ({"name": "n", "deadline_in": -5}, "deadline_in"),
        ({"name": "n", "options": {"max_retries": -1}}, "options.max_retries"),
        ({"name": "n", "options": {"colour": "red"}}, "options.colour"),
        ({"name": "n", "options": {"on_invalid": "record"}, "id": "no id"}, "id"),
    ],
)
def test_the_field_at_fault_is_called_what_the_request_calls_it(
    http: httpx.Client, task: dict[str, Any], field: str
):
    assert problem(http.post(TASKS, json=task), 422, "invalid-submission")["field"] == field
    [item] = http.post("/api/v1/bulk", json={"tasks": [task]}).json()["tasks"]
    assert item["error"]["field"] == field
    assert http.get(TASKS).json()["tasks"] == []
