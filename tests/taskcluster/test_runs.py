"""Runs: how they end, what comes after, and which report is a repeat."""

from datetime import timedelta
from typing import Any

import pytest

from .kit import Queue, at, is_time, refused, slugid

EXCEPTIONS = (
    "worker-shutdown",
    "malformed-payload",
    "resource-unavailable",
    "internal-error",
    "intermittent-task",
)
RETRIED = {"worker-shutdown": "retry", "intermittent-task": "task-retry"}


def claimed(queue: Queue, **fields: Any) -> str:
    task_id = queue.create(**fields)
    [claim] = queue.claim()
    assert claim["status"]["taskId"] == task_id
    return task_id


def test_a_claim_says_all_that_a_worker_needs(queue: Queue):
    task_id = queue.create(scopes=["secrets:get:a", "docker:b c"])
    [claim] = queue.claim()
    assert set(claim) == {
        "status", "runId", "workerGroup", "workerId", "takenUntil", "task", "credentials",
    }  # fmt: skip
    assert claim["runId"] == 0
    assert claim["task"] == queue.answer("GET", f"/task/{task_id}")
    assert claim["status"] == queue.status(task_id)
    [run] = claim["status"]["runs"]
    assert run["workerGroup"] == claim["workerGroup"] == "us-east"
    assert run["workerId"] == claim["workerId"] == "i-0a1b"
    assert run["takenUntil"] == claim["takenUntil"]
    assert is_time(run["started"])
    credentials = claim["credentials"]
    assert set(credentials) == {"clientId", "accessToken", "certificate"}
    assert all(isinstance(value, str) and value for value in credentials.values())
    assert credentials["clientId"].startswith(f"task-client/{task_id}/0/on/us-east/i-0a1b/until/")


@pytest.mark.parametrize("how", ["completed", "failed"])
def test_a_run_ends_as_its_worker_reports_and_a_repeat_is_answered_alike(queue: Queue, how: str):
    task_id = claimed(queue)
    first = queue.report(task_id, 0, how).json()["status"]
    assert first["state"] == how
    [run] = first["runs"]
    assert (run["state"], run["reasonResolved"]) == (how, how)
    assert is_time(run["resolved"])
    assert queue.report(task_id, 0, how).json()["status"] == first
    other = "failed" if how == "completed" else "completed"
    refused(queue.report(task_id, 0, other), 409, "RequestConflict")
    for reason in EXCEPTIONS:
        answer = queue.report(task_id, 0, "exception", {"reason": reason})
        refused(answer, 409, "RequestConflict", "reportException")
    assert queue.status(task_id) == first


def test_an_old_worker_says_at_completed_that_it_failed(queue: Queue):
    task_id = claimed(queue)
    assert queue.report(task_id, 0, "completed", {"success": False}).status_code == 200
    assert queue.state(task_id) == "failed"
    assert queue.report(task_id, 0, "failed").status_code == 200


@pytest.mark.parametrize("reason", EXCEPTIONS)
def test_an_exception_is_retried_if_its_reason_says_so(queue: Queue, reason: str):
    task_id = claimed(queue)
    status = queue.report(task_id, 0, "exception", {"reason": reason}).json()["status"]
    first, *more = status["runs"]
    assert (first["state"], first["reasonResolved"]) == ("exception", reason)
    if reason in RETRIED:
        assert status["state"] == "pending"
        assert status["retriesLeft"] == 4
        [second] = more
        assert (second["runId"], second["state"]) == (1, "pending")
        assert second["reasonCreated"] == RETRIED[reason]
    else:
        assert status["state"] == "exception"
        assert not more


@pytest.mark.parametrize("reason", EXCEPTIONS)
def test_the_same_exception_again_is_a_repeat_and_another_is_not(queue: Queue, reason: str):
    task_id = claimed(queue)

    def again() -> None:
        answer = queue.report(task_id, 0, "exception", {"reason": reason})
        assert answer.status_code == 200, answer.text
        for other in set(EXCEPTIONS) - {reason}:
            answer = queue.report(task_id, 0, "exception", {"reason": other})
            refused(answer, 409, "RequestConflict", "reportException")
        for how in ("completed", "failed"):
            refused(queue.report(task_id, 0, how), 409, "RequestConflict")

    assert queue.report(task_id, 0, "exception", {"reason": reason}).status_code == 200
    again()
    if reason in RETRIED:  # also once the next run is open, and once it is claimed
        [claim] = queue.claim()
        assert claim["runId"] == 1
        again()
        assert queue.report(task_id, 1, "completed").status_code == 200
        again()
    assert queue.state(task_id) == ("completed" if reason in RETRIED else "exception")


