"""Every route with every wrong token, and with the one that is right for it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.engine.schedule_requests import ScheduleRequest
from andon.model.recurrence import Recurrence
from andon.service.app import ROUTERS
from andon.service.trust import runtokens
from andon.service.trust.access import OPEN
from andon.service.trust.registry import Registry

from .conftest import make_app
from .kit import Running, serving, with_values

if TYPE_CHECKING:
    from pathlib import Path

    from andon import Andon

PUBLIC, ANY, RUN, SIGNED = "public", "any", "run", "signed"
"""Needs no token; any valid one; the run token of the run in the path or body; a signature in the
path, for which no token is any good (test_signed_urls.py)."""


@dataclass(frozen=True)
class Route:
    """One route: the scope (or scopes) that it asks for, on the queue `q`, and a request that it
    takes."""

    needs: str
    body: Any = field(default_factory=dict)
    query: str = ""
    also: tuple[str, ...] = ()  #: scopes that it asks for besides


ENDLESS = {"application/x-ndjson", "text/event-stream", "text/event-stream; charset=utf-8"}
IDS = {"ids": ["{task}"]}
REPORT = [{"token": "{run_token}", "event": "complete", "fields": {}}]
CLAIM = {"worker": "w", "token": "t", "queues": ["q"], "limit": 1, "lease_ms": 5000}

ROUTES = {
    "POST /api/v1/tasks": Route("tasks:create:q", {"name": "add", "queue": "q", "args": {"a": 1}}),
    "GET /api/v1/tasks": Route("tasks:read:q", query="queue=q"),
    "GET /api/v1/tasks/{task_id:str}": Route("tasks:read:q"),
    "GET /api/v1/groups/{group:str}": Route("tasks:read:*"),
    "POST /api/v1/groups/{group:str}/seal": Route("tasks:change:*"),
    "GET /api/v1/tasks/{task_id:str}/dependents": Route("tasks:read:q"),
    "DELETE /api/v1/tasks/{task_id:str}": Route("tasks:change:q"),
    "POST /api/v1/tasks/{task_id:str}/cancel": Route("tasks:cancel:q"),
    "POST /api/v1/tasks/{task_id:str}/retry": Route("tasks:change:q"),
    "POST /api/v1/tasks/{task_id:str}/rerun": Route("tasks:change:q"),
    "POST /api/v1/tasks/{task_id:str}/run-now": Route("tasks:change:q"),
    "POST /api/v1/tasks/{task_id:str}/schedule": Route("tasks:change:q"),
    "POST /api/v1/tasks/{task_id:str}/reschedule": Route(
        "tasks:change:q", {"run_at": 4_000_000_000_000}
    ),
    "POST /api/v1/tasks/{task_id:str}/reprioritise": Route("tasks:change:q", {"priority": 1}),
    "POST /api/v1/tasks/{task_id:str}/archive": Route("tasks:change:q"),
    "POST /api/v1/tasks/{task_id:str}/edit": Route(
        "tasks:change:q tasks:create:q", {"args": {"a": 2}}
    ),
    "POST /api/v1/bulk": Route("tasks:create:q", {"tasks": [{"name": "add", "queue": "q"}]}),
    "POST /api/v1/acts": Route("tasks:cancel:q", {"action": "cancel", **IDS}),
    "GET /api/v1/schedules": Route("tasks:read:q", query="queue=q"),
    "GET /api/v1/schedules/{schedule:str}": Route("tasks:read:q"),
    "GET /api/v1/schedules/{schedule:str}/next": Route("tasks:read:q"),
    "PUT /api/v1/schedules/{schedule:str}": Route(
        "tasks:create:q tasks:change:q",
        {"every": 60, "task": {"name": "add", "queue": "q", "args": {"a": 1}}},
    ),
    "PATCH /api/v1/schedules/{schedule:str}": Route(
        "tasks:create:q tasks:change:q", {"every": 60}, also=("tasks:read:q",)
    ),
    "POST /api/v1/schedules/{schedule:str}/pause": Route("tasks:change:q"),
    "POST /api/v1/schedules/{schedule:str}/resume": Route("tasks:change:q"),
    "POST /api/v1/schedules/{schedule:str}/run": Route("tasks:change:q"),
    "POST /api/v1/schedules/{schedule:str}/backfill": Route(
        "tasks:change:q tasks:create:q", {"start": 1_700_000_000_000, "end": 1_700_000_060_000}
    ),
    "DELETE /api/v1/schedules/{schedule:str}": Route("tasks:change:q tasks:cancel:q"),
    "GET /api/v1/flows": Route("tasks:read:*"),
    "GET /api/v1/flows/{flow_id:str}": Route("tasks:read:*"),
    "POST /api/v1/flows/{flow_id:str}/cancel": Route("tasks:cancel:*"),
    "POST /api/v1/flows/{flow_id:str}/rerun": Route("tasks:change:*"),
    "GET /api/v1/dead-letters": Route("tasks:read:q", query="queue=q"),
    "GET /api/v1/dead-letters/groups": Route("tasks:read:q", query="queue=q"),
    "POST /api/v1/dead-letters/resubmit": Route("tasks:change:q", {"filter": {"queue": "q"}}),
    "POST /api/v1/dead-letters/purge": Route("tasks:change:q", {"filter": {"queue": "q"}}),
    "GET /api/v1/queues": Route("queues:read:*"),
    "GET /api/v1/queues/{name:str}": Route("queues:read:q"),
    "PATCH /api/v1/queues/{name:str}": Route("queues:manage:q", {"weight": 2}),
    "GET /api/v1/queues/{name:str}/pending": Route("queues:read:q"),
    "GET /api/v1/queues/{name:str}/history": Route("queues:read:q"),
    "POST /api/v1/queues/{name:str}/pause": Route("queues:manage:q"),
    "POST /api/v1/queues/{name:str}/resume": Route("queues:manage:q"),
    "POST /api/v1/queues": Route("queues:manage:q", {"name": "q"}),
    "POST /api/v1/queues/{name:str}/purge": Route("tasks:change:q", also=("tasks:cancel:q",)),
    "DELETE /api/v1/queues/{name:str}": Route("queues:manage:q", also=("tasks:change:q",)),
    "GET /api/v1/policies": Route("queues:read:*"),
    "GET /api/v1/policies/{name:str}": Route("queues:read:*"),
    "PUT /api/v1/policies/{name:str}": Route("queues:manage:*", {"max_retries": 2}),
    "DELETE /api/v1/policies/{name:str}": Route("queues:manage:*"),
    "GET /api/v1/alerts": Route("admin:alerts"),
    "GET /api/v1/alerts/preview": Route("admin:alerts"),
    "PUT /api/v1/alerts": Route("admin:alerts", {"rules": {}}, query="dry_run=true"),
    "PUT /api/v1/alerts/rules/{name:str}": Route("admin:alerts", {"when": "new-error"}),
    "PATCH /api/v1/alerts/rules/{name:str}": Route("admin:alerts", {"when": "lost-worker"}),
    "DELETE /api/v1/alerts/rules/{name:str}": Route("admin:alerts"),
    "PUT /api/v1/alerts/targets/{name:str}": Route(
        "admin:alerts", {"how": "chat", "url": "http://127.0.0.1:1/"}
    ),
    "POST /api/v1/alerts/targets/{name:str}/test": Route("admin:alerts"),
    "DELETE /api/v1/alerts/targets/{name:str}": Route("admin:alerts"),
    "GET /api/v1/events": Route("tasks:read:q", query="queue=q"),
    "GET /api/v1/events/stream": Route("tasks:read:q", query="queue=q"),
    "POST /api/v1/jobs": Route("tasks:create:default", {"type": "add", "params": {"a": 1}}),
    "GET /api/v1/jobs/{job_id:str}": Route("tasks:read:q"),
    "DELETE /api/v1/jobs/{job_id:str}": Route("tasks:cancel:q"),
    "POST /api/v1/runs/claim": Route("queues:claim:q", {"worker": "w", "queues": ["q"]}),
    "POST /api/v1/runs/renew": Route(RUN, {"runs": [{"token": "{run_token}"}]}),
    "POST /api/v1/runs/report": Route(
        RUN, {"reports": [{"token": "{run_token}", "outcome": "released"}]}
    ),
    "POST /api/v1/runs/{task_id:str}/{number:str}/renew": Route(RUN),
    "POST /api/v1/runs/{task_id:str}/{number:str}/report": Route(RUN, {"outcome": "released"}),
    "GET /api/v1/runs/{task_id:str}/{number:str}/dependencies": Route(RUN),
    "PUT /api/v1/runs/{task_id:str}/{number:str}/artifacts/{name:str}": Route(RUN),
    "POST /api/v1/runs/{task_id:str}/{number:str}/artifacts/{name:str}": Route(RUN),
    "POST /api/v1/runs/{task_id:str}/{number:str}/logs": Route(RUN, {"lines": [{"text": "x"}]}),
    "GET /api/v1/tasks/{task_id:str}/artifacts": Route("tasks:read:q"),
    "GET /api/v1/tasks/{task_id:str}/artifacts/{name:str}": Route("tasks:read:q"),
    "GET /api/v1/tasks/{task_id:str}/artifacts/{name:str}/url": Route("tasks:read:q"),
    "GET /blobs/{opaque:str}": Route(SIGNED),
    "PUT /blobs/{opaque:str}": Route(SIGNED),
    "GET /api/v1/tasks/{task_id:str}/logs": Route("tasks:read:q"),
    "GET /api/v1/tasks/{task_id:str}/logs/stream": Route("tasks:read:q"),
    "POST /api/v1/engine/submit": Route(
        "tasks:create:q", [{"id": "{new}", "name": "add", "queue": "q"}]
    ),
    "POST /api/v1/engine/claim": Route("queues:claim:q", CLAIM),
    "POST /api/v1/engine/renew": Route(RUN, [{"token": "{run_token}", "lease_ms": 5000}]),
    "POST /api/v1/engine/report": Route(RUN, REPORT),
    "POST /api/v1/engine/report_bearing": Route(RUN, REPORT),
    "POST /api/v1/engine/dependencies": Route(RUN, {"token": "{run_token}"}),
    "POST /api/v1/engine/cancel": Route("tasks:cancel:q", IDS),
    "POST /api/v1/engine/retry": Route("tasks:change:q", IDS),
    "POST /api/v1/engine/act": Route("tasks:change:q", {**IDS, "event": "run-now"}),
    "POST /api/v1/engine/edit": Route(
        "tasks:change:q tasks:create:q", {"id": "{task}", "args": "e30=", "successor": "{new}"}
    ),
    "POST /api/v1/engine/put_schedules": Route(
        "tasks:create:q tasks:change:q",
        {
            "how": "edit",
            "requests": [
                {
                    "name": "{schedule}",
                    "recurrence": {"every": 60},
                    "task": {"id": "", "name": "add", "queue": "q"},
                }
            ],
        },
    ),
    "POST /api/v1/engine/act_on_schedules": Route(
        "tasks:change:q", {"names": ["{schedule}"], "act": "pause"}
    ),
    "POST /api/v1/engine/backfill_schedule": Route(
        "tasks:change:q tasks:create:q",
        {"name": "{schedule}", "start": 1_700_000_000_000, "end": 1_700_000_060_000},
    ),
    "POST /api/v1/engine/alerts": Route("admin:alerts", {"asks": "shown"}),
    "POST /api/v1/engine/get": Route("tasks:read:q", IDS),
    "POST /api/v1/engine/history": Route("tasks:read:q", IDS),
    "POST /api/v1/engine/claiming_workers": Route("queues:read:q", {"queue": "q"}),
    "POST /api/v1/engine/claiming_worker": Route("queues:read:q", {"queue": "q", "worker": "w"}),
    "POST /api/v1/engine/claimed_queues": Route("queues:read:*", {}),
    "POST /api/v1/engine/quarantine_worker": Route(
        "queues:manage:q", {"queue": "q", "worker": "w", "until": 1}
    ),
    "POST /api/v1/engine/group": Route("tasks:read:*", {"name": "build"}),
    "POST /api/v1/engine/seal_group": Route("tasks:change:*", {"name": "build"}),
    "POST /api/v1/engine/dependents": Route("tasks:read:q", {"id": "{task}"}),
    "POST /api/v1/engine/find": Route("tasks:read:q", {"queue": "q"}),
    "POST /api/v1/engine/events": Route("tasks:read:*", {"cursor": ""}),
    "POST /api/v1/engine/events_end": Route("tasks:read:*"),
    "POST /api/v1/engine/attend": Route("queues:claim:q", {"topics": ["ready:q"]}),
    "POST /api/v1/engine/stats": Route("queues:read:q"),
    "POST /api/v1/engine/queues": Route(ANY),
    "POST /api/v1/engine/configure_queue": Route(
        "queues:manage:q", {"name": "q", "changes": {"weight": 2}}
    ),
    "POST /api/v1/engine/letter_groups": Route("tasks:read:q", {"queue": "q", "look": 9}),
    "POST /api/v1/engine/minutes": Route("queues:read:q", {"name": "q", "minutes": 7}),
    "POST /api/v1/engine/acts": Route("admin:audit", {"limit": 5}),
    "POST /api/v1/engine/queue_history": Route("queues:read:q", {"queue": "q", "days": 7}),
    "POST /api/v1/engine/delete_queue": Route("queues:manage:q", {"name": "q"}),
    "POST /api/v1/engine/policies": Route("queues:read:*"),
    "POST /api/v1/engine/put_policy": Route(
        "queues:manage:*", {"name": "p", "options": {"max_retries": 2}}
    ),
    "POST /api/v1/engine/delete_policy": Route("queues:manage:*", {"name": "p"}),
    "POST /api/v1/engine/types": Route(ANY),
    "POST /api/v1/engine/publish_types": Route("types:publish", {"types": []}),
    "POST /api/v1/engine/keep_code": Route("queues:claim:q", {"types": [["job", 0]]}),
    "POST /api/v1/engine/waits": Route("queues:read:q"),
    "POST /api/v1/engine/workers": Route("workers:read"),
    "POST /api/v1/engine/put_worker": Route("queues:claim:q", {"id": "w"}),
    "POST /api/v1/engine/remove_worker": Route("queues:claim:q", {"ids": ["w"]}),
    "POST /api/v1/engine/end_runs": Route(
        "admin:workers tasks:change:q", {"worker": "w", "ids": ["{task}"]}
    ),
    "POST /api/v1/workers/remove": Route("admin:workers tasks:change:*", {"worker": "nobody"}),
    "POST /api/v1/engine/info": Route(ANY),
    "POST /api/v1/engine/partitions": Route(ANY),
    "GET /api/v1/minutes": Route("queues:read:q", query="queue=q"),
    "GET /api/v1/audit": Route("admin:audit"),
    "GET /api/v1/tokens": Route("admin:tokens"),
    "POST /api/v1/tokens": Route("admin:tokens", {"name": "n", "scopes": ["admin:tokens"]}),
    "DELETE /api/v1/tokens/{token_id:str}": Route("admin:tokens"),
    "GET /api/v1/workers": Route("workers:read"),
    "GET /api/v1/storage": Route("admin:storage"),
    "GET /api/v1/profiles": Route(ANY),
    "GET /healthz": Route(PUBLIC),
    "GET /readyz": Route(PUBLIC),
    "GET /metrics": Route("metrics:read"),
    "GET /openapi.json": Route(PUBLIC),
}

NAMES = sorted(ROUTES)
WRONG = (
    "none",
    "empty",
    "another scheme",
    "nonsense",
    "one letter of the secret wrong",
    "expired",
    "revoked",
    "a run token with one letter wrong",
    "a run token signed elsewhere",
    "the token of a run that has ended",
)
"""Answered 401 by every route that needs a token at all."""

NARROW = ("too narrow", "of another queue", "of a run whose task has no scopes")
"""Answered 403 by every route that needs a scope."""


class World:
    """A service that asks for tokens, tasks, runs, and tokens of every kind."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.service = running.service
        self.registry: Registry = self.service.access.registry
        self.client = running.client()
        self._numbers = count()
        self._made: dict[str, str] = {}

    def call(self, coroutine: Any) -> Any:
        return self.running.call(coroutine)

    def task(self, queue: str = "q") -> str:
        """A new pending task."""
        task_id = f"t{next(self._numbers)}"
        submission = Submission(id=task_id, name="add", queue=queue)
        self.call(self.service.engine.submit([submission]))
        return task_id

    def schedule(self) -> str:
        """A new schedule, whose tasks go to the queue `q`."""
        name = f"s{next(self._numbers)}"
        submission = Submission(id="", name="add", queue="q")
        request = ScheduleRequest(name=name, recurrence=Recurrence(every=86_400), task=submission)
        self.call(self.service.engine.schedules.put([request], "add"))
        return name

    def run(self) -> tuple[str, str]:
        """A task that a run holds, and that run's token."""
        queue = f"runs{next(self._numbers)}"
        task_id = self.task(queue)
        request = ClaimRequest(worker="w", token=task_id, queues=(queue,), limit=1, lease_ms=60_000)
        [(_, token)] = self.call(self.service.runs.claim(OPEN, request, lambda *run: run))
        return task_id, token

    def token(self, *scopes: str) -> str:
        """A token that is kept for its scopes, so that the registry stays small."""
        name = " ".join(scopes)
        if name not in self._made:
            self._made[name], _ = self.call(self.registry.create(name, scopes))
        return self._made[name]

    def send(
        self, name: str, header: str | None, task: str = "", run_token: str = ""
    ) -> httpx.Response:
        """Call a route; `task` is what its path and body name."""
        route = ROUTES[name]
        method, _, path = name.partition(" ")
        task = task or self.task()
        for part in ("{task_id:str}", "{job_id:str}", "{token_id:str}"):
            path = path.replace(part, task)
        schedule = self.schedule() if "{schedule" in f"{name} {route.body}" else ""
        path = path.replace("{schedule:str}", schedule)
        path = path.replace("{name:str}", "q").replace("{number:str}", "0")
        body = with_values(
            route.body,
            {
                "{schedule}": schedule,
                "{task}": task,
                "{new}": f"n{next(self._numbers)}",
                "{run_token}": run_token,
            },
        )
        headers = {} if header is None else {b"Authorization": header.encode("latin-1")}
        sent = None if method in {"GET", "DELETE"} else body
        url = f"{path}?{route.query}" if route.query else path
        with self.client.stream(method, url, json=sent, headers=headers) as reply:
            if not ENDLESS.intersection({reply.headers.get("content-type")}):
                reply.read()
            return reply

    def wrong(self, kind: str) -> str | None:
        """An Authorization header that is wrong in this way."""
        if kind == "none":
            return None
        if kind == "empty":
            return "Bearer"
        if kind == "another scheme":
            return f"Basic {self.token('*')}"
        return f"Bearer {WRONG_TOKENS[kind](self)}"

    def short_lived(self) -> str:
        if "expired" not in self._made:
            now = self.service.engine.now()
            made = self.call(self.registry.create("short", ["*"], expires_at=now + 200))
            self._made["expired"] = made[0]
            while self.service.engine.now() < now + 200:
                time.sleep(0.01)
        return self._made["expired"]

    def revoked(self) -> str:
        if "revoked" not in self._made:
            text, record = self.call(self.registry.create("gone", ["*"]))
            self.call(self.registry.revoke(record.id))
            self._made["revoked"] = text
        return self._made["revoked"]

    def ended(self) -> str:
        if "ended" not in self._made:
            task_id, token = self.run()
            self.call(self.service.engine.cancel([task_id], force=True))
            self._made["ended"] = token
        return self._made["ended"]


