"""Call every route of the queue by the Python client; run in its own environment.

In: {"rootUrl", "credentials" (or null), "mode": "sync" or "async", "ids", "queue", "times"}.
Out: what each step was answered, by name.
"""

import asyncio
import json
import sys

import taskcluster
import taskcluster.aio

given = json.load(sys.stdin)
OPTIONS = {"rootUrl": given["rootUrl"], "maxRetries": 1}
A, B, C, GROUP, UNKNOWN = given["ids"]
QUEUE = given["queue"]
WORKER = {"workerGroup": "group", "workerId": "w-1"}
LATER = given["times"]["deadline"]
said = {}


def definition(**fields):
    return {
        "provisionerId": QUEUE.split("/")[0],
        "workerType": QUEUE.split("/")[1],
        "schedulerId": "sched",
        "taskGroupId": GROUP,
        **given["times"],
        "payload": {"text": "π", "list": [1, None]},
        "metadata": {"name": "n", "description": "d", "owner": "o", "source": "https://x"},
        **fields,
    }


class Client:
    """The queue by one way of calling it."""

    def __init__(self, credentials, session=None):
        options = {**OPTIONS, "credentials": credentials or {}}
        self._sync = session is None
        if self._sync:
            self._queue = taskcluster.Queue(options)
        else:
            self._queue = taskcluster.aio.Queue(options, session=session)

    async def __call__(self, method, *arguments, **options):
        answer = getattr(self._queue, method)(*arguments, **options)
        return answer if self._sync else await answer

    async def fails(self, method, *arguments):
        try:
            await self(method, *arguments)
        except taskcluster.exceptions.TaskclusterRestFailure as error:
            body = getattr(error, "body", {})
            return [error.status_code, body.get("code"), body["requestInfo"]["method"]]
        except taskcluster.exceptions.TaskclusterAuthFailure as error:
            return [401, error.body.get("code"), error.body["requestInfo"]["method"]]
        return None


async def pages(queue, rows, method, *arguments, **options):
    """The rows of a list, page by page of two."""
    found = []
    collect = found.append
    await queue(method, *arguments, paginationHandler=collect, paginationLimit=2, **options)
    said[f"{method} pages"] = [len(page[rows]) for page in found]
    return [row for page in found for row in page[rows]]


async def pending(queue, task_id):
    """Wait until a task has been released by the end of what it depends on."""
    for _ in range(1_000):
        if (await queue("status", task_id))["status"]["state"] == "pending":
            return
        await asyncio.sleep(0.05)


