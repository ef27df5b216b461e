"""Submits over HTTP that supersede the holder of their unique key."""

from typing import Any

import httpx
import pytest

from andon import Andon

from .test_runs import claim, say, state, submit

NEWER = {"name": "job", "unique_key": "k", "on_held": "supersede"}


@pytest.fixture
def app(tmp_path: Any) -> Andon:
    return Andon(f"sqlite:///{tmp_path}/tasks.db")


def test_the_newer_task_takes_the_place_of_the_one_that_waits(http: httpx.Client):
    submit(http, "a", unique_key="k")
    taken = http.post("/api/v1/tasks", json={**NEWER, "id": "b"})
    assert (taken.status_code, taken.json()["state"]) == (201, "pending")
    assert (state(http, "a")["reason"], state(http, "a")["successor"]) == ("superseded", "b")
    bad = http.post("/api/v1/tasks", json={**NEWER, "on_held": "extend", "delay": 1})
    assert (bad.status_code, bad.json()["field"]) == (422, "max_delay")
    assert state(http, "b")["state"] == "pending"


def test_who_supersedes_may_change_tasks_of_the_queue(http: httpx.Client):
    submit(http, "bears", scopes=["tasks:create:mail"])
    [run] = claim(http)
    newer = {**NEWER, "queue": "mail"}
    report = {"outcome": "completed", "result": 1, "follow_ups": [newer]}
    refused = say(http, run, "report", **report)
    assert refused.status_code == 403
    assert "tasks:change:mail" in refused.text
