"""The write lock: a side file that writers queue on, because SQLite's own lock is a poll.

SQLite's busy handler sleeps up to 100 ms between tries and is unfair. An `flock` on a side file
puts the writers in an order: it is a turnstile of two locks, and a waiting writer holds the first
while it waits for the second, so a writer that has just released the lock cannot take it again
before the one that waited. It only orders the writers that use it: SQLite's lock still guards the
data. The kernel releases it when its holder dies.

A blocking `flock` has no timeout, and a process that is suspended (SIGSTOP, a paused container)
while it is in the line blocks all others. So a writer tries again and again, ever less often, and
if it gets no place in time it goes on without an order (docs/decisions/turnstile.md has the
measurements).
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
"""Waiting longer than that means that a process in the line is suspended: a transaction takes
milliseconds."""

FIRST_PAUSE_S = 10e-6
LONGEST_PAUSE_S = 0.5e-3

_TRY = 0 if fcntl is None else fcntl.LOCK_EX | fcntl.LOCK_NB


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
        # One transaction waits for a suspended process, not every one until it goes on.
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
        """Close the files."""
        for file in self._files or ():
            os.close(file)
        self._files = None


def _take(file: int, end: float) -> bool:
    """Take one of the locks; False if another process kept it until `end`, in monotonic seconds."""
    assert fcntl is not None
    began: float | None = None  # to wait: mostly the lock is free, and no clock is read
    while True:
        try:
            fcntl.flock(file, _TRY)
        except BlockingIOError:
            now = time.monotonic()
            began = now if began is None else began
            if now >= end:
                return False
            time.sleep(min(max((now - began) / 32, FIRST_PAUSE_S), LONGEST_PAUSE_S))
        else:
            return True
