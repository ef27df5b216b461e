"""A fleet of processes on one store, all of them killed and reaped whatever a test does."""

import contextlib
import os
import random
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import shared_stores
from forkserver import start_program
from launching import launch
from servers import Servers

if TYPE_CHECKING:
    import subprocess

    from forkserver import Forked

PROGRAM = Path(__file__).with_name("program.py")
ROOT = Path(__file__).parents[2]
SEED = "ANDON_CRASH_SEED"


class Member:
    """One process, and the pipes by which it is spoken to."""

    def __init__(self, process: "Forked | subprocess.Popen[bytes]", stdin: int, stdout: int):
        self.process = process
        self.stdin = os.fdopen(stdin, "w")
        self.stdout = os.fdopen(stdout)

    def ended(self, timeout: float) -> int:
        """Wait for the end; the exit status."""
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        status = self.process.wait(timeout)
        self.stdout.close()
        return status


class Fleet:
    """Processes on one store, started and killed by name; what they say is in `folder`."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.url = url
        self.running: dict[str, Member] = {}
        self.releases: dict[str, Path] = {}
        """Folders of older releases, by the name of the process that runs one."""
        self._starts = 0

    def start(self, name: str, role: str, seed: object, *arguments: object) -> None:
        """Start a process; its output goes to a file, its answers to a pipe."""
        self._starts += 1
        release = self.releases.get(name)
        words = [
            role,
            self.url,
            str(self.folder),
            f"{seed}.{self._starts}",
            *map(str, arguments),
        ]
        reads, tells = os.pipe()
        hears, prints = os.pipe()
        try:
            with (self.folder / f"log-{name}-{self._starts}").open("w") as log:
                streams = (reads, prints, log.fileno())
                process = self._started(release, words, streams)
        finally:
            os.close(reads)
            os.close(prints)
        self.running[name] = Member(process, tells, hears)

    @staticmethod
    def _started(
        release: Path | None, words: list[str], streams: tuple[int, int, int]
    ) -> "Forked | subprocess.Popen[bytes]":
        """This release's program, forked where that can be had, or that of an older one."""
        if release is None:
            return start_program(PROGRAM, words, env=os.environ, streams=streams)
        reads, prints, complains = streams
        return launch(
            [sys.executable, release / PROGRAM.relative_to(ROOT), *words],
            stdin=reads,
            stdout=prints,
            stderr=complains,
            env={**os.environ, "PYTHONPATH": str(release / "src")},
        )

    def signal(self, name: str, number: int) -> None:
        self.running[name].process.send_signal(number)

    def kill(self, name: str) -> int:
        """Kill -9 and reap; the exit status."""
        member = self.running.pop(name)
        member.process.kill()
        return member.ended(60)

    def is_up(self, name: str) -> bool:
        """Whether the process has its store open."""
        return [str(self.running[name].process.pid)] in self.lines("up")

    def end(self, name: str, timeout: float = 60) -> int:
        """Wait for the end; the exit status."""
        status = self.running[name].ended(timeout)
        del self.running[name]
        return status

    def line(self, name: str) -> list[str]:
        """The next line that the process prints, in words."""
        return self.running[name].stdout.readline().split()

    def tell(self, name: str) -> None:
        """Send the process a line."""
        stream = self.running[name].stdin
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
    """Chance with a seed that is printed when the test fails, and replayed by the environment."""
    given = os.environ.get(SEED)
    default = zlib.crc32(request.node.nodeid.encode()) ^ random.getrandbits(32)
    seed = int(given) if given else default
    print(f"replay with {SEED}={seed}")
    return random.Random(seed)
