"""The command line as a process on a terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ANDON = [sys.executable, "-m", "andon.cli"]

PATIENCE_S = 60


class Terminal:
    """A terminal of 120 columns, and the command on it."""

    def __init__(self, process: "subprocess.Popen[bytes]", screen: int) -> None:
        self._process = process
        self._screen = screen

    def read(self) -> str:
        """What is printed next; nothing when the command has ended."""
        assert select.select([self._screen], [], [], PATIENCE_S)[0], "nothing is printed"
        try:
            return os.read(self._screen, 65_536).decode(errors="replace")
        except OSError:  # Linux: the last one has closed it
            return ""

    def until(self, text: str) -> str:
        """What is printed until this has been."""
        told = ""
        while text not in told:
            part = self.read()
            assert part, f"{text!r} was not printed, but:\n{told}"
            told += part
        return told

    def rest(self) -> str:
        """What is printed until the command ends."""
        told = ""
        while part := self.read():
            told += part
        return told

    def press(self, keys: str) -> None:
        """Type on it."""
        os.write(self._screen, keys.encode())

    def interrupt(self) -> None:
        """Send SIGINT."""
        self._process.send_signal(signal.SIGINT)

    def code(self) -> int:
        """Wait for the end; the exit code."""
        return self._process.wait(PATIENCE_S)


@contextmanager
def on_terminal(*args: str, env: dict[str, str], folder: Path) -> Iterator[Terminal]:
    """Run a command on a terminal, and kill it if it has not ended by then."""
    screen, theirs = pty.openpty()
    env = {**env, "COLUMNS": "120", "TERM": "xterm-256color"}
    try:
        try:
            process = subprocess.Popen(
                [*ANDON, *args], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=folder
            )
        finally:
            os.close(theirs)
        with process:
            try:
                yield Terminal(process, screen)
            finally:
                process.kill()
    finally:
        os.close(screen)
