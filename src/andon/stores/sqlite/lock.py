"""The write lock: a side file that writers queue on, because SQLite's own lock is a poll.

SQLite's busy handler sleeps up to 100 ms between tries and is unfair. An `flock` on a side file
puts the writers in an order: it is a turnstile of two locks, and whoever waits holds the first
while waiting for the second, so a writer that has just let go cannot take its own place again
before the one who waited. It only orders those who take it: SQLite's lock still guards the data.
The kernel lets go of it when its holder dies.

Nothing ends a blocking `flock` after a while, and a process that is stopped (SIGSTOP, a paused
container) while it stands in the line lets nobody pass. So a writer tries again and again, ever
less often, and whoever the line does not let through goes on without an order
(docs/decisions/turnstile.md has the measurements).
"""

import os
import time
from pathlib import Path
from types import TracebackType

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX: SQLite's busy timeout alone
    fcntl = None

STOPPED_S = 2.0
"""Waiting longer than that means that somebody in the line is stopped: a transaction takes
milliseconds."""

FIRST_PAUSE_S = 10e-6
LONGEST_PAUSE_S = 0.5e-3


class WriteLock:
    """Held while writing. Use from one thread."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + "-lock")
        self._files: tuple[int, int] | None = None  # the turnstile's, and the lock's
        self._patience_s = STOPPED_S
        self._holds = False

    def __enter__(self) -> None:
        if fcntl is None:  # pragma: no cover
            return
        if self._files is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            turnstile = os.open(f"{self._path}-turn", flags, 0o644)
            self._files = turnstile, os.open(self._path, flags, 0o644)
        turnstile, file = self._files
        end = time.monotonic() + self._patience_s
        self._holds = False
        if _take(turnstile, end):
            try:
                self._holds = _take(file, end)
            finally:
                fcntl.flock(turnstile, fcntl.LOCK_UN)
        # Whoever is stopped is waited for once, not by every transaction until it goes on.
        self._patience_s = STOPPED_S if self._holds else 0.0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._holds and fcntl is not None and self._files is not None:
            fcntl.flock(self._files[1], fcntl.LOCK_UN)
        self._holds = False

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files or ():
            os.close(file)
        self._files = None


def _take(file: int, end: float) -> bool:
    """Take one of the locks; False if somebody kept it until `end`, in monotonic seconds."""
    assert fcntl is not None
    began = time.monotonic()
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            if now >= end:
                return False
            time.sleep(min(max((now - began) / 32, FIRST_PAUSE_S), LONGEST_PAUSE_S))
        else:
            return True
