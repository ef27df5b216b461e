"""An opening that fails leaves nothing behind, however often it is tried again."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import HTTP, stores_by_url
from servers import Servers
from servers.http import PLAIN, service_of

from andon import Andon
from andon.engine.http.transport import Transport
from andon.engine.policy_resolver import PolicyResolver
from andon.model.errors import StoreUnavailable

TIMES = 12


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", stores_by_url(metafunc.config))


@pytest.fixture
def url(store_kind: str, servers: Servers, tmp_path: Path) -> Iterator[str]:
    if store_kind == HTTP:
        with service_of(PLAIN, tmp_path) as service:
            yield service.url
    else:
        yield servers.fresh_url(store_kind, tmp_path)


def held() -> tuple[int, int]:
    """Threads and file descriptors of this process."""
    return threading.active_count(), psutil.Process().num_fds()


@pytest.mark.parametrize("error", [StoreUnavailable("away"), RuntimeError("a bug")])
def test_submits_whose_opening_fails_leave_no_threads_and_no_files(
    url: str, error: Exception, monkeypatch: pytest.MonkeyPatch
):
    async def fail(*_: Any, **__: Any) -> Any:
        raise error

    app = Andon(url)
    with monkeypatch.context() as broken:
        # The first thing that is asked once there is a connection.
        broken.setattr(PolicyResolver, "refresh", fail)
        broken.setattr(Transport, "call", fail)
        seen: list[tuple[int, int]] = []
        for _ in range(TIMES):
            with pytest.raises(type(error)):
                app.sync.submit("job", {})
            seen.append(held())
    # asyncio's pool of threads for blocking calls grows to its size and no further; connections
    # that are being closed by a server may take a moment.
    assert seen[-1][0] <= seen[2][0] + TIMES // 3
    assert seen[-1][1] <= seen[2][1] + TIMES // 3
    assert app.sync.submit("job", {}).status() == "pending"
    app.sync.close()


@pytest.mark.parametrize("which", ["writer", "reader", "checkpoint"])
def test_a_sqlite_store_that_gets_no_threads_says_so_and_leaves_none(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == f"andon-sqlite-{which}":
            raise RuntimeError("can't start new thread")
        start(thread)

    def alive() -> list[str]:
        return [t.name for t in threading.enumerate() if t.name.startswith("andon-sqlite")]

    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    app.sync.submit("job", {})  # whatever an application has once it is at work
    app.sync.close()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        seen: list[int] = []
        for _ in range(TIMES):
            with pytest.raises(StoreUnavailable, match="no threads to be had"):
                app.sync.submit("job", {})
            for thread in threading.enumerate():
                if thread.name.startswith("andon-sqlite"):
                    thread.join(10)
            seen.append(held()[1])
    assert alive() == []
    assert seen[-1] <= seen[2] + TIMES // 3
    assert app.sync.submit("job", {}).status() == "pending"
    app.sync.close()
