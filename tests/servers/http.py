"""`andon serve` in a process of its own, in front of an embedded store: what a store is to tests
that go by URL, seen through HTTP."""

import contextlib
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from forkserver import start
from ports import free_port
from processes import PATIENCE, TESTS

PLAIN = "servers.plain:app"
"""An application that knows no task types."""


class Service:
    """The service of one application."""

    def __init__(self, place: str, folder: Path, *options: str) -> None:
        port = free_port()
        self.store_url = f"sqlite:///{folder / 'andon.db'}"
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "service.log"
        with self._log.open("w") as log:
            self._process = start(
                ["serve", place, f"--port={port}", *options],
                cwd=folder,
                env={**os.environ, "ANDON_URL": self.store_url, "PYTHONPATH": str(TESTS)},
                output=log,
            )

    def wait_ready(self) -> None:
        """Return once it answers."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.url}/readyz", timeout=5).close()
                return
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, f"It never answered:\n{self._log.read_text()}"
            time.sleep(0.05)

    def close(self) -> None:
        """End it in good order, or the test that hindered it fails."""
        self._process.terminate()
        try:
            status = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"It did not leave:\n{self._log.read_text()}") from None
        assert status == 0, f"It ended with {status}:\n{self._log.read_text()}"


@contextlib.contextmanager
def service_of(place: str, folder: Path, *options: str) -> Iterator[Service]:
    """The service of an application (module:attribute below tests/), on a store in `folder`;
    `options` are those of `andon serve`."""
    service = Service(place, folder, *options)
    try:
        service.wait_ready()
        yield service
    finally:
        service.close()
