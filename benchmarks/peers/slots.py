"""Which tasks ran, and when: a file mapped into the workers and the process that watches them.

Each task has a slot by its number, into which its handler writes when it ran; so every completion
is known by name, repeats are counted, and neither forks nor several worker processes escape. It
costs a handler a microsecond or two.
"""

import itertools
import mmap
import os
import struct
import time
from functools import cache
from pathlib import Path

_HEAD = struct.Struct("=6q")
"""Process, repeats, CPU ns at its first run and at a late one, and the numbers of these two."""

_SLOT = struct.Struct("=q")
_EVERY = 64  #: runs between two looks at the CPU clock, which is a system call

_count = itertools.count(1)


def ran(number: int) -> None:
    """Called by each task's handler: task `number` runs now."""
    now, slots = time.monotonic_ns(), _mine()
    at = _HEAD.size + number * _SLOT.size
    if _SLOT.unpack_from(slots, at)[0]:
        pid, repeats, *rest = _HEAD.unpack_from(slots)
        _HEAD.pack_into(slots, 0, pid, repeats + 1, *rest)
        return
    _SLOT.pack_into(slots, at, now)
    count = next(_count)
    if count % _EVERY == 1:
        _look_at_cpu(slots, count)


def _look_at_cpu(slots: mmap.mmap, count: int) -> None:
    _, repeats, first, _, began, _ = _HEAD.unpack_from(slots)
    cpu = time.process_time_ns()
    if count == 1:
        first, began = cpu, 1
    _HEAD.pack_into(slots, 0, os.getpid(), repeats, first, cpu, began, count)


@cache
def _mine() -> mmap.mmap:
    return _opened(Path(os.environ["BENCH_SLOTS"]))


def _opened(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


class Slots:
    """The watcher's side, for tasks 0 to `size` - 1."""

    def __init__(self, path: Path, size: int) -> None:
        path.write_bytes(bytes(_HEAD.size + size * _SLOT.size))
        self.path = path
        self._map = _opened(path)
        self._seen: dict[int, int] = {}

    def close(self) -> None:
        self._map.close()

    def at(self, number: int) -> int:
        """When the task ran, by the monotonic clock in ns; 0: not yet."""
        return _SLOT.unpack_from(self._map, _HEAD.size + number * _SLOT.size)[0]

    def all_ran(self, numbers: range) -> bool:
        """Whether each of these has run; asked often, it looks at each only until it has."""
        at = self._seen.get(numbers.start, numbers.start)
        while at < numbers.stop and self.at(at):
            at += 1
        self._seen[numbers.start] = at
        return at == numbers.stop

    def times(self, numbers: range) -> list[int]:
        """When those that ran did, in order."""
        return sorted(at for number in numbers if (at := self.at(number)))

    def repeats(self) -> int:
        """Runs of tasks that had run before."""
        return _HEAD.unpack_from(self._map)[1]

    def cpu_us(self) -> float | None:
        """CPU of the process that ran them, per task, between its first and one of its last."""
        _, _, first, latest, began, count = _HEAD.unpack_from(self._map)
        return (latest - first) / (count - began) / 1000 if count > began else None
