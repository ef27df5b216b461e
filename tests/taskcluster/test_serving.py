"""The face as part of a service: whom it answers, and what stands before it."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.kit import Running, serving

from andon import Andon
from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.service.service import Service
from andon.service.settings import Settings
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import BASE, Queue, definition, refused, slugid


@pytest.fixture
def app(tmp_path: Path) -> Andon:
    return Andon(f"sqlite:///{tmp_path}/tasks.db")


def test_without_the_setting_there_is_no_such_face(app: Andon):
    with serving(app) as running:
        answer = httpx.get(f"{running.url}{BASE}/ping")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("settings", [{"host": "0.0.0.0"}, {"require_token": True}])
def test_it_does_not_start_where_it_must_ask_who_is_asking_and_nobody_could_say(
    app: Andon, settings: dict[str, Any]
):
    service = Service(app, Settings(port=0, taskcluster=TaskclusterSettings(), **settings))
    with pytest.raises(ConfigurationError, match="andon token create NAME --taskcluster"):
        asyncio.run(service.start())


def test_settings_that_cannot_be_are_refused(app: Andon):
    bad: tuple[dict[str, Any], ...] = (
        {"claim_timeout": 0.0},
        {"claim_wait": -1.0},
        {"max_deadline": 0.0},
        {"max_document": 0},
    )
    for wrong in bad:
        face = TaskclusterSettings(**wrong)
        with pytest.raises(ConfigurationError):
            Settings(taskcluster=face).check()
    with pytest.raises(ConfigurationError):
        Settings(proxies=("10.0.0.0/99",)).check()


def test_no_page_from_elsewhere_steers_an_open_service(queue: Queue):
    for headers in ({"origin": "https://example.com"}, {"host": "queue.example.com"}):
        answer = queue.ask("PUT", f"/task/{slugid()}", definition(), headers=headers)
        refused(answer, 401, "AuthenticationFailed", "createTask")
        assert answer.headers["www-authenticate"] == "hawk"
        assert "access-control-allow-origin" not in answer.headers
    answer = queue.http.options(f"{BASE}/ping", headers={"origin": "https://example.com"})
    refused(answer, 404, "ResourceNotFound")
    assert "access-control-allow-origin" not in queue.ask("GET", "/ping").headers


def test_a_signature_is_not_looked_at_where_nobody_is_asked(queue: Queue):
    header = {"authorization": 'Hawk id="me", ts="1", nonce="a", mac="b", ext="e30="'}
    assert queue.ask("GET", "/ping", headers=header).status_code == 200
    long = {"authorization": f'Hawk id="me", ext="{"A" * 40_000}"'}
    assert queue.ask("GET", "/ping", headers=long).status_code == 200


def test_too_many_requests_are_told_to_come_again(app: Andon):
    face = TaskclusterSettings()
    with (
        serving(app, taskcluster=face, rate_limit=0.001, rate_burst=1) as running,
        running.client() as http,
    ):
        assert http.get(f"{BASE}/ping").status_code == 200
        answer = http.get(f"{BASE}/ping")
        refused(answer, 503, "InternalServerError", "ping")
        assert int(answer.headers["retry-after"]) > 0


def test_a_store_that_is_away_is_told_so_that_clients_try_again(
    running: Running, queue: Queue, monkeypatch: pytest.MonkeyPatch
):
    async def away(*_: object) -> None:
        raise StoreUnavailable("sqlite:////secret/place cannot be reached.")

    monkeypatch.setattr(running.service.engine.store, "get", away)
    answer = queue.ask("GET", f"/task/{slugid()}")
    error = refused(answer, 503, "InternalServerError", "task")
    assert "secret" not in error["message"]


def test_what_should_not_happen_is_told_as_an_incident_and_no_more(
    running: Running,
    queue: Queue,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(running.service.engine.store, "get", broken)
    answer = queue.ask("GET", f"/task/{slugid()}")
    error = refused(answer, 500, "InternalServerError", "task")
    assert "secret" not in error["message"]
    assert "incident" in error["message"]
    incident = error["message"].partition("incident ")[2][:16]
    assert incident in caplog.text


def test_requests_are_counted_by_route(queue: Queue):
    queue.create()
    metrics = queue.http.get("/metrics").text
    assert 'route="/api/queue/v1/task/<taskId>"' in metrics
