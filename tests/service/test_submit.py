"""Submitting a task over HTTP."""

import httpx

TASKS = "/api/v1/tasks"


def test_a_task_that_is_submitted_can_be_read(http: httpx.Client):
    made = http.post(TASKS, json={"name": "add", "args": {"a": 1}, "id": "one"})
    assert made.status_code == 201
    assert made.json() == {"id": "one", "state": "pending", "created": True}
    read = http.get(f"{TASKS}/one").json()
    assert (read["name"], read["args"], read["state"]) == ("add", {"a": 1}, "pending")


def test_the_same_submission_again_is_the_same_task(http: httpx.Client):
    body = {"name": "add", "args": {"a": 1}, "id": "one", "delay": 60}
    assert http.post(TASKS, json=body).status_code == 201
    again = http.post(TASKS, json=body)
    assert (again.status_code, again.json()["created"]) == (200, False)


def test_an_id_that_is_taken_by_another_task_is_a_conflict(http: httpx.Client):
    http.post(TASKS, json={"name": "add", "args": {"a": 1}, "id": "one"})
    refused = http.post(TASKS, json={"name": "add", "args": {"a": 2}, "id": "one"})
    assert refused.status_code == 409
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["type"] == "urn:andon:problem:task-conflict"
