"""Every method that a client has for the queue, called at least once: a table of calls in their
order, and what each must be answered."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from .kit import HOUR, at, definition, own_queue, slugid

Check = Callable[[Any], object]


class Call(NamedTuple):
    """One call, and what it must be answered."""

    method: str
    arguments: tuple[Any, ...] = ()
    check: Check | None = None  #: what must hold of a good answer
    refused: tuple[int, str] | None = None  #: else status and code
    query: dict[str, str] | None = None
    by_run: bool = False  #: with the credentials of the newest claim
    until: str = ""  #: repeated until the task is in this state: it comes there by itself
    raw: bool = False  #: the answer is not in the shape of the route's: an error artifact, 204


WORKER = {"workerGroup": "group", "workerId": "w-1"}


def ids(rows: Any) -> set[str]:
    """The tasks of a list."""
    return {row["taskId"] if "taskId" in row else row["status"]["taskId"] for row in rows}


def status(state: str, **fields: Any) -> Check:
    """That the status has this state and these fields."""

    def check(answer: Any) -> bool:
        told = answer["status"]
        return (told["state"], {name: told[name] for name in fields}) == (state, fields)

    return check


def artifact(kind: str, **fields: Any) -> dict[str, Any]:
    return {"storageType": kind, "expires": at(HOUR), **fields}


def table_of_calls() -> list[Call]:
    """The calls, with ids, queues and times of their own."""
    later = at(HOUR)
    a, b, c, group = (slugid() for _ in range(4))
    queue, empty = own_queue(), own_queue()
    of = tuple(queue.split("/"))
    whole = definition(
        taskQueueId=queue,
        taskGroupId=group,
        schedulerId="sched",
        deadline=at(timedelta(hours=2)),
        tags={"kind": "test"},
        scopes=["queue:status:*"],
    )
    after = {**whole, "dependencies": [a]}
    text = "text/plain"
    url = "https://example.org/log"
    return [
        Call("ping", (), lambda said: said["alive"] is True),
        Call("version", (), lambda said: said["version"]),
        Call("heartbeat", (), lambda said: said == {}),
        Call("lbheartbeat", (), lambda said: said == {}),
        # Tasks and their group.
        Call("createTask", (a, whole), status("pending", priority="lowest")),
        Call("createTask", (a, whole), status("pending")),
        Call("createTask", (a, {**whole, "retries": 1}), refused=(409, "RequestConflict")),
        Call("createTask", (b, {**whole, "colour": 1}), refused=(400, "InputValidationError")),
        Call("createTask", (b, {**whole, "scopes": ["a**"]}), refused=(400, "InputError")),
        Call("createTask", (b, after), status("unscheduled")),
        Call("task", (a,), lambda said: said["tags"] == {"kind": "test"}),
        Call("task", (c,), refused=(404, "ResourceNotFound")),
        Call("task", ("x",), refused=(400, "InvalidRequestArguments")),
        Call("status", (b,), status("unscheduled", taskGroupId=group)),
        Call("tasks", ({"taskIds": [a, b, c]},), lambda said: ids(said["tasks"]) == {a, b}),
        Call("statuses", ({"taskIds": [a, c]},), lambda said: ids(said["statuses"]) == {a}),
        Call("listDependentTasks", (a,), lambda said: ids(said["tasks"]) == {b}),
        Call("listTaskGroup", (group,), lambda said: ids(said["tasks"]) == {a, b}),
        Call(
            "listTaskGroup",
            (group,),
            lambda said: "continuationToken" in said,
            query={"limit": "1"},
        ),
        Call(
            "listTaskGroup",
            (group,),
            query={"continuationToken": "x"},
            refused=(400, "InputError"),
        ),
        Call("getTaskGroup", (group,), lambda said: "sealed" not in said),
        Call("getTaskGroup", (slugid(),), refused=(404, "ResourceNotFound")),
        Call(
            "changeTaskPriority", (a, {"newPriority": "high"}), status("pending", priority="high")
        ),
        Call(
            "changeTaskPriority", (a, {"newPriority": "x"}), refused=(400, "InputValidationError")
        ),
        Call(
            "changeTaskGroupPriority",
            (group, {"newPriority": "low"}),
            lambda said: (said["tasksAffected"], set(said["taskIds"])) == (2, {a, b}),
        ),
        # Counts, lists, claims.
        Call("pendingTasks", (queue,), lambda said: said["pendingTasks"] == 1),
        Call("listPendingTasks", (queue,), lambda said: ids(said["tasks"]) == {a}),
        Call("claimWork", (queue, {**WORKER, "tasks": 4}), lambda said: ids(said["tasks"]) == {a}),
        Call("claimWork", (empty, WORKER), lambda said: said == {"tasks": []}),
        Call("claimTask", (a, "0", WORKER), refused=(404, "ResourceNotFound")),
        Call("listClaimedTasks", (queue,), lambda said: ids(said["tasks"]) == {a}),
        Call("taskQueueCounts", (queue,), lambda said: said["claimedTasks"] == 1),
        Call(
            "taskQueueCountsBatch",
            ({"taskQueueIds": [queue, empty]},),
            lambda said: [one["claimedTasks"] for one in said["taskQueueCounts"]] == [1, 0],
        ),
        # What the run leaves behind.
        Call(
            "createArtifact",
            (a, "0", "public/a b.txt", artifact("s3", contentType=text)),
            lambda said: said["contentType"] == text,
            by_run=True,
        ),
        Call(
            "createArtifact",
            (a, "0", "public/log", artifact("reference", contentType=text, url=url)),
            by_run=True,
        ),
        Call(
            "createArtifact",
            (a, "0", "public/same", artifact("link", artifact="public/log")),
            by_run=True,
        ),
        Call(
            "createArtifact",
            (a, "0", "public/same", artifact("link", artifact="public/other")),
            refused=(409, "RequestConflict"),
            by_run=True,
        ),
        Call(
            "createArtifact",
            (a, "0", "lost", artifact("error", reason="file-missing-on-worker", message="gone")),
            by_run=True,
        ),
        Call(
            "createArtifact",
            (a, "0", "public/object", artifact("object", contentType=text)),
            refused=(400, "InputError"),
            by_run=True,
        ),
        Call(
            "finishArtifact",
            (a, "0", "public/log", {"uploadId": slugid()}),
            refused=(400, "InputError"),
            by_run=True,
        ),
        Call("listArtifacts", (a, "0"), lambda said: len(said["artifacts"]) == 4),
        Call("listLatestArtifacts", (a,), lambda said: len(said["artifacts"]) == 4),
        Call("artifactInfo", (a, "0", "public/a b.txt"), lambda said: said["storageType"] == "s3"),
        Call("latestArtifactInfo", (a, "lost"), lambda said: said["storageType"] == "error"),
        Call("artifact", (a, "0", "public/same"), lambda said: said["url"] == url),
        Call("latestArtifact", (a, "lost"), lambda said: said["message"] == "gone"),
        Call("artifact", (a, "0", "public/none"), refused=(404, "ResourceNotFound")),
        Call("getArtifact", (a, "0", "public/log"), lambda said: said["url"] == url),
        Call("getLatestArtifact", (a, "public/same"), lambda said: said["url"] == url),
        Call("getArtifact", (a, "0", "lost"), refused=(424, ""), raw=True),
        # How runs end.
        Call("reclaimTask", (a, "0"), lambda said: said["runId"] == 0, by_run=True),
        Call("reportCompleted", (a, "0"), status("completed"), by_run=True),
        Call("reportFailed", (a, "0"), refused=(409, "RequestConflict"), by_run=True),
        Call("status", (b,), status("pending"), until="pending"),
        Call("claimWork", (queue, WORKER), lambda said: ids(said["tasks"]) == {b}),
        Call(
            "reportException",
            (b, "0", {"reason": "intermittent-task"}),
            status("pending", retriesLeft=4),
            by_run=True,
        ),
        Call("claimWork", (queue, WORKER), lambda said: said["tasks"][0]["runId"] == 1),
        Call("reportFailed", (b, "1"), status("failed"), by_run=True),
        Call("rerunTask", (b,), status("pending")),
        Call("scheduleTask", (b,), status("pending")),
        Call("cancelTask", (b,), status("exception")),
        Call("cancelTaskGroup", (group,), refused=(409, "RequestConflict")),
        Call("createTask", (c, whole), status("pending")),
        Call("sealTaskGroup", (group,), lambda said: said["sealed"]),
        Call("createTask", (slugid(), whole), refused=(409, "RequestConflict")),
        Call("cancelTaskGroup", (group,), lambda said: said["taskIds"] == [c]),
        # Workers and queues.
        Call("getWorker", (*of, "group", "w-1"), lambda said: len(said["recentTasks"]) == 3),
        Call("getWorker", (*of, "group", "w-2"), refused=(404, "ResourceNotFound")),
        Call("declareWorker", (*of, "group", "w-2", {"expires": later})),
        Call("listWorkers", of, lambda said: len(said["workers"]) == 2),
        Call(
            "quarantineWorker",
            (*of, "group", "w-2", {"quarantineUntil": later, "quarantineInfo": "odd"}),
            lambda said: said["quarantineDetails"][0]["quarantineInfo"] == "odd",
        ),
        Call(
            "listWorkers",
            of,
            lambda said: [one["workerId"] for one in said["workers"]] == ["w-2"],
            query={"quarantined": "true"},
        ),
        Call("listTaskQueues", (), lambda said: said["taskQueues"]),
        Call("getTaskQueue", (queue,), lambda said: said["taskQueueId"] == queue),
        Call("listProvisioners", (), lambda said: said["provisioners"]),
        Call("getProvisioner", of[:1], lambda said: said["provisionerId"] == of[0]),
        Call("listWorkerTypes", of[:1], lambda said: said["workerTypes"]),
        Call("getWorkerType", of, lambda said: said["taskQueueId"] == queue),
        # What the original has given up, and older clients still have.
        Call("declareProvisioner", (of[0], {}), refused=(404, "ResourceNotFound")),
        Call("declareWorkerType", (*of, {}), refused=(404, "ResourceNotFound")),
    ]