async def calls(queue, as_client):
    said["ping"] = await queue("ping")
    said["version"] = sorted(await queue("version"))
    said["heartbeat"] = [await queue("heartbeat"), await queue("lbheartbeat")]
    created = await queue("createTask", A, definition())
    said["created"] = created["status"]["state"]
    said["again"] = (await queue("createTask", A, definition())) == created
    said["other"] = await queue.fails("createTask", A, definition(retries=1))
    said["malformed"] = await queue.fails("createTask", B, definition(priority="normal"))
    said["wrong"] = await queue.fails("createTask", B, definition(taskQueueId="other/queue"))
    said["task"] = await queue("task", A)
    said["not found"] = await queue.fails("status", UNKNOWN)
    said["bad id"] = await queue.fails("task", "not an id")
    await queue("createTask", B, definition(dependencies=[B]))
    await queue("createTask", C, definition(dependencies=[A], priority="very-high"))
    said["blocked"] = (await queue("status", B))["status"]["state"]
    said["group"] = [
        row["status"]["taskId"] for row in await pages(queue, "tasks", "listTaskGroup", GROUP)
    ]
    listed = {"taskIds": [A, UNKNOWN, B, C]}
    said["tasks"] = [row["taskId"] for row in await pages(queue, "tasks", "tasks", payload=listed)]
    said["statuses"] = [
        row["status"]["state"] for row in await pages(queue, "statuses", "statuses", payload=listed)
    ]
    said["counts"] = await queue("taskQueueCounts", QUEUE)
    said["pending"] = (await queue("pendingTasks", QUEUE))["pendingTasks"]
    said["batch"] = await queue("taskQueueCountsBatch", {"taskQueueIds": [QUEUE]})

    [claim] = (await queue("claimWork", QUEUE, {**WORKER, "tasks": 4}))["tasks"]
    said["claimed"] = [claim["status"]["taskId"], claim["runId"], claim["task"]["payload"]]
    run = as_client(claim["credentials"])
    again = await run("reclaimTask", A, "0")
    said["reclaimed"] = again["takenUntil"] >= claim["takenUntil"]
    run = as_client(again["credentials"])
    said["completed"] = (await run("reportCompleted", A, "0"))["status"]["state"]
    said["completed again"] = (await run("reportCompleted", A, "0"))["status"]["state"]
    said["then failed"] = await run.fails("reportFailed", A, "0")

    await pending(queue, C)
    [claim] = (await queue("claimWork", QUEUE, WORKER))["tasks"]
    said["dependent"] = claim["status"]["taskId"]
    run = as_client(claim["credentials"])
    reason = {"reason": "intermittent-task"}
    retried = (await run("reportException", C, "0", reason))["status"]
    said["retried"] = [retried["state"], retried["retriesLeft"], len(retried["runs"])]
    said["exception again"] = (await run("reportException", C, "0", reason))["status"]["state"]
    said["other exception"] = await run.fails(
        "reportException", C, "0", {"reason": "worker-shutdown"}
    )
    said["cancelled"] = (await queue("cancelTask", C))["status"]["state"]
    said["lost"] = await run.fails("reclaimTask", C, "1")
    said["rerun"] = (await queue("rerunTask", C))["status"]["state"]
    [claim] = (await queue("claimWork", QUEUE, WORKER))["tasks"]
    run = as_client(claim["credentials"])
    number = str(claim["runId"])
    said["failed"] = (await run("reportFailed", C, number))["status"]["state"]
    said["scheduled"] = (await queue("scheduleTask", B))["status"]["state"]
    said["empty"] = await queue("claimWork", "nobody/home", WORKER)
    await workers(queue)


async def workers(queue):
    """What is known of workers and queues, by now that one has claimed."""
    of = QUEUE.split("/")
    one = [*of, WORKER["workerGroup"], WORKER["workerId"]]
    worker = await queue("getWorker", *one)
    said["recent"] = worker["recentTasks"]
    said["declared"] = await queue("declareWorker", *one[:3], "w-2", {"expires": LATER})
    said["listed"] = await pages(queue, "workers", "listWorkers", *of)
    body = {"quarantineUntil": LATER, "quarantineInfo": "odd"}
    held = await queue("quarantineWorker", *one, body)
    said["quarantined"] = [held["quarantineUntil"], held["quarantineDetails"][0]["quarantineInfo"]]
    said["in quarantine"] = await queue("listWorkers", *of, query={"quarantined": "true"})
    said["free"] = await queue("listWorkers", *of, query={"quarantined": "false"})
    said["no worker"] = await queue.fails("getWorker", *one[:3], "nobody")
    said["no quarantine"] = await queue.fails("quarantineWorker", *one[:3], "nobody", body)
    said["bad worker"] = await queue.fails("getWorker", *one[:3], "a b")
    held = await queue("listPendingTasks", QUEUE)
    said["held"] = [(row["taskId"], row["runId"]) for row in held["tasks"]]
    said["nothing"] = await queue("claimWork", QUEUE, WORKER)
    await queue("claimWork", QUEUE, {**WORKER, "workerId": "w-2"})
    running = await queue("listClaimedTasks", QUEUE)
    said["running"] = [(row["taskId"], row["workerId"]) for row in running["tasks"]]
    said["queue"] = await queue("getTaskQueue", QUEUE)
    said["queues"] = await pages(queue, "taskQueues", "listTaskQueues")
    said["provisioner"] = await queue("getProvisioner", of[0])
    said["provisioners"] = await pages(queue, "provisioners", "listProvisioners")
    said["worker type"] = await queue("getWorkerType", *of)
    said["worker types"] = await pages(queue, "workerTypes", "listWorkerTypes", of[0])


async def main():
    if given["mode"] == "sync":
        await calls(Client(given["credentials"]), Client)
        return
    async with taskcluster.aio.createSession() as session:
        await calls(Client(given["credentials"], session), lambda one: Client(one, session))


asyncio.run(main())
json.dump(said, sys.stdout)