def test_retries_are_counted_and_the_last_run_stands(queue: Queue):
    task_id = claimed(queue, retries=1)
    body = {"reason": "intermittent-task"}
    assert queue.report(task_id, 0, "exception", body).json()["status"]["retriesLeft"] == 0
    queue.claim()
    status = queue.report(task_id, 1, "exception", body).json()["status"]
    assert (status["state"], status["retriesLeft"]) == ("exception", 0)
    assert [run["reasonResolved"] for run in status["runs"]] == ["intermittent-task"] * 2
    assert queue.act(task_id, "rerun")["retriesLeft"] == 1


def test_a_run_that_is_not_there_or_was_not_claimed_cannot_be_reported(queue: Queue):
    refused(queue.report(slugid(), 0, "completed"), 404, "ResourceNotFound")
    task_id = queue.create()
    refused(queue.report(task_id, 0, "completed"), 409, "RequestConflict", "reportCompleted")
    refused(queue.report(task_id, 1, "completed"), 404, "ResourceNotFound", "reportCompleted")
    refused(queue.report(task_id, 0, "reclaim"), 409, "RequestConflict", "reclaimTask")
    refused(queue.report(task_id, 7, "reclaim"), 404, "ResourceNotFound", "reclaimTask")
    waiting = queue.create(waiting_id := slugid(), dependencies=[waiting_id])
    refused(queue.report(waiting, 0, "completed"), 404, "ResourceNotFound")


def test_a_reclaim_keeps_the_run_and_brings_new_credentials(queue: Queue):
    task_id = queue.create()
    [claim] = queue.claim()
    again = queue.report(task_id, 0, "reclaim").json()
    assert set(again) == set(claim) - {"task"}
    assert again["takenUntil"] >= claim["takenUntil"]
    assert again["status"]["runs"][0]["takenUntil"] == again["takenUntil"]
    queue.report(task_id, 0, "failed")
    refused(queue.report(task_id, 0, "reclaim"), 409, "RequestConflict", "reclaimTask")


def test_a_cancel_ends_a_run_at_once_and_its_worker_learns_of_it(queue: Queue):
    task_id = claimed(queue)
    status = queue.act(task_id, "cancel")
    assert status["state"] == "exception"
    assert status["runs"][0]["reasonResolved"] == "canceled"
    refused(queue.report(task_id, 0, "reclaim"), 409, "RequestConflict")
    refused(queue.report(task_id, 0, "completed"), 409, "RequestConflict")
    assert queue.act(task_id, "cancel") == status
    assert queue.act(task_id, "schedule") == status
    assert queue.act(task_id, "rerun")["state"] == "pending"
    assert len(queue.status(task_id)["runs"]) == 2


def test_a_cancel_that_was_asked_for_elsewhere_reaches_the_worker_at_its_next_reclaim(
    queue: Queue,
):
    task_id = claimed(queue)
    assert queue.http.post(f"/api/v1/tasks/{task_id}/cancel").status_code == 200
    assert queue.state(task_id) == "running"
    refused(queue.report(task_id, 0, "reclaim"), 409, "RequestConflict", "reclaimTask")
    assert queue.status(task_id)["runs"][0]["reasonResolved"] == "canceled"


def test_acts_leave_a_task_alone_that_is_where_they_would_have_it(queue: Queue):
    task_id = queue.create()
    pending = queue.status(task_id)
    assert queue.act(task_id, "rerun") == queue.act(task_id, "schedule") == pending
    [claim] = queue.claim()
    assert queue.act(task_id, "rerun") == queue.act(task_id, "schedule") == claim["status"]
    queue.report(task_id, 0, "completed")
    ended = queue.status(task_id)
    assert queue.act(task_id, "cancel") == queue.act(task_id, "schedule") == ended


def test_after_the_deadline_nothing_can_be_done_to_a_task(queue: Queue):
    """The service's timers end the task meanwhile; whichever comes first, it is a conflict."""
    task_id = queue.create(created=at(), deadline=at(timedelta(seconds=0.3)))
    while at() <= queue.status(task_id)["deadline"]:
        pass
    for act in ("schedule", "rerun", "cancel"):
        answer = queue.ask("POST", f"/task/{task_id}/{act}")
        refused(answer, 409, "RequestConflict", f"{act}Task")


def test_the_runs_of_a_worker_that_was_removed_are_tried_again(queue: Queue):
    task_id = claimed(queue)
    [elsewhere] = [queue.create(), *queue.claim(workerId="another")][1:]
    removed = queue.http.post("/api/v1/workers/remove", json={"worker": "us-east/i-0a1b"})
    assert (removed.status_code, removed.json()["changed"]) == (200, 1)
    first, second = queue.status(task_id)["runs"]
    assert (first["state"], first["reasonResolved"]) == ("exception", "worker-shutdown")
    assert (second["state"], second["reasonCreated"]) == ("pending", "retry")
    assert queue.state(elsewhere["status"]["taskId"]) == "running"
    refused(queue.report(task_id, 0, "completed"), 409, "RequestConflict")
    assert queue.report(task_id, 0, "exception", {"reason": "worker-shutdown"}).is_success
