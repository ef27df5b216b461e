"""Finds the processes that hold the write lock of a file or wait in line for it.

Linux lists every lock with its process and its file (/proc/locks). On other systems, and for
processes in another container, nothing is found.
"""

from pathlib import Path
from typing import NamedTuple

_WRITER = "120"
"""Byte of the `-shm` file that SQLite locks while it writes (https://sqlite.org/walformat.html)."""


class Holder(NamedTuple):
    """A process with a lock."""

    pid: int
    writes: bool  #: it holds SQLite's own lock; else it has a place in the line for it
    is_stopped: bool  #: by SIGSTOP or a debugger

    def __str__(self) -> str:
        return f"process {self.pid}{', which is stopped' if self.is_stopped else ''}"


def holders(database: Path) -> list[Holder]:
    """The processes that hold the file's write lock, or have a place in the line for it."""
    files = {
        _identity(database.with_name(f"{database.name}{end}")): end
        for end in ("-shm", "-lock", "-lock-turn")
    }
    found: list[Holder] = []
    try:
        listed = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    for line in listed:
        # 7: POSIX  ADVISORY  WRITE 1234 fe:00:2490853 120 120
        number, _, rest = line.partition(":")
        fields = rest.split()
        if not number.isdigit() or len(fields) != 7:  # `->` marks one that waits
            continue
        _, _, mode, pid, inode, first, _ = fields
        end = files.get(inode.rpartition(":")[2])
        is_ours = end is not None and mode == "WRITE" and pid.isdigit() and int(pid) > 0
        if is_ours and (end != "-shm" or first == _WRITER):
            found.append(Holder(int(pid), end == "-shm", _is_stopped(int(pid))))
    return found


def writer_of(database: Path) -> Holder | None:
    """The process that holds SQLite's own lock, if it is known."""
    return next((holder for holder in holders(database) if holder.writes), None)


def _identity(file: Path) -> str:
    try:
        return str(file.stat().st_ino)
    except OSError:
        return ""


def _is_stopped(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] in (["T"], ["t"])
