"""Requests that are held (long polls, claims that wait) end with the token they came with."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from andon import Andon
from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.service.guard import Caller, Guard
from andon.service.trust.access import OPEN

from .kit import PATIENCE, Running, eventually, problem, serving

if TYPE_CHECKING:
    from litestar.types import HTTPScope

LONG = 50.0
"""Longer than anybody here waits: who is answered was not answered because of it."""


class Watched:
    """The service's guard, with a count of those it has let in."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.let_in = 0

    async def authorize(self, scope: "HTTPScope") -> Caller:
        caller = await self._guard.authorize(scope)
        self.let_in += 1
        return caller


class Asking:
    """A request in a thread of its own, which the service holds by now."""

    def __init__(self, running: Running, token: str, method: str, path: str, **more: Any) -> None:
        self._client = running.client(headers={"Authorization": f"Bearer {token}"})
        self._answer: httpx.Response | None = None
        guard = running.service.guard
        assert isinstance(guard, Watched)
        before = guard.let_in

        def ask() -> None:
            self._answer = self._client.request(method, path, timeout=LONG, **more)

        self._thread = threading.Thread(target=ask, daemon=True)
        self._thread.start()
        eventually(lambda: guard.let_in > before)

    def answer(self) -> httpx.Response:
        self._thread.join(PATIENCE)
        assert self._answer is not None, "it is held still"
        self._client.close()
        return self._answer


@contextmanager
def holding(app: Andon, **settings: Any) -> Iterator[Running]:
    with serving(app, **settings) as running:
        running.service.guard = Watched(running.service.guard)
        yield running


def submit(running: Running, task_id: str = "one", **fields: Any) -> None:
    submission = Submission(id=task_id, name="add", args=b'{"a":1}', **fields)
    running.call(running.service.engine.submit([submission]))


def claim(running: Running) -> str:
    """Run the task that is pending; the run's token."""
    request = ClaimRequest(worker="w", token="t", queues=("default",), limit=1, lease_ms=60_000)
    [(_, token)] = running.call(running.service.runs.claim(OPEN, request, lambda *run: run))
    return token


Held = Callable[[Running, str], Asking]
WAIT = {"wait": LONG}
HELD: dict[str, Held] = {
    "task": lambda running, token: Asking(running, token, "GET", "/api/v1/tasks/one", params=WAIT),
    "job": lambda running, token: Asking(running, token, "GET", "/api/v1/jobs/one", params=WAIT),
    "log": lambda running, token: Asking(
        running, token, "GET", "/api/v1/tasks/one/logs", params=WAIT
    ),
    "job that is cancelled": lambda running, token: Asking(
        running, token, "DELETE", "/api/v1/jobs/one"
    ),
    "claim": lambda running, token: Asking(
        running,
        token,
        "POST",
        "/api/v1/runs/claim",
        json={"worker": "me", "queues": ["empty"], "wait": LONG},
    ),
}


@pytest.mark.parametrize("what", HELD)
def test_a_held_request_is_refused_once_its_token_is_revoked(app: Andon, what: str):
    with holding(app, stream_ping=0.2) as running:
        submit(running, options={"cancel_grace": LONG})
        claim(running)
        registry = running.service.access.registry
        token, record = running.call(registry.create("reader", ["*"]))
        asking = HELD[what](running, token)
        running.call(registry.revoke(record.id))
        assert "revoked" in problem(asking.answer(), 401, "unauthenticated")["detail"]


def test_a_held_request_is_refused_once_its_token_has_expired(app: Andon):
    with holding(app, stream_ping=0.2) as running:
        submit(running)
        now = running.service.engine.now()
        token, _ = running.call(
            running.service.access.registry.create("brief", ["*"], expires_at=now + 1_000)
        )
        asking = HELD["task"](running, token)
        assert "expired" in problem(asking.answer(), 401, "unauthenticated")["detail"]


def test_a_held_request_is_refused_once_the_run_of_its_token_has_ended(app: Andon):
    with holding(app, stream_ping=0.2) as running:
        submit(running, "speaks", scopes=("tasks:read:default",))
        token = claim(running)
        submit(running)
        asking = HELD["task"](running, token)
        running.call(running.service.engine.cancel(["speaks"], force=True))
        assert "no longer holds" in problem(asking.answer(), 401, "unauthenticated")["detail"]


def test_what_a_held_request_waited_for_is_not_told_to_a_revoked_token(app: Andon):
    with holding(app) as running:  # whose streams are looked at every 15 s only
        submit(running)
        registry = running.service.access.registry
        token, record = running.call(registry.create("reader", ["*"]))
        asking = HELD["task"](running, token)
        running.call(registry.revoke(record.id))
        eventually(lambda: _is_refused(running, token))
        running.call(running.service.engine.cancel(["one"]))
        problem(asking.answer(), 401, "unauthenticated")


def test_what_a_claim_waited_for_is_not_given_to_a_revoked_token(app: Andon):
    with holding(app) as running:
        registry = running.service.access.registry
        token, record = running.call(registry.create("worker", ["queues:claim:empty"]))
        asking = HELD["claim"](running, token)
        running.call(registry.revoke(record.id))
        eventually(lambda: _is_refused(running, token))
        submit(running, queue="empty")
        problem(asking.answer(), 401, "unauthenticated")
        [task] = running.call(running.service.engine.get(["one"]))
        assert task.state == "pending"


def test_the_end_of_a_discarded_task_is_told_to_none_but_those_who_may_read_every_queue(app: Andon):
    with holding(app) as running:
        submit(running, queue="salaries", options={"retention": 0})
        running.call(running.service.engine.cancel(["one"]))
        registry = running.service.access.registry
        for scope, status in (("default", 403), ("salaries", 403), ("*", 200)):
            token, _ = running.call(registry.create(scope, [f"tasks:read:{scope}"]))
            answer = Asking(running, token, "GET", "/api/v1/tasks/one", params=WAIT).answer()
            assert answer.status_code == status, scope


def _is_refused(running: Running, token: str) -> bool:
    with running.client(headers={"Authorization": f"Bearer {token}"}) as client:
        return client.get("/api/v1/profiles").status_code == 401
