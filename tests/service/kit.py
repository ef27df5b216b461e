"""A real service on a free loopback port, in a thread of the test process."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
import msgspec
import uvloop

from andon import Andon
from andon.contract.notes import PutNote
from andon.engine.alerts import STATE_NOTE
from andon.engine.local import LocalEngine
from andon.lifecycle.minutes import slot_of, slot_with
from andon.model.minutes import MinuteBase, MinuteRow
from andon.model.settings import MINUTES_SETTINGS
from andon.service.guard import Guard
from andon.service.server import serve
from andon.service.service import Service
from andon.service.settings import Settings

PATIENCE = 60.0

T = TypeVar("T")

CHECKS: list[Callable[[httpx.Response], None]] = []
"""What every answer to a client of a running service is held against."""


class Running:
    """A service that runs, and its URL."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.url = ""
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        if self._failure is not None:
            raise self._failure

    def begin_stop(self) -> None:
        """Tell it to stop, and go on."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.service.begin_stop)

    def stop(self) -> None:
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.service.begin_stop)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def call(self, coroutine: Any) -> Any:
        """Run a coroutine on the service's loop, for what no route shows."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    @contextmanager
    def working(self, **settings: Any) -> Iterator[None]:
        """A worker for the application's tasks for as long as the block lasts."""
        block = self.service.app.working(**settings)
        self.call(block.__aenter__())
        try:
            yield
        finally:
            self.call(block.__aexit__(None, None, None))
            self.call(self.service.app.close())

    def client(self, **options: Any) -> httpx.Client:
        """A client with the service as its base."""
        hooks = {"response": list(CHECKS)}
        return httpx.Client(
            base_url=self.url, timeout=PATIENCE, verify=False, event_hooks=hooks, **options
        )

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                self._loop = runner.get_loop()
                runner.run(serve(self.service, ready=self._is_ready))
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    def _is_ready(self, url: str) -> None:
        self.url = url
        self._ready.set()


@contextmanager
def serving(
    app: Andon, *, guard: Guard | None = None, port: int = 0, **settings: Any
) -> Iterator[Running]:
    """Serve an application for as long as the block lasts."""
    running = Running(Service(app, Settings(port=port, **settings), guard=guard))
    running.start()
    try:
        yield running
    finally:
        running.stop()


def eventually(ask: Callable[[], T]) -> T:
    """What `ask` says, once it says something."""
    deadline = time.monotonic() + PATIENCE
    while not (said := ask()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
    return said


def problem(answer: httpx.Response, status: int, name: str) -> dict[str, Any]:
    """The problem details of an answer that must be this problem."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["type"] == f"urn:andon:problem:{name}", document
    assert document["status"] == status
    assert document["detail"].endswith((".", "?"))
    return document


def with_values(body: Any, values: dict[str, str]) -> Any:
    """A body with a value in place of each string that names one, such as "{task}"."""
    if isinstance(body, dict):
        return {name: with_values(value, values) for name, value in body.items()}
    if isinstance(body, list):
        return [with_values(value, values) for value in body]
    return values.get(body, body) if isinstance(body, str) else body


async def with_minute(engine: LocalEngine, base: MinuteBase, row: MinuteRow) -> None:
    """Store a minute as a timekeeper would."""
    slot = slot_with(None, base, row)
    name = MINUTES_SETTINGS[slot_of(slot.hour)]
    stored = await engine.store.setting(name)
    assert await engine.store.put_setting(name, msgspec.msgpack.encode(slot), expect=stored)


async def look_at_alerts(engine: LocalEngine) -> None:
    """Look at the alert rules now, as if nobody had before: the service's own timekeeper may have
    been first in this minute."""
    while True:
        _, stored = await engine.alerts.state()
        if stored is not None:
            await engine.store.put_notes([PutNote(STATE_NOTE, None, stored)])
        if await engine.alert_looks.look():
            return
