"""Alert rules and targets over HTTP."""

from typing import Any

import httpx
import pytest

from .kit import Running, problem

SECRET = "the-receiver-knows-it-too"
HOOK = {"how": "webhook", "url": "https://ops.example/hidden-path", "secret": SECRET}


def test_rules_and_targets_are_made_listed_changed_and_removed(http: httpx.Client) -> None:
    target = http.put("/api/v1/alerts/targets/ops", json=HOOK)
    assert target.json() == {
        "name": "ops",
        "how": "webhook",
        "where": "https://ops.example/…",
        "has_secret": True,
    }
    rule = {"when": "oldest-age", "above": "10m", "targets": ["ops"]}
    made = http.put("/api/v1/alerts/rules/stuck", json=rule)
    assert made.json() == {
        "name": "stuck",
        "when": "oldest-age",
        "above": 600,
        "targets": ["ops"],
        "state": "new",
        "subjects": [],
        "more": 0,
    }
    changed = http.patch("/api/v1/alerts/rules/stuck", json={"for": 120, "above": None})
    assert (changed.json()["above"], changed.json()["for"]) == (600, 120)
    listed = http.get("/api/v1/alerts")
    assert [one["name"] for one in listed.json()["rules"]] == ["stuck"]
    for answer in (target, made, changed, listed, http.get("/api/v1/audit")):
        assert SECRET not in answer.text
        assert "hidden-path" not in answer.text
    refused = http.delete("/api/v1/alerts/targets/ops")
    assert "told by the rule 'stuck'" in problem(refused, 422, "invalid-request")["detail"]
    assert http.delete("/api/v1/alerts/rules/stuck").json() == {"removed": "stuck"}
    assert http.delete("/api/v1/alerts/targets/ops").json() == {"removed": "ops"}
    problem(http.delete("/api/v1/alerts/rules/stuck"), 404, "not-found")
    problem(http.delete("/api/v1/alerts/targets/ops"), 404, "not-found")


def test_a_document_is_applied_after_a_dry_run(http: httpx.Client) -> None:
    document = {"targets": {"ops": HOOK}, "rules": {"new": {"when": "new-error", "targets": "ops"}}}
    changes = ["add target ops", "add rule new"]
    dry = http.put("/api/v1/alerts", json=document, params={"dry_run": "true"})
    assert dry.json() == {"changes": changes, "applied": False}
    assert http.get("/api/v1/alerts").json()["rules"] == []
    assert http.put("/api/v1/alerts", json=document).json() == {"changes": changes, "applied": True}
    assert http.get("/api/v1/alerts/preview").json()["told"] == []


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("rules/r", {"when": "pigeon"}, "when is one of"),
        ("rules/r", {"when": "new-error", "targets": ["x"]}, "no target 'x'"),
        ("rules/a b", {"when": "new-error"}, "rule"),
        ("targets/t", {"how": "chat", "url": "file:///etc/passwd"}, "url is not one of"),
        ("targets/t", {"how": "command", "argv": ["id"]}, "only the command line beside the store"),
        ("targets/t", {"how": "webhook", "url": "https://a.example"}, "secret is a text"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    http: httpx.Client, path: str, body: dict[str, Any], said: str
) -> None:
    answer = http.put(f"/api/v1/alerts/{path}", json=body)
    assert said in problem(answer, 422, "invalid-request")["detail"]
    found = http.get("/api/v1/alerts").json()
    assert (found["rules"], found["targets"]) == ([], [])


def test_a_command_comes_by_no_document_either(http: httpx.Client) -> None:
    document = {"targets": {"page": {"how": "command", "argv": ["id"]}}}
    problem(http.put("/api/v1/alerts", json=document), 422, "invalid-request")


def test_a_test_names_its_task(http: httpx.Client, service: Running) -> None:
    http.put("/api/v1/alerts/targets/ops", json={"how": "chat", "url": "http://127.0.0.1:1/"})
    begun = http.post("/api/v1/alerts/targets/ops/test")
    assert begun.status_code == 202
    task = http.get(f"/api/v1/tasks/{begun.json()['task']}")
    assert task.json()["queue"] == "andon.alerts"
    answer = http.post("/api/v1/alerts/targets/nobody/test")
    assert "no alert target 'nobody'" in problem(answer, 404, "not-found")["detail"]
