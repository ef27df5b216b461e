"""A fleet of processes on one store, all of them killed and reaped whatever a test does."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import shared_stores
from launching import launch
from servers import Servers

from .chance import chance

PROGRAM = Path(__file__).with_name("program.py")
ROOT = Path(__file__).parents[2]


class Fleet:
    """Processes on one store, started and killed by name; what they say is in `folder`."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.url = url
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.releases: dict[str, Path] = {}
        """Folders of older releases, by the name of the process that runs one."""
        self._starts = 0

    def start(self, name: str, role: str, seed: object, *arguments: object) -> None:
        """Start a process; its output goes to a file, its answers to a pipe."""
        self._starts += 1
        release = self.releases.get(name)
        program = PROGRAM if release is None else release / PROGRAM.relative_to(ROOT)
        older = {} if release is None else {"PYTHONPATH": str(release / "src")}
        with (self.folder / f"log-{name}-{self._starts}").open("w") as log:
            self.running[name] = launch(
                [
                    sys.executable,
                    str(program),
                    role,
                    self.url,
                    str(self.folder),
                    f"{seed}.{self._starts}",
                    *map(str, arguments),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **older},
            )

    def signal(self, name: str, number: int) -> None:
        self.running[name].send_signal(number)

    def kill(self, name: str) -> int:
        """Kill -9 and reap; the exit status."""
        process = self.running.pop(name)
        process.kill()
        process.communicate()
        return process.returncode

    def is_up(self, name: str) -> bool:
        """Whether the process has its store open."""
        return [str(self.running[name].pid)] in self.lines("up")

    def end(self, name: str, timeout: float = 60) -> int:
        """Wait for the end; the exit status."""
        process = self.running[name]
        process.communicate(timeout=timeout)
        del self.running[name]
        return process.returncode

    def line(self, name: str) -> list[str]:
        """The next line that the process prints, in words."""
        stream = self.running[name].stdout
        assert stream is not None
        return stream.readline().split()

    def tell(self, name: str) -> None:
        """Send the process a line."""
        stream = self.running[name].stdin
        assert stream is not None
        stream.write("\n")
        stream.flush()

    def lines(self, name: str) -> list[list[str]]:
        """What was appended to a file of the fleet."""
        path = self.folder / name
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def acknowledged(self) -> set[str]:
        """Ids whose submit was answered."""
        files = self.folder.glob("acknowledged-*")
        return {word for file in files for word in file.read_text().split()}

    def logs(self) -> str:
        """What the processes complained of."""
        files = sorted(self.folder.glob("log-*"))
        return "\n".join(f"== {file.name}\n{file.read_text()[-2000:]}" for file in files)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", shared_stores(metafunc.config))


@pytest.fixture
def url(store_kind: str, servers: Servers, tmp_path: Path) -> str:
    """A store on which nothing was stored, on a server that other tests use too."""
    return servers.fresh_url(store_kind, tmp_path)


@pytest.fixture
def fleet(url: str, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(url, tmp_path)
    try:
        yield fleet
    finally:
        for name in list(fleet.running):
            fleet.kill(name)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    return chance(request.node.nodeid)
