"""Task groups: one scheduler each, sealed for good, cancelled and moved up as one."""

from typing import Any

from .kit import Queue, definition, is_time, refused, slugid


def seal(queue: Queue, group: str) -> Any:
    return queue.answer("POST", f"/task-group/{group}/seal")


def test_a_group_is_of_one_scheduler(queue: Queue):
    group, task_id = slugid(), slugid()
    queue.create(taskGroupId=group, schedulerId="one")
    sent = definition(taskGroupId=group, schedulerId="another")
    answer = queue.ask("PUT", f"/task/{task_id}", sent)
    refused(answer, 409, "RequestConflict", "createTask")
    refused(queue.ask("GET", f"/task/{task_id}"), 404, "ResourceNotFound")
    shown = queue.answer("GET", f"/task-group/{group}")
    assert set(shown) == {"taskGroupId", "schedulerId", "expires"}
    assert (shown["taskGroupId"], shown["schedulerId"]) == (group, "one")
    assert is_time(shown["expires"])


def test_a_sealed_group_takes_no_task_and_what_it_has_goes_on(queue: Queue):
    group, sent = slugid(), definition()
    sent["taskGroupId"] = group
    first = slugid()
    queue.answer("PUT", f"/task/{first}", sent)
    sealed = seal(queue, group)
    assert is_time(sealed["sealed"])
    assert seal(queue, group) == sealed == queue.answer("GET", f"/task-group/{group}")
    refused(queue.ask("PUT", f"/task/{slugid()}", sent), 409, "RequestConflict", "createTask")
    assert queue.answer("PUT", f"/task/{first}", sent)["status"]["state"] == "pending", "a repeat"
    queue.act(first, "cancel")
    assert queue.act(first, "rerun")["state"] == "pending"
    listed = queue.answer("GET", f"/task-group/{group}/list")
    assert listed["sealed"] == sealed["sealed"]
    assert len(listed["tasks"]) == 1


def test_a_sealed_group_is_cancelled_as_one(queue: Queue):
    group = slugid()
    done, running, pending = (queue.create(taskGroupId=group) for _ in range(3))
    waits = slugid()
    queue.create(waits, taskGroupId=group, dependencies=[waits])
    queue.claim(2)
    queue.report(done, 0, "completed")
    answer = queue.ask("POST", f"/task-group/{group}/cancel")
    refused(answer, 409, "RequestConflict", "cancelTaskGroup")
    seal(queue, group)
    cancelled = queue.answer("POST", f"/task-group/{group}/cancel")
    assert cancelled.pop("taskIds") == [running, pending, waits]
    assert cancelled == {"taskGroupId": group, "taskGroupSize": 4, "cancelledCount": 3}
    assert queue.state(done) == "completed"
    for task_id in (running, pending, waits):
        assert queue.status(task_id)["runs"][-1]["reasonResolved"] == "canceled"
    again = queue.answer("POST", f"/task-group/{group}/cancel")
    assert (again["taskGroupSize"], again["cancelledCount"], again["taskIds"]) == (4, 0, [])


def test_a_group_gets_another_priority_as_one(queue: Queue):
    group = slugid()
    done, pending, high = (
        queue.create(taskGroupId=group, schedulerId="sched", priority=priority)
        for priority in ("highest", "lowest", "high")
    )
    queue.claim()
    queue.report(done, 0, "completed")
    body = {"newPriority": "high"}
    changed = queue.answer("POST", f"/task-group/{group}/priority", body)
    assert changed == {
        "taskGroupId": group,
        "schedulerId": "sched",
        "newPriority": "high",
        "tasksAffected": 1,
        "taskIds": [pending],
    }
    listed = [queue.status(task_id)["priority"] for task_id in (done, pending, high)]
    assert listed == ["highest", "high", "high"]


def test_a_group_that_no_task_has_named_is_not_found(queue: Queue):
    group = slugid()
    for request in ("GET", "GET /list", "POST /seal", "POST /cancel"):
        method, _, tail = request.partition(" ")
        answer = queue.ask(method, f"/task-group/{group}{tail}")
        refused(answer, 404, "ResourceNotFound")
    body = {"newPriority": "high"}
    answer = queue.ask("POST", f"/task-group/{group}/priority", body)
    refused(answer, 404, "ResourceNotFound", "changeTaskGroupPriority")