OF_ANOTHER = (
    "tasks:create:other",
    "tasks:read:other",
    "tasks:cancel:other",
    "tasks:change:other",
    "queues:claim:other",
    "queues:read:other",
    "queues:manage:other",
)
HIDES_RATHER_THAN_REFUSES = {
    "POST /api/v1/engine/stats",
    "POST /api/v1/engine/keep_code",
    "POST /api/v1/engine/waits",
    "POST /api/v1/engine/put_worker",
    "POST /api/v1/engine/remove_worker",
}
"""Routes that need a scope on some queue, and show or touch what belongs to it."""


WRONG_TOKENS: dict[str, Callable[[World], str]] = {
    "nonsense": lambda world: "\xe4\xf6 nonsense",
    "one letter of the secret wrong": lambda world: _spoilt(world.token("*")),
    "expired": World.short_lived,
    "revoked": World.revoked,
    "a run token with one letter wrong": lambda world: _spoilt(world.run()[1], -3),
    "a run token signed elsewhere": lambda world: runtokens.sign(
        runtokens.new_keys(0), "t0", "r", 0, ["*"]
    ),
    "the token of a run that has ended": World.ended,
    "too narrow": lambda world: world.token("nothing:at:all"),
    "of another queue": lambda world: world.token(*OF_ANOTHER),
    "of a run whose task has no scopes": lambda world: world.run()[1],
}


