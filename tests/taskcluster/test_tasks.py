"""Tasks as documents: what is kept, what is filled in, and what a repeat is."""

from datetime import timedelta
from typing import Any

import pytest
from tests.service.kit import Running

from andon.engine.base import Submission
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import QUEUE, Queue, at, definition, is_time, refused, slugid

DAY = timedelta(days=1)


def test_the_definition_is_answered_with_every_default_and_both_names_of_its_queue(queue: Queue):
    task_id = slugid()
    sent = definition(payload={"a": [1, 2.5, "ü", None], "n": 10**25})
    status = queue.answer("PUT", f"/task/{task_id}", sent)["status"]
    kept = queue.answer("GET", f"/task/{task_id}")
    assert kept == {
        **sent,
        "provisionerId": "proj-gecko",
        "workerType": "linux-large",
        "schedulerId": "-",
        "projectId": "none",
        "taskGroupId": task_id,
        "dependencies": [],
        "requires": "all-completed",
        "routes": [],
        "priority": "lowest",
        "retries": 5,
        "expires": kept["expires"],
        "scopes": [],
        "tags": {},
        "extra": {},
    }
    assert status == {
        "taskId": task_id,
        "provisionerId": "proj-gecko",
        "workerType": "linux-large",
        "taskQueueId": QUEUE,
        "schedulerId": "-",
        "projectId": "none",
        "taskGroupId": task_id,
        "priority": "lowest",
        "deadline": sent["deadline"],
        "expires": kept["expires"],
        "retriesLeft": 5,
        "state": "pending",
        "runs": [
            {
                "runId": 0,
                "state": "pending",
                "reasonCreated": "scheduled",
                "scheduled": status["runs"][0]["scheduled"],
            }
        ],
    }
    assert is_time(status["runs"][0]["scheduled"])
    year = int(sent["deadline"][:4])
    assert kept["expires"] == sent["deadline"].replace(str(year), str(year + 1), 1)


def test_a_task_names_its_queue_in_one_way_or_two_that_agree(queue: Queue):
    split = {"provisionerId": "proj-gecko", "workerType": "linux-large"}
    task_id = queue.create(taskQueueId=None, **split)
    assert queue.answer("GET", f"/task/{task_id}")["taskQueueId"] == QUEUE
    queue.create(**split)
    for wrong in (
        {"workerType": "other"},
        {"taskQueueId": None, "provisionerId": "proj-gecko"},
        {"taskQueueId": None},
    ):
        answer = queue.ask("PUT", f"/task/{slugid()}", definition(**wrong))
        refused(answer, 400, "InputError", "createTask")


def test_times_are_taken_with_any_fraction_and_offset_and_told_in_milliseconds(queue: Queue):
    created = at()
    task_id = queue.create(
        created=created[:-1] + "987654Z",
        deadline=at(timedelta(hours=3))[:-5] + "+02:00",
    )
    kept = queue.answer("GET", f"/task/{task_id}")
    assert kept["created"] == created
    assert is_time(kept["deadline"])
    assert kept["deadline"] < at(timedelta(hours=1, minutes=1))


def wrong() -> dict[str, dict[str, Any]]:
    """As the clock is now: tests may run long after they were collected."""
    return {
        "created long ago": {"created": at(timedelta(minutes=-16))},
        "created in the future": {"created": at(timedelta(minutes=17)), "deadline": at(DAY)},
        "deadline before created": {"deadline": at(timedelta(minutes=-1))},
        "deadline past": {
            "created": at(timedelta(minutes=-9)),
            "deadline": at(timedelta(minutes=-5)),
        },
        "deadline too far ahead": {"deadline": at(5 * DAY + timedelta(minutes=17))},
        "expires before deadline": {"expires": at(timedelta(minutes=30))},
        "a scope that ends in two stars": {"scopes": ["queue:**"]},
    }


@pytest.mark.parametrize("what", wrong())
def test_a_rule_beyond_the_form_is_an_input_error_and_nothing_is_stored(queue: Queue, what: str):
    task_id = slugid()
    answer = queue.ask("PUT", f"/task/{task_id}", definition(**wrong()[what]))
    refused(answer, 400, "InputError", "createTask")
    refused(queue.ask("GET", f"/task/{task_id}"), 404, "ResourceNotFound", "task")


