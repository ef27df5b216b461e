"""The write lock: a side file that writers queue on, because SQLite's own lock is a poll.

SQLite's busy handler sleeps up to 100 ms between tries and is unfair; an `flock` on a side file
wakes the next writer at once. It only orders those who take it: SQLite's lock still guards the
data. The kernel lets go of it when its holder dies.

It is a turnstile of two locks: whoever waits holds the first while waiting for the second, so a
writer that has just let go cannot take its own place again before the one who waited. Measured
with one process submitting in bulk: submit to claim in another, p50/p99, 15/81 ms with one lock,
3/8 ms with two (2 cores, docs/decisions).
"""

import os
from pathlib import Path
from types import TracebackType

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX: SQLite's busy timeout alone
    fcntl = None


class WriteLock:
    """Held while writing. Use from one thread."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + "-lock")
        self._turnstile: int | None = None
        self._file: int | None = None

    def __enter__(self) -> None:
        if fcntl is None:  # pragma: no cover
            return
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._turnstile = os.open(f"{self._path}-turn", flags, 0o644)
            self._file = os.open(self._path, flags, 0o644)
        assert self._turnstile is not None
        fcntl.flock(self._turnstile, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._turnstile, fcntl.LOCK_UN)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if fcntl is not None and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        for file in (self._file, self._turnstile):
            if file is not None:
                os.close(file)
        self._file = self._turnstile = None
