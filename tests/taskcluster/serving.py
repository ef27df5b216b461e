"""`andon serve --taskcluster` in a process of its own, on any store."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
from ports import free_port
from tests.remote.kit import ANDON, Process
from tests.service.kit import PATIENCE, eventually

from andon.engine.opening import open_store
from andon.service.taskcluster.trust.registry import ClientRegistry

from .kit import BASE

APP = "from andon import Andon\n\napp = Andon()\n"


async def new_client(store: str, name: str, scopes: Sequence[str]) -> dict[str, str]:
    """The credentials of a new client of this store's service."""
    opened = open_store(store)
    await opened.open()
    try:
        token, _ = await ClientRegistry(opened).create(name, list(scopes))
    finally:
        await opened.close()
    return {"clientId": name, "accessToken": token}


class Served(NamedTuple):
    """A service that runs."""

    url: str
    process: Process


class Restarted:
    """A service on a port that stays the same, however often it is killed and begun again."""

    def __init__(self, store: str, folder: Path, *options: str) -> None:
        (folder / "app.py").write_text(APP)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._argv = [*ANDON, "serve", "app.py", "--taskcluster", "--port", str(port), *options]
        self._log = folder / "service.log"
        self._env = {"ANDON_URL": store}
        self.process: Process

    def start(self) -> None:
        """Begin, and wait until it answers."""
        self.process = Process(self._argv, self._log, self._env)
        eventually(self._answers)

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()

    def _answers(self) -> bool:
        assert self.process.is_running, self.process.log
        try:
            return httpx.get(f"{self.url}{BASE}/ping", timeout=PATIENCE).status_code == 200
        except httpx.HTTPError:
            return False


@contextmanager
def restarted_on(store: str, folder: Path, *options: str) -> Iterator[Restarted]:
    """A service on this store, which may be killed and must leave in good order in the end."""
    service = Restarted(store, folder, *options)
    service.start()
    try:
        yield service
        service.process.terminate()
        assert service.process.exited() == 0, service.process.log
    finally:
        service.process.close()


@contextmanager
def serving_on(store: str, folder: Path, *options: str) -> Iterator[Served]:
    """A service on this store for as long as the block lasts."""
    with restarted_on(store, folder, *options) as service:
        yield Served(service.url, service.process)
