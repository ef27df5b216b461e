"""What commands that go on for long log about their store says nothing of its password."""

import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import andon.cli.apps
import andon.cli.serve
import andon.cli.worker
import andon.service.server
import andon.service.service
from andon.cli.root import root

URLS = [
    "postgresql://me:s3cret@host/db",
    "postgresql://host/db?user=me&password=s3cret",
    "redis://:s3cret@host:6379/0",
    "redis+sentinel://me:s3cret@h1,h2/primary",
    "redis+cluster://:s3cret@h1,h2",
    "nats://s3cret@host:4222",
    "nats://me:s3cret@h1,h2",
]


@pytest.fixture(autouse=True)
def stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application that is loaded and never connects, a service that says that it is ready."""
    monkeypatch.setattr(andon.service.service, "Service", lambda *_: None)
    monkeypatch.setattr(
        andon.service.server, "run", lambda *_, ready, **__: ready("http://127.0.0.1:1")
    )
    monkeypatch.setattr(andon.cli.serve, "tune_process", lambda *_: None)
    monkeypatch.setattr(andon.cli.worker, "Signals", nullcontext)
    monkeypatch.setattr(andon.cli.serve, "load_app", lambda _, url=None: SimpleNamespace(url=url))


@pytest.mark.parametrize("url", URLS)
def test_serve(url: str, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        done = CliRunner().invoke(root, ["serve", "app", "--url", url])
    assert done.exit_code == 0, done.output
    said = caplog.text + done.output
    assert "Serving the tasks of" in said
    assert "s3cret" not in said


@pytest.mark.parametrize("url", URLS)
async def test_worker(url: str, caplog: pytest.LogCaptureFixture):
    async def nothing(**_: Any) -> None: ...

    made = SimpleNamespace(
        id="w", config=SimpleNamespace(queues=(), trusted_keys=None), run=nothing, stop=nothing
    )

    async def worker(**_: Any) -> Any:
        return made

    async def engine() -> Any:
        return SimpleNamespace(keep_time=lambda: None)

    app: Any = SimpleNamespace(
        url=url, registry=(), worker=worker, connections=SimpleNamespace(engine=engine)
    )
    with caplog.at_level(logging.INFO):
        await andon.cli.worker.run(app, {})
    assert "runs 0 task types of" in caplog.text
    assert "s3cret" not in caplog.text
