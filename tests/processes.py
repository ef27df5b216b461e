"""Worker processes for the tests: real ones, always ended, also when a test is interrupted."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from forkserver import start

PATIENCE = 60.0
"""Seconds that anything may take before a test gives up; nothing waits that long when it works."""

ANDON = (sys.executable, "-m", "andon.cli")
TESTS = Path(__file__).parent


class WorkerProcess:
    """One `andon worker` in a process of its own, started at once.

    `place` is the application as module:attribute below tests/; `settings` are options of the
    command line.
    """

    def __init__(
        self, place: str, url: str, folder: Path, *, id: str, queue: str, **settings: Any
    ) -> None:
        self.id = id
        self.queue = queue
        self._awaited = False
        self._log = folder / f"{id}.log"
        settings = {"id": id, "queues": queue, **settings}
        options = [f"--{name}={value}" for name, value in settings.items()]
        with self._log.open("w") as log:
            self._process = start(
                ["worker", place, *options],
                cwd=folder,
                env={**os.environ, "ANDON_URL": url, "PYTHONPATH": str(TESTS)},
                output=log,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """What the process has printed."""
        return self._log.read_text()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def exited(self) -> int:
        """The exit status, once there is one; what it has to be is the test's to say."""
        self._awaited = True
        try:
            return await asyncio.to_thread(self._process.wait, PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.id} goes on:\n{self.log}") from None

    def close(self) -> None:
        """End the process: in good order, or the test that hindered it fails."""
        status = None
        for number, patience in ((signal.SIGCONT, 0), (signal.SIGTERM, 2), (signal.SIGTERM, 30)):
            status = self._after(number, patience) if status is None else status
        if status is None:
            self.kill()
            self._process.wait()
            raise AssertionError(f"{self.id} did not leave:\n{self.log}")
        # Without its handlers yet, or killed by the test, a process ends by the signal itself.
        expected = (0, -signal.SIGKILL, -signal.SIGTERM)
        assert self._awaited or status in expected, f"{self.id} ended with {status}:\n{self.log}"

    def _after(self, number: int, patience: float) -> int | None:
        """The exit status after a signal; None if it has not exited in so many seconds."""
        if self.is_running:
            self.signal(number)
        try:
            return self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return None
