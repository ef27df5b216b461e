"""Groups, counts, and lists in pages. Tasks of one millisecond are listed in the order of their
ids, so tests look at the order only where time has passed."""

from typing import Any

import pytest

from .kit import QUEUE, Queue, refused, slugid


def pages(queue: Queue, request: str, rows: str, limit: int, body: Any = None) -> Any:
    """The rows of each page of a list."""
    found: list[list[Any]] = []
    method, path = request.split()
    params: dict[str, Any] = {"limit": limit}
    while True:
        answer = queue.answer(method, path, body, params=params)
        found.append(answer[rows])
        token = answer.get("continuationToken")
        if token is None:
            return found
        assert isinstance(token, str)
        assert token
        params["continuationToken"] = token


def test_a_group_lists_its_tasks_and_what_they_share(queue: Queue):
    group = slugid()
    ids = [queue.create(taskGroupId=group, schedulerId="gecko-level-1") for _ in range(3)]
    queue.create()
    answer = queue.answer("GET", f"/task-group/{group}/list")
    assert answer["taskGroupId"] == group
    assert answer["schedulerId"] == "gecko-level-1"
    listed = [row["status"]["taskId"] for row in answer["tasks"]]
    assert sorted(listed) == sorted(ids)
    assert answer["tasks"][0]["task"] == queue.answer("GET", f"/task/{listed[0]}")
    assert answer["expires"] >= answer["tasks"][0]["status"]["expires"]
    assert "continuationToken" not in answer


def test_a_group_that_no_task_has_named_is_not_found(queue: Queue):
    answer = queue.ask("GET", f"/task-group/{slugid()}/list")
    refused(answer, 404, "ResourceNotFound", "listTaskGroup")


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 5_000])
def test_a_group_is_read_in_pages_each_task_once(queue: Queue, limit: int):
    group = slugid()
    ids = [queue.create(taskGroupId=group) for _ in range(6)]
    found = pages(queue, f"GET /task-group/{group}/list", "tasks", limit)
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
    assert found[-1], "a token leads to one task at least"
    assert sorted(row["status"]["taskId"] for page in found for row in page) == sorted(ids)


def test_a_group_that_grows_between_two_pages_repeats_nothing(queue: Queue):
    group = slugid()
    ids = [queue.create(taskGroupId=group) for _ in range(3)]
    first = queue.answer("GET", f"/task-group/{group}/list", params={"limit": 2})
    ids += [queue.create(taskGroupId=group) for _ in range(2)]
    queue.act(ids[0], "cancel")
    params = {"limit": 1000, "continuationToken": first["continuationToken"]}
    second = queue.answer("GET", f"/task-group/{group}/list", params=params)
    listed = [row["status"]["taskId"] for row in (*first["tasks"], *second["tasks"])]
    assert sorted(listed) == sorted(ids)


@pytest.mark.parametrize(("path", "rows"), [("/tasks", "tasks"), ("/tasks/status", "statuses")])
def test_many_tasks_are_read_in_pages(queue: Queue, path: str, rows: str):
    ids = [queue.create() for _ in range(5)]
    asked = {"taskIds": [slugid(), *ids[:3], slugid(), *ids[3:], slugid()]}
    found = pages(queue, f"POST {path}", rows, 2, asked)
    assert [row["taskId"] for page in found for row in page] == ids
    assert found[-1]


def test_a_token_of_nobody_is_refused(queue: Queue):
    group = slugid()
    for _ in range(3):
        queue.create(taskGroupId=group)
    path = f"/task-group/{group}/list"
    good = queue.answer("GET", path, params={"limit": 1})["continuationToken"]
    other = queue.create(taskGroupId=slugid())
    for bad in ("x", "!!", good + "x", good[:-2], "A" * 5_000):
        answer = queue.ask("GET", path, params={"continuationToken": bad})
        refused(answer, 400, "InputError", "listTaskGroup")
    elsewhere = f"/task-group/{queue.status(other)['taskGroupId']}/list"
    answer = queue.ask("GET", elsewhere, params={"continuationToken": good})
    refused(answer, 400, "InputError", "listTaskGroup")
    answer = queue.ask("POST", "/tasks", {"taskIds": []}, params={"continuationToken": good})
    refused(answer, 400, "InputError", "tasks")


def counts(queue: Queue, path: str = f"/task-queues/{QUEUE}/counts") -> tuple[int, int]:
    answer = queue.answer("GET", path)
    assert answer["taskQueueId"] == QUEUE
    assert (answer["provisionerId"], answer["workerType"]) == tuple(QUEUE.split("/"))
    return answer["pendingTasks"], answer["claimedTasks"]


def test_the_counts_of_a_queue_are_exact(queue: Queue):
    assert counts(queue) == (0, 0)
    ids = [queue.create() for _ in range(3)]
    waits = slugid()
    queue.create(waits, dependencies=[waits])
    assert counts(queue) == (3, 0)
    queue.claim(2)
    assert counts(queue) == (1, 2)
    assert queue.answer("GET", f"/pending/{QUEUE}") == {
        "taskQueueId": QUEUE,
        "provisionerId": "proj-gecko",
        "workerType": "linux-large",
        "pendingTasks": 1,
    }
    queue.report(ids[0], 0, "completed")
    queue.act(ids[1], "cancel")
    queue.act(ids[2], "cancel")
    assert counts(queue) == (0, 0)


def test_many_queues_are_counted_at_once(queue: Queue):
    queue.create()
    answer = queue.answer("POST", "/task-queues/counts", {"taskQueueIds": ["p/none", QUEUE]})
    none, some = answer["taskQueueCounts"]
    assert (none["taskQueueId"], none["pendingTasks"]) == ("p/none", 0)
    assert (some["taskQueueId"], some["pendingTasks"], some["claimedTasks"]) == (QUEUE, 1, 0)
    for bad in ([QUEUE] * 2, ["p"], [f"p/q{n}" for n in range(1_001)]):
        answer = queue.ask("POST", "/task-queues/counts", {"taskQueueIds": bad})
        refused(answer, 400, "InputValidationError", "taskQueueCountsBatch")
