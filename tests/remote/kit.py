"""A service in a process of its own, which can be killed, and the processes of workers."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from forkserver import start
from launching import launch
from ports import free_port

PATIENCE = 60.0
ANDON = (sys.executable, "-m", "andon.cli")
HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples" / "workers"


class Process:
    """A process with a log, ended with its test."""

    def __init__(self, argv: list[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.log_file = log
        env = {**os.environ, "PYTHONPATH": str(HERE), **(env or {})}
        with log.open("ab") as output:
            if tuple(argv[:3]) == ANDON:
                self._process = start(argv[3:], cwd=log.parent, env=env, output=output)
                return
            self._process = launch(
                argv,
                cwd=log.parent,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        self._process.terminate()

    def exited(self) -> int:
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self._process.args} goes on:\n{self.log}") from None

    def close(self) -> None:
        if self.is_running:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
        if self.is_running:
            self.kill()


class ServiceProcess:
    """`andon serve` on a port that stays the same, however often it is killed and begun again."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder
        self.store = f"sqlite:///{folder}/tasks.db"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._env = {"ANDON_URL": self.store, **env}
        self.process: Process | None = None

    def start(self) -> None:
        argv = [*ANDON, "serve", str(HERE / "app.py"), "--port", str(self.port)]
        self.process = Process(argv, self.folder / "service.log", self._env)
        self.wait_ready()

    def wait_ready(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(httpx.HTTPError):
                httpx.post(f"{self.url}/api/v1/engine/info", json={}, timeout=5)
                return
            assert self.process.is_running, self.process.log
            assert time.monotonic() < deadline, self.process.log
            time.sleep(0.05)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()

    def close(self) -> None:
        if self.process is not None:
            self.process.close()


@contextlib.contextmanager
def serving_process(folder: Path, **env: str) -> Iterator[ServiceProcess]:
    service = ServiceProcess(folder, **env)
    try:
        service.start()
        yield service
    finally:
        service.close()


async def until(holds: Callable[[], Awaitable[Any]]) -> Any:
    """What the condition gives, once it gives something."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await holds()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return found
