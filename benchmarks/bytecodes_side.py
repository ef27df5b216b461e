"""One tree's part of `bytecodes.py`: does blocks of tasks and counts the bytecodes they take.

    PYTHONPATH=SRC python bytecodes_side.py URL BLOCKS NAME=TASKS...

Prints one JSON object: by name, the least of the blocks, as bytecodes a task by (module, function).
"""

import asyncio
import json
import sys
import threading
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from beside_revision_side import Measured
from full_speed import lone_submits
from meter import Meter

import andon
from andon.client.app import Andon
from andon.stores.registry import open_store

HOME = str(Path(andon.__file__).parent)


class Counting(Meter):
    """Counts the bytecodes of functions of this tree, in all threads, from `start` to `stop`."""

    def __init__(self) -> None:
        super().__init__(None)
        self.counts: Counter[CodeType] = Counter()
        self._counts_now = False

    def start(self) -> None:
        """Count from here."""
        self.counts = Counter()
        self._counts_now = True

    def stop(self) -> None:
        """Up to here."""
        self._counts_now = False

    def trace(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        """Called of each new frame; what it returns is called of each of its bytecodes."""
        if not (self._counts_now and frame.f_code.co_filename.startswith(HOME)):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "opcode":
            self.counts[frame.f_code] += 1
        return self._step


async def counted(url: str, blocks: int, names: dict[str, int], counting: Counting) -> Any:
    """The blocks with the fewest bytecodes: those in which nothing happened by chance."""
    store = open_store(url)
    await store.open()
    found: dict[str, list[tuple[str, float]]] = {}
    async with Andon(url) as app:
        measured = Measured(app, store, counting)
        for name, tasks in names.items():
            least: Counter[CodeType] | None = None
            for _ in range(blocks):
                with lone_submits(store, url) if name == "submit one" else nullcontext():
                    await measured.block(name, tasks)
                if least is None or counting.counts.total() < least.total():
                    least = counting.counts
            assert least is not None
            found[name] = [(_called(code), n / tasks) for code, n in least.items()]
    await store.close()
    return found


def _called(code: CodeType) -> str:
    return f"{code.co_filename.removeprefix(HOME).lstrip('/')} {code.co_qualname}"


def main(url: str, blocks: int, *names: str) -> None:
    """Count, and print."""
    counting = Counting()
    threading.settrace(counting.trace)
    sys.settrace(counting.trace)
    asked = {name: int(tasks) for name, _, tasks in (one.partition("=") for one in names)}
    found = asyncio.run(counted(url, blocks, asked, counting))
    sys.settrace(None)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
