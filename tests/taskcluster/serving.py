"""`andon serve --taskcluster` in a process of its own, on any store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
from ports import free_port
from tests.remote.kit import ANDON, Process
from tests.service.kit import PATIENCE, eventually

from .kit import BASE

APP = "from andon import Andon\n\napp = Andon()\n"


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
