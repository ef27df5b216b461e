"""A fleet of processes, all of them killed and reaped whatever a test does."""

import os
import random
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("program.py")
SEED = "ANDON_CRASH_SEED"


class Fleet:
    """Processes on one file, started and killed by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "andon.db"
        self.url = f"sqlite:///{self.file}"
        self.running: dict[str, subprocess.Popen[str]] = {}
        self._starts = 0

    def start(self, name: str, role: str, seed: object, *arguments: object) -> None:
        """Start a process; its output goes to a file, its answers to a pipe."""
        self._starts += 1
        with (self.folder / f"log-{name}-{self._starts}").open("w") as log:
            self.running[name] = subprocess.Popen(
                [
                    sys.executable,
                    str(PROGRAM),
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
            )

    def signal(self, name: str, number: int) -> None:
        self.running[name].send_signal(number)

    def kill(self, name: str) -> int:
        """Kill -9 and reap; the exit status."""
        process = self.running.pop(name)
        process.kill()
        process.communicate()
        return process.returncode

    def end(self, name: str, timeout: float = 10) -> int:
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


@pytest.fixture
def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
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
