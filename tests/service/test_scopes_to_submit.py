"""One rule says which scopes a submit takes, and every request that submits asks for them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import httpx
import pytest

from andon import Andon
from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.engine.schedule_requests import ScheduleRequest
from andon.model.fleet import TypeInfo
from andon.model.recurrence import Recurrence
from andon.service.trust.access import OPEN

from .kit import Running, serving, with_values

NEEDED = ("tasks:create:q", "deploy:x", "tasks:change:q")
"""For a task of that queue and with that scope, which supersedes the holder of its unique key."""

HELD: dict[str, Any] = {"unique_key": "u", "on_held": "supersede"}
TASK: dict[str, Any] = {"name": "job", "queue": "q", "scopes": ["deploy:x"]}
HELD_TASK = TASK | HELD
NEW = {"id": "{new}"}
REPORT = {"token": "{run}", "outcome": "completed", "result": 1}
EVERY = {"recurrence": {"every": 60}}
RANGE = {"start": 1_700_000_000_000, "end": 1_700_000_060_000}


@dataclass(frozen=True)
class Kind:
    """One kind of request that submits tasks, and the scopes that it takes."""

    path: str
    body: Any
    needed: tuple[str, ...] = NEEDED
    method: str = "POST"


KINDS = {
    "submit": Kind("/api/v1/tasks", HELD_TASK),
    "bulk": Kind("/api/v1/bulk", {"tasks": [HELD_TASK]}),
    "a flow's tasks": Kind(
        "/api/v1/bulk",
        {"tasks": [{"name": "p", "queue": "q", **NEW}, TASK | {"depends_on": ["{new}"]}]},
        NEEDED[:2],
    ),
    "another engine's submit": Kind("/api/v1/engine/submit", [HELD_TASK | NEW]),
    "a job": Kind("/api/v1/jobs", {"type": "job"}, ("tasks:create:default",)),
    "follow-ups of a run": Kind(
        "/api/v1/runs/report", {"reports": [REPORT | {"follow_ups": [HELD_TASK]}]}
    ),
    "follow-ups of another engine's run": Kind(
        "/api/v1/engine/report",
        [{"token": "{run}", "event": "complete", "follow_ups": [HELD_TASK | NEW]}],
    ),
    "edit": Kind("/api/v1/tasks/{task}/edit", {"args": {"a": 2}}),
    "another engine's edit": Kind(
        "/api/v1/engine/edit", {"id": "{task}", "args": "e30=", "successor": "{new}"}
    ),
    "a new schedule": Kind(
        "/api/v1/schedules/{new}", {"every": 60, "task": TASK}, NEEDED[:2], "PUT"
    ),
    "another engine's new schedule": Kind(
        "/api/v1/engine/put_schedules",
        {"how": "add", "requests": [{"name": "{new}", "task": TASK | {"id": ""}, **EVERY}]},
        NEEDED[:2],
    ),
    "another schedule in its place": Kind(
        "/api/v1/schedules/{schedule}", {"every": 60, "task": TASK}, method="PUT"
    ),
    "a backfill": Kind("/api/v1/schedules/{schedule}/backfill", RANGE),
    "another engine's backfill": Kind(
        "/api/v1/engine/backfill_schedule", {"name": "{schedule}", **RANGE}
    ),
}


def _of_type(body: Any) -> Any:
    """The same request, whose tasks name no queue: theirs is that of their type."""
    if isinstance(body, list):
        return [_of_type(item) for item in body]
    if not isinstance(body, dict):
        return body
    if body.get("queue") == "q":
        body = {name: value for name, value in body.items() if name != "queue"}
        body |= {"name": "typed", **({"unique_key": "v"} if "unique_key" in body else {})}
    return {name: _of_type(value) for name, value in body.items()}


KINDS |= {
    f"{name}, by their type": replace(kind, body=_of_type(kind.body))
    for name, kind in list(KINDS.items())
    if _of_type(kind.body) != kind.body
}
KINDS["a job, by its type"] = Kind("/api/v1/jobs", {"type": "typed"}, ("tasks:create:q",))


class World:
    """A service that asks for tokens, and what requests to it name."""

    def __init__(self, running: Running, http: httpx.Client) -> None:
        self.running = running
        self.http = http
        self._numbers = count()
        self._tokens: dict[tuple[str, ...], str] = {}

    def new(self) -> str:
        return f"n{next(self._numbers)}"

    def task(self, queue: str = "q") -> str:
        task_id = self.new()
        task = Submission(
            id=task_id,
            name="job",
            queue=queue,
            scopes=("deploy:x",),
            unique_key=task_id,
            on_held="supersede",
        )
        self.running.call(self.running.service.engine.submit([task]))
        return task_id

    def schedule(self) -> str:
        task = Submission(id="", name="job", queue="q", scopes=("deploy:x",))
        request = ScheduleRequest(name=self.new(), recurrence=Recurrence(every=9), task=task)
        self.running.call(self.running.service.engine.schedules.put([request], "add"))
        return request.name

    def run(self) -> str:
        queue = self.new()
        self.task(queue)
        request = ClaimRequest(worker="w", token=queue, queues=(queue,), limit=1, lease_ms=60_000)
        [token] = self.running.call(
            self.running.service.runs.claim(OPEN, request, lambda _, token: token)
        )
        return token

    def send(self, kind: Kind, *scopes: str) -> httpx.Response:
        """Send such a request with a token that has these scopes."""
        if scopes not in self._tokens:
            made = self.running.service.access.registry.create("t", scopes or ("none",))
            self._tokens[scopes], _ = self.running.call(made)
        token = self._tokens[scopes]
        said = {"{new}": self.new()}
        for name, make in (("task", self.task), ("schedule", self.schedule), ("run", self.run)):
            if f"{{{name}}}" in f"{kind.path} {kind.body}":
                said[f"{{{name}}}"] = make()
        path = kind.path
        for name, value in said.items():
            path = path.replace(name, value)
        headers = {"Authorization": f"Bearer {token}"}
        body = with_values(kind.body, said)
        return self.http.request(kind.method, path, json=body, headers=headers)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    url = f"sqlite:///{tmp_path_factory.mktemp('scopes')}/tasks.db"
    with serving(Andon(url)) as running, running.client() as http:
        published = [TypeInfo(name="typed", queue="q")]
        running.call(running.service.engine.publish_types(published))
        yield World(running, http)


@pytest.mark.parametrize("name", KINDS)
def test_whoever_submits_needs_every_scope_that_the_rule_names(world: World, name: str):
    kind = KINDS[name]
    allowed = world.send(kind, *kind.needed)
    assert allowed.status_code in (200, 201), allowed.text
    assert '"error":{' not in allowed.text
    for lacking in kind.needed:
        refused = world.send(kind, *(scope for scope in kind.needed if scope != lacking))
        assert f'"scope":"{lacking}"' in refused.text, refused.text
