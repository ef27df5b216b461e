"""Follow-ups in the reports of workers elsewhere (docs/rulings.md, R29, R38)."""

from typing import Any

import httpx
import pytest

from andon import Andon
from andon.service.trust import runtokens

from .kit import eventually
from .test_runs import claim, say, state, submit


@pytest.fixture
def app(tmp_path: Any) -> Andon:
    return Andon(f"sqlite:///{tmp_path}/tasks.db")


def many(http: httpx.Client, run: dict[str, Any], **report: Any) -> dict[str, Any]:
    answer = http.post("/api/v1/runs/report", json={"reports": [{"token": run["token"], **report}]})
    assert answer.status_code == 200, answer.text
    return answer.json()["outcomes"][0]


def done(*follow_ups: Any) -> dict[str, Any]:
    return {"outcome": "completed", "result": 1, "follow_ups": list(follow_ups)}


def test_a_completed_run_bears_them_and_its_repeat_the_same(http: httpx.Client):
    submit(http, "a", tags=["parent"])
    [run] = claim(http)
    report = done({"name": "x", "args": {"n": 2}, "delay": 60}, {"name": "y", "id": "mine"})
    assert many(http, run, **report)["state"] == "completed"
    eventually(lambda: http.get("/api/v1/tasks/mine").status_code == 200)
    assert state(http, "mine")["bearer"] == "a"
    assert many(http, run, **report)["state"] == "completed"
    names = [task["name"] for task in http.get("/api/v1/tasks").json()["tasks"]]
    assert sorted(names) == ["job", "x", "y"]
    assert many(http, run, **done({"name": "z"}))["error"]["status"] == 409


@pytest.mark.parametrize(
    ("report", "field"),
    [
        (done({"name": "x", "id": "no id"}), "follow_ups"),
        (done({"name": "x"}, {"name": "x", "run_at": "soon"}), "follow_ups.1.run_at"),
        (done(*[{"name": "x"}] * 101), "follow_ups"),
        ({"outcome": "failed", "follow_ups": [{"name": "x"}]}, "follow_ups"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field_and_nothing_is_written(
    http: httpx.Client, report: dict[str, Any], field: str
):
    submit(http, "a")
    [run] = claim(http)
    error = many(http, run, **report)["error"]
    assert (error["status"], error["field"]) == (422, field)
    assert state(http, "a")["state"] == "active"
    assert len(http.get("/api/v1/tasks").json()["tasks"]) == 1


def test_a_run_token_bears_what_its_tasks_scopes_allow(http: httpx.Client):
    submit(http, "a", scopes=["tasks:create:mail"])
    [run] = claim(http)
    assert runtokens.is_run_token(run["token"])
    refused = say(http, run, "report", **done({"name": "x", "queue": "other"}))
    assert refused.status_code == 403
    assert "tasks:create:other" in refused.text
    assert state(http, "a")["state"] == "active"
    taken = say(http, run, "report", **done({"name": "x", "queue": "mail", "id": "b"}))
    assert taken.json()["state"] == "completed"
    eventually(lambda: http.get("/api/v1/tasks/b").status_code == 200)


def test_a_task_that_waits_for_the_run_waits_for_them_by_a_header(http: httpx.Client):
    submit(http, "a")
    submit(http, "join", depends_on=["a"])
    [run] = claim(http)
    wrong = done({"name": "x", "headers": {"andon-before": "nowhere"}})
    error = many(http, run, **wrong)["error"]
    assert (error["status"], error["field"]) == (422, "follow_ups")
    assert "no such task" in error["detail"]
    assert state(http, "a")["state"] == "active"
    report = done({"name": "job", "id": "b", "headers": {"andon-before": "join"}})
    assert many(http, run, **report)["state"] == "completed"
    eventually(lambda: http.get("/api/v1/tasks/b").status_code == 200)
    assert state(http, "join")["state"] == "blocked"
    assert state(http, "join")["dependencies"] == ["a", "b"]
    [second] = claim(http)
    many(http, second, **done())
    eventually(lambda: state(http, "join")["state"] == "pending")
    assert many(http, run, **report)["state"] == "completed"
