"""Kills what a worker started, once the worker is gone: killed by force, say, or out of memory.

A separate process, because only that outlives a SIGKILL of the worker. It reads process groups from
stdin, `+PID` and `-PID` in lines, and holds nothing else; `guard` starts it. It notices that the
worker is gone by the end of stdin, or by having another parent: a process that was forked off the
worker, and not by Andon, keeps that pipe open.

It imports next to nothing, for it must be there soon and cost little.
"""

import os
import select
import signal
import sys

_LOOK_S = 1.0


def main(worker: int) -> None:
    """Hold groups until the worker, whose pid is given, is gone; then kill those that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)  # the worker decides when this is over
    kill(held_until_gone(0, worker))


def kill(groups: set[int]) -> None:
    """Kill process groups by force. Those that have ended, or may not be killed, are left."""
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def held_until_gone(source: int, worker: int) -> set[int]:
    """Read from a file descriptor until the worker is gone; the groups that it held."""
    held: set[int] = set()
    rest = b""
    while True:
        ready, _, _ = select.select([source], [], [], _LOOK_S)
        if not ready:
            if os.getppid() != worker:
                return held
            continue
        data = os.read(source, 65_536)
        if not data:
            return held
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line[:1] == b"+":
                held.add(int(line[1:]))
            else:
                held.discard(int(line[1:]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