def test_a_deadline_at_the_limit_is_taken(queue: Queue):
    queue.create(deadline=at(5 * DAY + timedelta(minutes=14)))


FORMS: dict[str, dict[str, Any]] = {
    "no payload": {"payload": None},
    "a payload that is a list": {"payload": [1]},
    "extra that is a text": {"extra": "x"},
    "the old priority": {"priority": "normal"},
    "too many retries": {"retries": 50},
    "no date": {"created": "today"},
    "a date that is none": {"deadline": "2026-02-30T00:00:00Z"},
    "a date that is no text": {"deadline": 1_900_000_000_000},
    "a date that is an object": {"created": {"at": "2030-01-01T00:00:00Z"}},
    "a dependency that is no id": {"dependencies": ["x"]},
    "a dependency twice": {"dependencies": ["VGfy1vitRDKhz4zPEm1Czg"] * 2},
    "a route twice": {"routes": ["a", "a"]},
    "an empty route": {"routes": [""]},
    "65 routes": {"routes": [f"r{n}" for n in range(65)]},
    "a scope with a line": {"scopes": ["a\nb"]},
    "a tag that is a number": {"tags": {"a": 1}},
    "metadata without owner": {"metadata": {"name": "n", "description": "d", "source": "git@x"}},
    "a source that is none": {"metadata": {**definition()["metadata"], "source": "ftp://x"}},
    "a worker type in capitals": {"taskQueueId": "p/WT"},
    "a long project": {"projectId": "x" * 501},
    "null for a default": {"requires": False},
}


@pytest.mark.parametrize("what", FORMS)
def test_a_form_that_does_not_fit_is_refused_and_echoed(queue: Queue, what: str):
    task_id, sent = slugid(), definition(**FORMS[what])
    answer = queue.ask("PUT", f"/task/{task_id}", sent)
    error = refused(answer, 400, "InputValidationError", "createTask")
    assert error["requestInfo"]["payload"] == sent
    refused(queue.ask("GET", f"/task/{task_id}"), 404, "ResourceNotFound", "task")


def test_the_same_definition_again_is_answered_with_the_status_and_another_is_a_conflict(
    queue: Queue,
):
    task_id, sent = slugid(), definition()
    queue.answer("PUT", f"/task/{task_id}", sent)
    queue.claim()
    again = queue.answer("PUT", f"/task/{task_id}", dict(reversed(sent.items())))
    assert again["status"]["state"] == "running"
    spelt_out = {**sent, "retries": 5, "priority": "lowest", "created": sent["created"][:-1] + "9Z"}
    assert queue.answer("PUT", f"/task/{task_id}", spelt_out) == again
    for other in ({"retries": 4}, {"payload": {}}, {"extra": {"a": 1}}, {"tags": {"a": "b"}}):
        answer = queue.ask("PUT", f"/task/{task_id}", {**sent, **other})
        refused(answer, 409, "RequestConflict", "createTask")


def test_a_payload_written_otherwise_is_the_same_and_true_is_not_one(queue: Queue):
    task_id, sent = slugid(), definition(payload={"a": True, "b": {"c": 1, "d": 2}})
    first = queue.answer("PUT", f"/task/{task_id}", sent)
    sent["payload"] = {"b": {"d": 2, "c": 1}, "a": True}
    assert queue.answer("PUT", f"/task/{task_id}", sent) == first
    sent["payload"] = {"a": 1, "b": {"c": 1, "d": 2}}
    refused(queue.ask("PUT", f"/task/{task_id}", sent), 409, "RequestConflict")


def test_a_repeat_that_comes_late_is_the_same_task_still(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
):
    task_id, sent = slugid(), definition()
    first = queue.answer("PUT", f"/task/{task_id}", sent)
    monkeypatch.setattr("andon.service.taskcluster.document.CLOCKS_APART_MS", -1)
    refused(queue.ask("PUT", f"/task/{slugid()}", sent), 400, "InputError")
    assert queue.answer("PUT", f"/task/{task_id}", sent) == first


