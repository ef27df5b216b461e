"""Make the calls of a table by the Python client; run in its own environment.

In: {"rootUrl", "credentials" (or null), "mode": "sync" or "async", "calls": [{"method",
"arguments", "query", "as", "until"}]}. A call that is made "as" the run has those of the newest
claim; one with "until" is repeated until the task is in that state.
Out: {"methods": all that the client has, "answers": of each call {"answer"}, {"error"}, or null
where the client has no such method}.
"""

import asyncio
import json
import sys
import time

import taskcluster
import taskcluster.aio

given = json.load(sys.stdin)
PATIENCE_S = 60
OPTIONS = {"rootUrl": given["rootUrl"], "maxRetries": 0}


class Caller:
    """The queue by one way of calling it, as itself and as the newest run."""

    def __init__(self, session=None):
        self._session = session
        self._clients = {"": self._client(given["credentials"]), "run": None}

    def _client(self, credentials):
        options = {**OPTIONS, "credentials": credentials or {}}
        if self._session is None:
            return taskcluster.Queue(options)
        return taskcluster.aio.Queue(options, session=self._session)

    async def __call__(self, call):
        method = getattr(self._clients[call["as"]], call["method"], None)
        if method is None:
            return None
        options = {"query": call["query"]} if call["query"] else {}
        deadline = time.monotonic() + PATIENCE_S
        try:
            while True:
                answer = method(*call["arguments"], **options)
                if self._session is not None:
                    answer = await answer
                is_there = not call["until"] or answer["status"]["state"] == call["until"]
                if is_there or time.monotonic() > deadline:
                    break
                await asyncio.sleep(0.05)
        except taskcluster.exceptions.TaskclusterRestFailure as error:
            return {"error": [error.status_code, error.body]}
        except taskcluster.exceptions.TaskclusterAuthFailure as error:
            return {"error": [401, error.body]}
        self._remember(answer)
        return {"answer": answer}

    def _remember(self, answer):
        of = answer if isinstance(answer, dict) else {}
        tasks = of.get("tasks") or [of]
        if isinstance(tasks[0], dict) and "takenUntil" in tasks[0]:
            self._clients["run"] = self._client(tasks[0]["credentials"])


async def main():
    if given["mode"] == "sync":
        caller = Caller()
        return [await caller(call) for call in given["calls"]]
    async with taskcluster.aio.createSession() as session:
        caller = Caller(session)
        return [await caller(call) for call in given["calls"]]


answers = asyncio.run(main())
said = {"methods": sorted(taskcluster.Queue.funcinfo), "answers": answers}
json.dump(said, sys.stdout, default=bytes.decode)
