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


@contextmanager
def serving_on(store: str, folder: Path, *options: str) -> Iterator[Served]:
    """A service on this store for as long as the block lasts."""
    (folder / "app.py").write_text(APP)
    port = free_port()
    argv = [*ANDON, "serve", "app.py", "--taskcluster", "--port", str(port), *options]
    process = Process(argv, folder / "service.log", {"ANDON_URL": store})
    served = Served(f"http://127.0.0.1:{port}", process)

    def answers() -> bool:
        assert process.is_running, process.log
        try:
            return httpx.get(f"{served.url}{BASE}/ping", timeout=PATIENCE).status_code == 200
        except httpx.HTTPError:
            return False

    try:
        eventually(answers)
        yield served
        process.terminate()
        assert process.exited() == 0, process.log
    finally:
        process.close()