def test_an_unknown_dependency_is_refused_and_one_that_expires_too_early(queue: Queue):
    task_id = slugid()
    answer = queue.ask("PUT", f"/task/{task_id}", definition(dependencies=[slugid()]))
    refused(answer, 400, "InputError", "createTask")
    refused(queue.ask("GET", f"/task/{task_id}"), 404, "ResourceNotFound")

    short = queue.create(deadline=at(timedelta(minutes=5)), expires=at(timedelta(minutes=6)))
    answer = queue.ask("PUT", f"/task/{task_id}", definition(dependencies=[short]))
    error = refused(answer, 400, "InputError", "createTask")
    assert short in error["message"]
    refused(queue.ask("GET", f"/task/{task_id}"), 404, "ResourceNotFound")


def test_a_task_that_depends_on_itself_waits_to_be_scheduled(queue: Queue):
    task_id = slugid()
    queue.create(task_id, dependencies=[task_id])
    assert queue.status(task_id)["runs"] == []
    assert queue.state(task_id) == "unscheduled"
    assert queue.act(task_id, "schedule")["state"] == "pending"
    assert queue.act(task_id, "schedule")["runs"][0]["reasonCreated"] == "scheduled"


def test_dependents_go_on_when_what_they_wait_for_has_ended_as_they_require(queue: Queue):
    parent = queue.create(priority="high")
    strict = queue.create(dependencies=[parent])
    easy = queue.create(dependencies=[parent], requires="all-resolved")
    assert queue.state(strict) == queue.state(easy) == "unscheduled"
    queue.claim()
    queue.report(parent, 0, "failed")
    [claim] = queue.claim()
    assert claim["status"]["taskId"] == easy
    assert queue.state(strict) == "unscheduled"
    assert queue.act(parent, "rerun")["runs"][1]["reasonCreated"] == "rerun"
    [claim] = queue.claim()
    assert queue.report(parent, 1, "completed").status_code == 200
    [claim] = queue.claim()
    assert claim["status"]["taskId"] == strict


def test_dependents_are_listed_before_and_after_they_were_released(queue: Queue):
    parent = queue.create()
    assert queue.answer("GET", f"/task/{parent}/dependents") == {"taskId": parent, "tasks": []}
    ids = sorted(queue.create(dependencies=[parent]) for _ in range(5))
    queue.act(ids[0], "schedule")
    queue.claim(2)
    queue.report(parent, 0, "completed")
    listed: list[str] = []
    params: dict[str, Any] = {"limit": 2}
    while True:
        answer = queue.answer("GET", f"/task/{parent}/dependents", params=params)
        assert answer["tasks"]
        listed += [row["status"]["taskId"] for row in answer["tasks"]]
        if "continuationToken" not in answer:
            break
        params["continuationToken"] = answer["continuationToken"]
    assert listed == ids
    refused(queue.ask("GET", f"/task/{slugid()}/dependents"), 404, "ResourceNotFound")
    bad = {"continuationToken": "AAAA"}
    refused(queue.ask("GET", f"/task/{parent}/dependents", params=bad), 400, "InputError")


def test_a_priority_may_be_changed_until_the_task_has_ended(queue: Queue):
    first, second = queue.create(), queue.create()
    body = {"newPriority": "highest"}
    status = queue.answer("POST", f"/task/{second}/priority", body)["status"]
    assert status["priority"] == "highest"
    assert queue.answer("GET", f"/task/{second}")["priority"] == "highest"
    [claim] = queue.claim()
    assert claim["status"]["taskId"] == second
    assert claim["task"]["priority"] == "highest"
    running = queue.answer("POST", f"/task/{second}/priority", {"newPriority": "low"})["status"]
    assert (running["state"], running["priority"]) == ("running", "low")
    queue.report(second, 0, "completed")
    answer = queue.ask("POST", f"/task/{second}/priority", body)
    refused(answer, 409, "RequestConflict", "changeTaskPriority")
    queue.act(second, "rerun")
    answer = queue.ask("POST", f"/task/{second}/priority", body)
    refused(answer, 409, "RequestConflict", "changeTaskPriority")
    answer = queue.ask("POST", f"/task/{first}/priority", {"newPriority": "normal"})
    refused(answer, 400, "InputValidationError", "changeTaskPriority")
    refused(queue.ask("POST", f"/task/{slugid()}/priority", body), 404, "ResourceNotFound")


