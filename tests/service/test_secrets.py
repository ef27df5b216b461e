"""Where the store is, and with which password, is told to its administrators only."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from andon import Andon
from andon.cli.root import root
from andon.model.errors import StoreError, StoreIncompatible, StoreUnavailable
from andon.service.trust.registry import Registry
from andon.stores.registry import open_store

from .kit import Running, serving

PLACE = "postgresql://andon:s3cret@db.internal/andon"
FAILURES = [
    StoreUnavailable(f"{PLACE} does not answer."),
    StoreIncompatible(f"Schema andon of {PLACE} is of version 9."),
    StoreError(f"{PLACE} cannot do that."),
]
ASKED = [
    ("GET", "/api/v1/tasks", None),
    ("GET", "/api/v1/tasks/a", None),
    ("POST", "/api/v1/tasks", {"name": "job"}),
    ("POST", "/api/v1/bulk", {"tasks": [{"name": "job"}]}),
    ("POST", "/api/v1/acts", {"action": "cancel", "ids": ["a"]}),
    ("POST", "/api/v1/runs/claim", {"worker": "w"}),
    ("POST", "/api/v1/engine/get", {"ids": ["a"]}),
    ("POST", "/api/v1/engine/submit", [{"id": "a", "name": "job"}]),
    ("POST", "/api/v1/engine/claim", None),
    ("GET", "/api/v1/events", None),
    ("GET", "/api/v1/queues", None),
    ("GET", "/readyz", None),
]
CLAIM = {"worker": "w", "token": "t", "queues": ["default"], "limit": 1, "lease_ms": 5_000}


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Running, dict[str, httpx.Client]]]:
    app = Andon(f"sqlite:///{tmp_path_factory.mktemp('secrets')}/tasks.db")
    scopes = {
        "narrow": ["tasks:*", "queues:*"],
        "admin": ["tasks:*", "queues:*", "admin:storage"],
    }

    async def tokens() -> dict[str, str]:
        store = open_store(app.url)
        await store.open()
        registry = Registry(store)
        made = {name: (await registry.create(name, given))[0] for name, given in scopes.items()}
        await store.close()
        return made

    texts = asyncio.run(tokens())
    with serving(app, require_token=True) as running:
        clients = {
            name: running.client(headers={"authorization": f"Bearer {text}"})
            for name, text in texts.items()
        }
        for client in clients.values():
            assert client.get("/api/v1/tasks").status_code == 200
        yield running, clients
        for client in clients.values():
            client.close()


def break_store(running: Running, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Every call of the store fails with this, but those that say who may ask."""
    store = running.service.engine.store

    def failing(*args: Any, **kwargs: Any) -> Any:
        async def fail() -> None:
            raise error

        return fail()

    for name in ("get", "find", "create", "claim", "events", "events_end", "queues", "stats"):
        monkeypatch.setattr(store, name, failing)
    monkeypatch.setattr(running.service.engine._submitting.batcher, "put", failing)


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: f"{asked[0]} {asked[1]}")
def test_an_error_of_the_store_tells_a_token_nothing_of_where_it_is(
    world: tuple[Running, dict[str, httpx.Client]],
    monkeypatch: pytest.MonkeyPatch,
    asked: tuple[str, str, Any],
    error: Exception,
):
    method, path, body = asked
    running, clients = world
    break_store(running, monkeypatch, error)
    if path.endswith("engine/claim"):
        body = CLAIM
    answer = clients["narrow"].request(method, path, json=body)
    assert answer.status_code in (500, 503), answer.text
    for part in ("s3cret", "db.internal", "andon:", "postgresql"):
        assert part not in answer.text.replace("urn:andon:problem", "")
    assert "The service's log says why" in answer.text


def test_an_administrator_is_told_and_so_is_the_log(
    world: tuple[Running, dict[str, httpx.Client]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    running, clients = world
    break_store(running, monkeypatch, FAILURES[0])
    monkeypatch.setattr("andon.service.binding._SAY_EVERY_S", -1.0)
    with caplog.at_level(logging.WARNING, "andon.service"):
        assert clients["narrow"].get("/api/v1/tasks/a").status_code == 503
    assert "db.internal" in caplog.text
    told = clients["admin"].get("/api/v1/tasks/a").json()
    assert "db.internal" in told["detail"]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@localhost:1/db",
        "redis://:s3cret@localhost:1/0",
        "redis+sentinel://me:s3cret@localhost:1/primary",
        "nats://s3cret@localhost:1",
        "nats://me:s3cret@localhost:1",
        "postgresql://localhost:1/db?user=me&password=s3cret",
        "nosuch://me:s3cret@localhost",
        "redis://me:s3cret@localhost/?nosuch=1",
        "postgresql://me:s3cret@localhost/db?nosuch=1",
        "nats://s3cret@localhost?nosuch=1",
        "sqlite://me:s3cret@localhost/x",
    ],
)
@pytest.mark.parametrize(
    "command", [["storage", "status"], ["tasks", "list"], ["top"], ["doctor"]], ids=" ".join
)
def test_no_command_prints_the_password_of_its_store(
    url: str, command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANDON_URL", f"{url}{'&' if '?' in url else '?'}".rstrip("?&"))
    monkeypatch.setattr("andon.stores.kit.spinning.PATIENCE_S", 0.0, raising=False)
    done = CliRunner().invoke(root, command)
    assert "s3cret" not in done.stdout + done.stderr
