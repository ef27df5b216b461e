"""Send requests by the Python client, signed in every way it can; run in its own environment.

In: {"rootUrl", "clientId", "accessToken", "taskId", "seconds"}. Out: the names of what was sent.
"""

import asyncio
import datetime
import json
import sys
import urllib.request

import taskcluster
import taskcluster.aio

given = json.load(sys.stdin)
ROOT, TASK = given["rootUrl"], given["taskId"]
OWN = {"clientId": given["clientId"], "accessToken": given["accessToken"]}
SCOPES = ["queue:get-task:*", "queue:create-task:lowest:a b/c", "assume:worker"]
sent = []


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def temporary(name=None):
    start = datetime.datetime.now(datetime.UTC)
    made = taskcluster.createTemporaryCredentials(
        start=start,
        expiry=start + datetime.timedelta(seconds=given["seconds"]),
        scopes=SCOPES,
        name=name,
        **OWN,
    )
    return {key: text(value) for key, value in made.items()}


def options(credentials, **more):
    return {"rootUrl": ROOT, "credentials": credentials, "maxRetries": 0, **more}


WAYS = {
    "own": options(OWN),
    "restricted": options(OWN, authorizedScopes=["queue:get-task:*"]),
    "temporary": options(temporary()),
    "named": options(temporary("somebody/else")),
    "named-restricted": options(temporary("somebody/else"), authorizedScopes=["queue:get-task:x"]),
}


def by_sync():
    taskcluster.Queue(options({})).task(TASK)
    sent.append("sync none get")
    for way, given_options in WAYS.items():
        queue = taskcluster.Queue(given_options)
        queue.task(TASK)
        queue.createTask(TASK, {"metadata": {"name": "π"}})
        queue.listTaskGroup("a/b c", query={"limit": "3"})
        sent.extend([f"sync {way} get", f"sync {way} put", f"sync {way} query"])
        url = queue.buildSignedUrl("getLatestArtifact", TASK, "public/a b.txt")
        urllib.request.urlopen(url).close()
        sent.append(f"sync {way} bewit")


async def by_async():
    async with taskcluster.aio.createSession() as session:
        for way, given_options in WAYS.items():
            queue = taskcluster.aio.Queue(given_options, session=session)
            await queue.task(TASK)
            await queue.createTask(TASK, {"metadata": {"name": "π"}})
            sent.extend([f"async {way} get", f"async {way} put"])


by_sync()
asyncio.run(by_async())
json.dump(sent, sys.stdout)
