"""Flows over HTTP: seen and acted on as one; arguments filled in for workers of any language."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from andon import Andon

from .kit import eventually, problem, serving

FLOWS = "/api/v1/flows"
RUNS = "/api/v1/runs"


@pytest.fixture
def flow_id(http: httpx.Client) -> str:
    """Two tasks and one of their results, written by hand, as a program without a client does."""
    of_flow = {"queue": "q", "group": "sums-1"}
    sums = {"first": {"$result": "a"}, "all": {"$results": [0, 2]}, "plain": {"$result": "a"}}
    tasks = [
        {"id": "a", "name": "part", **of_flow},
        {"id": "b", "name": "part", **of_flow},
        {
            "id": "c",
            "name": "sum",
            "args": sums,
            "depends_on": ["a", "b"],
            "load_dependencies": True,
            "headers": {"andon-results": "first,all"},
            **of_flow,
        },
    ]
    assert http.post("/api/v1/bulk", json={"tasks": tasks}).json()["refused"] == 0
    return "sums-1"


def claim(http: httpx.Client) -> list[dict[str, Any]]:
    body = {"worker": "w", "queues": ["q"], "limit": 5, "wait": 5}
    return http.post(f"{RUNS}/claim", json=body).json()["runs"]


def report(http: httpx.Client, run: dict[str, Any], **said: Any) -> None:
    where = f"{RUNS}/{run['task_id']}/{run['run']}/report"
    headers = {"Authorization": f"Bearer {run['token']}"}
    assert http.post(where, json=said, headers=headers).status_code == 200


def test_results_are_in_the_arguments_that_a_worker_of_any_language_claims(
    http: httpx.Client, flow_id: str
) -> None:
    for number, run in enumerate(claim(http), 1):
        report(http, run, outcome="completed", result={"n": number})
    [last] = claim(http)
    results = [last["args"]["first"], *last["args"]["all"]]
    assert sorted(result["n"] for result in results) in ([1, 1, 2], [1, 2, 2])
    assert last["args"]["plain"] == {"$result": "a"}, "no header names it"
    stored = http.get("/api/v1/tasks/c").json()
    assert stored["args"]["first"] == {"$result": "a"}, "what is kept is what was submitted"


def test_a_service_has_its_own_bound_for_arguments_with_results_in_them(tmp_path: Path) -> None:
    """Sixty-four times `max_payload`; the one task that is larger fails alone, and says so."""
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    with serving(app, max_payload=20) as running, running.client() as http:
        sums = {"results": {"$results": [0, 2]}}
        parts = ["a", "b"]
        plain = {"queue": "q", "load_dependencies": True, "headers": {"andon-results": "results"}}
        tasks = [
            *({"id": part, "name": "part", "queue": "q"} for part in parts),
            {"id": "fits", "name": "sum", "args": sums, "depends_on": parts, **plain},
            {
                "id": "large",
                "name": "sum",
                "args": {**sums, "other": "x" * 64 * 20},
                "depends_on": parts,
                **plain,
            },
        ]
        assert http.post("/api/v1/bulk", json={"tasks": tasks}).json()["refused"] == 0
        first, second = claim(http)
        where = f"{RUNS}/{first['task_id']}/{first['run']}/report"
        headers = {"Authorization": f"Bearer {first['token']}"}
        said = {"outcome": "completed", "result": "x" * 30}
        problem(http.post(where, json=said, headers=headers), 413, "payload-too-large")
        for run in (first, second):
            report(http, run, outcome="completed", result=1)
        claimed: list[Any] = []

        def both_claimed() -> Any:  # the two may become pending one after the other
            claimed.extend(claim(http))
            return _ended(http, "large") if claimed else None

        large = eventually(both_claimed)
        [run] = claimed
        assert (run["task_id"], run["args"]) == ("fits", {"results": [1, 1]})
        assert large["reason"] == "malformed-payload"
        assert (
            "more than 1,280 bytes, which is 64 times max_payload" in large["last_error"]["message"]
        )


def _ended(http: httpx.Client, task_id: str) -> Any:
    task = http.get(f"/api/v1/tasks/{task_id}").json()
    return task if task["state"] == "failed" else None


def test_a_flow_is_shown_cancelled_and_run_again(http: httpx.Client, flow_id: str) -> None:
    shown = http.get(f"{FLOWS}/{flow_id}").json()
    assert shown["progress"]["states"] == {"blocked": 1, "pending": 2}
    nodes = [(node["name"], node["after"]) for node in shown["nodes"]]
    assert nodes == [("part", []), ("sum", [0])]
    assert http.post(f"{FLOWS}/{flow_id}/cancel").json()["changed"] == 3
    again = http.post(f"{FLOWS}/{flow_id}/rerun", json={"failed_only": True})
    assert (again.status_code, again.json()["changed"]) == (200, 3)
    shown = http.get(f"{FLOWS}/{flow_id}").json()
    assert shown["progress"]["states"] == {"blocked": 1, "pending": 2}
    assert http.get(FLOWS).json() == {"flows": []}, "it was not made by a client that knows flows"


def test_what_is_no_flow_is_not_found(http: httpx.Client) -> None:
    for answer in (
        http.get(f"{FLOWS}/nowhere"),
        http.post(f"{FLOWS}/nowhere/cancel"),
        http.post(f"{FLOWS}/nowhere/rerun"),
    ):
        assert answer.status_code == 404
        assert "There is no flow 'nowhere'" in answer.json()["detail"]
