"""Definitions, ids, and what every answer of the face must look like."""

import base64
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
from tests.service.kit import Running

QUEUE = "proj-gecko/linux-large"
ENCODED = "proj-gecko%2Flinux-large"
WORKER = {"workerGroup": "us-east", "workerId": "i-0a1b"}
BASE = "/api/queue/v1"
HOUR = timedelta(hours=1)

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")


def slugid() -> str:
    """An id as the clients make them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes)[:22].decode()


def own_queue() -> str:
    """The id of a task queue that no other test has."""
    return f"proj/q{uuid.uuid4().hex}"


def at(offset: timedelta = timedelta()) -> str:
    """A time, so far from now."""
    return (datetime.now(UTC) + offset).isoformat(timespec="milliseconds")[:-6] + "Z"


def definition(**fields: Any) -> dict[str, Any]:
    """A task's definition; a field that is None is left out."""
    whole = {
        "taskQueueId": QUEUE,
        "created": at(),
        "deadline": at(HOUR),
        "payload": {"command": ["true"], "maxRunTime": 600},
        "metadata": {
            "name": "a task",
            "description": "of the tests",
            "owner": "nobody@example.com",
            "source": "https://example.com/tasks",
        },
    }
    return {k: v for k, v in {**whole, **fields}.items() if v is not None}


def is_time(text: object) -> bool:
    """Whether it is a time as answers write them."""
    return isinstance(text, str) and _TIME.match(text) is not None


def refused(
    answer: httpx.Response, status: int, code: str, method: str | None = None
) -> dict[str, Any]:
    """The error that the answer must be, in the shape that every error has."""
    assert answer.status_code == status, answer.text[:2_000]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store no-cache must-revalidate"
    error = answer.json()
    assert set(error) == {"code", "message", "requestInfo"}
    assert error["code"] == code, error
    info = error["requestInfo"]
    assert set(info) == {"method", "params", "payload", "time"}
    assert is_time(info["time"])
    assert isinstance(info["params"], dict)
    assert isinstance(info["payload"], dict | list)
    told, line, footer = error["message"].partition("\n\n---\n\n")
    assert told
    assert line
    assert f"errorCode:  {code}" in footer
    assert f"statusCode: {status}" in footer
    if method is not None:
        assert info["method"] == method
        assert f"method:     {method}\n" in footer
    return error


@contextmanager
def nothing_moves(running: Running) -> Iterator[None]:
    """Holds that no task is created and none moves while the block lasts."""
    store = running.service.engine.store
    before = running.call(store.events_end())
    yield
    assert running.call(store.events_end()) == before, "a task has moved"


class Queue:
    """The face as a client without signatures, for what the tests say most often, and one of its
    task queues."""

    def __init__(self, http: httpx.Client, name: str = QUEUE) -> None:
        self.http = http
        self.name = name  #: of the task queue

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """Send one request; `body` as JSON, if there is one."""
        if body is not None:
            options["json"] = body
        return self.http.request(method, BASE + path, **options)

    def answer(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The document of an answer that must be good."""
        answer = self.ask(method, path, body, **options)
        assert answer.status_code == 200, answer.text[:2_000]
        assert answer.headers["cache-control"] == "no-store no-cache must-revalidate"
        return answer.json()

    def create(self, task_id: str = "", **fields: Any) -> str:
        """Create a task; its id."""
        task_id = task_id or slugid()
        self.answer("PUT", f"/task/{task_id}", definition(**{"taskQueueId": self.name, **fields}))
        return task_id

    def status(self, task_id: str) -> dict[str, Any]:
        """The status of a task."""
        return self.answer("GET", f"/task/{task_id}/status")["status"]

    def state(self, task_id: str) -> str:
        """The state of a task."""
        return self.status(task_id)["state"]

    def act(self, task_id: str, act: str) -> dict[str, Any]:
        """Schedule, rerun or cancel a task; its status."""
        return self.answer("POST", f"/task/{task_id}/{act}")["status"]

    def claim(self, tasks: int = 1, queue: str = "", **worker: Any) -> list[dict[str, Any]]:
        """Claim tasks of a queue, by default its own."""
        body = {**WORKER, **worker, "tasks": tasks}
        path = f"/claim-work/{quote(queue or self.name, safe='')}"
        return self.answer("POST", path, body)["tasks"]

    def report(self, task_id: str, run: int, how: str, body: Any = None) -> httpx.Response:
        """Report a run."""
        return self.ask("POST", f"/task/{task_id}/runs/{run}/{how}", body)