def _spoilt(token: str, place: int = -1) -> str:
    letters = list(token)
    letters[place] = "A" if letters[place] != "A" else "B"
    return "".join(letters)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("access")
    app: Andon = make_app(f"sqlite:///{folder}/tasks.db")

    async def first_token() -> None:
        engine = await app.connections.engine()
        await Registry(engine.store).create("first", ["*"])  # type: ignore[attr-defined]
        await app.close()

    import asyncio

    asyncio.run(first_token())
    with serving(app, require_token=True) as running:
        world = World(running)
        yield world
        world.client.close()


def test_every_route_of_the_service_stands_in_the_table():
    served = {
        f"{method} {route.path}"
        for router in ROUTERS
        for route in router.routes
        for method in route.methods - {"OPTIONS"}
    }
    assert served == set(ROUTES)


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("name", [n for n in NAMES if ROUTES[n].needs != PUBLIC])
def test_a_token_that_is_no_good_is_refused(world: World, name: str, kind: str):
    if kind == "the token of a run that has ended" and ROUTES[name].needs == RUN:
        pytest.skip("the store refuses these: see the tests of runs")
    reply = world.send(name, world.wrong(kind))
    assert reply.status_code == 401, reply.read()
    assert reply.headers["www-authenticate"] == "Bearer"
    assert reply.json()["type"] == "urn:andon:problem:unauthenticated"


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("name", [n for n in NAMES if ":" in ROUTES[n].needs])
def test_a_token_that_allows_too_little_is_refused(world: World, name: str, kind: str):
    if kind == "of another queue" and name in HIDES_RATHER_THAN_REFUSES:
        pytest.skip("this route answers for the queues that the token is for")
    reply = world.send(name, world.wrong(kind))
    if name == "POST /api/v1/bulk":  # each submission stands alone
        assert reply.json()["tasks"][0]["error"]["status"] == 403
        return
    assert reply.status_code == 403, reply.read()
    assert reply.json()["scope"]