def test_a_task_created_before_its_priority_was_changed_is_the_same_task_still(queue: Queue):
    task_id, sent = slugid(), definition()
    queue.answer("PUT", f"/task/{task_id}", sent)
    queue.answer("POST", f"/task/{task_id}/priority", {"newPriority": "high"})
    assert queue.answer("PUT", f"/task/{task_id}", sent)["status"]["priority"] == "high"


def test_a_task_that_waits_is_rerun_at_once_and_one_that_ends_without_a_run_gets_one(queue: Queue):
    waits = slugid()
    queue.create(waits, dependencies=[waits])
    status = queue.act(waits, "rerun")
    assert status["state"] == "pending"
    assert [(run["runId"], run["reasonCreated"]) for run in status["runs"]] == [(0, "rerun")]

    other = slugid()
    queue.create(other, dependencies=[other])
    [run] = queue.act(other, "cancel")["runs"]
    assert (run["runId"], run["state"], run["reasonResolved"]) == (0, "exception", "canceled")
    assert run["reasonCreated"] == "exception"
    assert [run["runId"] for run in queue.act(other, "rerun")["runs"]] == [0, 1]


def test_a_task_has_fifty_runs_at_most(queue: Queue):
    task_id = queue.create(retries=49)
    for number in range(50):
        [claim] = queue.claim()
        assert claim["runId"] == number
        assert claim["status"]["retriesLeft"] == 49 - number
        queue.report(task_id, number, "exception", {"reason": "intermittent-task"})
    assert queue.state(task_id) == "exception"
    answer = queue.ask("POST", f"/task/{task_id}/rerun")
    refused(answer, 409, "RequestConflict", "rerunTask")
    assert len(queue.status(task_id)["runs"]) == 50


def test_a_task_that_was_never_created_is_not_found(queue: Queue):
    for path in ("", "/status"):
        refused(queue.ask("GET", f"/task/{slugid()}{path}"), 404, "ResourceNotFound")
    for act in ("schedule", "rerun", "cancel"):
        refused(queue.ask("POST", f"/task/{slugid()}/{act}"), 404, "ResourceNotFound")


def test_what_is_no_document_is_no_task_of_the_face(queue: Queue, running: Running):
    task_id, other = slugid(), slugid()
    submissions = [
        Submission(id=task_id, name="mail", args=b'{"to": "ann"}'),
        Submission(id=other, name="taskcluster", args=b"[1]"),
    ]
    for submitted in running.call(running.service.engine.submit(submissions)):
        assert submitted.error is None
    refused(queue.ask("GET", f"/task/{task_id}"), 404, "ResourceNotFound")
    refused(queue.ask("GET", f"/task/{other}"), 404, "ResourceNotFound")
    refused(queue.ask("PUT", f"/task/{task_id}", definition()), 409, "RequestConflict")


def test_many_are_read_at_once_and_those_that_are_not_there_are_left_out(queue: Queue):
    ids = [queue.create() for _ in range(3)]
    asked = {"taskIds": [ids[2], slugid(), ids[0], ids[2]]}
    rows = queue.answer("POST", "/tasks", asked)["tasks"]
    assert [row["taskId"] for row in rows] == [ids[2], ids[0]]
    assert rows[0]["task"]["taskQueueId"] == QUEUE
    statuses = queue.answer("POST", "/tasks/status", asked)["statuses"]
    assert [row["status"]["taskId"] for row in statuses] == [ids[2], ids[0]]
    assert queue.answer("POST", "/tasks", {"taskIds": []}) == {"tasks": []}


@pytest.fixture
def face_settings() -> TaskclusterSettings:
    return TaskclusterSettings(max_document=600_000)


def test_a_document_beyond_what_an_application_may_send_is_kept_whole(queue: Queue):
    payload = {"schedule": "x" * 500_000}
    task_id = queue.create(payload=payload)
    assert queue.answer("GET", f"/task/{task_id}")["payload"] == payload
    [claim] = queue.claim()
    assert claim["task"]["payload"] == payload
    answer = queue.ask("PUT", f"/task/{slugid()}", definition(payload={"x": "y" * 600_000}))
    refused(answer, 413, "InputTooLarge", "createTask")