@pytest.mark.parametrize("name", [n for n in NAMES if ROUTES[n].needs not in {RUN, SIGNED}])
def test_the_scope_that_a_route_needs_is_enough(world: World, name: str):
    needs = ROUTES[name].needs
    header = None
    if needs != PUBLIC:
        words = "nothing:at:all" if needs == ANY else needs
        header = f"Bearer {world.token(*words.split(), *ROUTES[name].also)}"
    assert world.send(name, header).status_code in {200, 201, 202, 404, 409}


@pytest.mark.parametrize("name", [n for n in NAMES if ROUTES[n].needs == RUN])
def test_a_run_is_spoken_for_by_its_own_token(world: World, name: str):
    task_id, token = world.run()
    reply = world.send(name, f"Bearer {token}", task_id, token)
    assert reply.status_code == 200, reply.read()


IN_PATH = [n for n in NAMES if "{number:str}" in n]


@pytest.mark.parametrize("name", IN_PATH)
def test_a_run_is_not_spoken_for_by_the_token_of_another_task(world: World, name: str):
    task_id, _ = world.run()
    _, other = world.run()
    assert world.send(name, f"Bearer {other}", task_id).status_code == 403


@pytest.mark.parametrize("name", IN_PATH)
def test_a_run_is_not_spoken_for_by_the_token_of_another_run(world: World, name: str):
    task_id, token = world.run()
    other = name.replace("{number:str}", "1")
    ROUTES[other] = ROUTES[name]
    try:
        assert world.send(other, f"Bearer {token}", task_id).status_code == 403
    finally:
        del ROUTES[other]


@pytest.mark.parametrize("name", IN_PATH)
def test_a_run_is_not_spoken_for_by_an_api_token(world: World, name: str):
    task_id, _ = world.run()
    assert world.send(name, f"Bearer {world.token('*')}", task_id).status_code == 401


LAST_WORDS = {
    "POST /api/v1/runs/{task_id:str}/{number:str}/logs",
    "PUT /api/v1/runs/{task_id:str}/{number:str}/artifacts/{name:str}",
    "POST /api/v1/runs/{task_id:str}/{number:str}/artifacts/{name:str}",
}
"""What a run may do for a while after its end: what it logged last is sent then, and what it leaves
behind if the end was none of its own (test_registered.py)."""


@pytest.mark.parametrize("name", [n for n in IN_PATH if n not in LAST_WORDS])
def test_a_run_that_has_ended_is_refused_by_the_store(world: World, name: str):
    task_id, token = world.run()
    world.call(world.service.engine.cancel([task_id], force=True))
    reply = world.send(name, f"Bearer {token}", task_id)
    assert reply.status_code == 409
    assert reply.json()["type"] == "urn:andon:problem:lease-lost"


@pytest.mark.parametrize("name", [n for n in NAMES if ROUTES[n].needs == RUN and n not in IN_PATH])
def test_where_no_run_token_is_any_good_the_request_is_refused(world: World, name: str):
    task_id, token = world.run()
    reply = world.send(name, f"Bearer {world.token('*')}", task_id, _spoilt(token, -3))
    assert reply.status_code == 401
