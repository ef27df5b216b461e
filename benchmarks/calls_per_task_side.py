"""One tree's part of `calls_per_task.py`: runs lone tasks and counts the calls of Python functions.

    PYTHONPATH=SRC python calls_per_task_side.py URL TASKS SKIPPED

Uses only what the trees of both sides have. Prints one JSON object: for each task that was not
skipped, the calls by (phase, module, function) as a list of counts beside a list of names.
"""

import asyncio
import dis
import json
import sys
import threading
from collections import Counter
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import andon
from andon import Andon

HOME = str(Path(andon.__file__).parent)

PHASE: ContextVar[str] = ContextVar("phase", default="other threads")
"""Which part of a task's life a call serves. Tasks and callbacks of the event loop inherit it from
who made them; a thread of a store has no part of its own, so its calls are counted apart."""

Where = tuple[str, CodeType]


class Counting:
    """Counts calls of functions of this tree, in all threads."""

    def __init__(self) -> None:
        self._counts: Counter[Where] = Counter()
        self._starts: dict[CodeType, int] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            code = frame.f_code
            start = self._starts.get(code)
            if start is None:
                start = self._starts[code] = _start_of(code)
            if frame.f_lasti == start:
                self._counts[PHASE.get(), code] += 1

    def taken(self) -> Counter[Where]:
        """What was counted since the last time."""
        counts, self._counts = self._counts, Counter()
        return counts


def _start_of(code: CodeType) -> int:
    """Where a call of the function begins: the profiler also reports a coroutine that goes on after
    it has waited. -1 for a function that is not Andon's."""
    if not code.co_filename.startswith(HOME):
        return -1
    return next(step.offset for step in dis.get_instructions(code) if step.opname == "RESUME")


async def lone_tasks(
    url: str, tasks: int, skipped: int, counting: Counting
) -> list[Counter[Where]]:
    """The calls of each task: submitted, run by a worker of this process, its result awaited."""
    PHASE.set("claim, run, complete")  # of what the worker and the store begin
    app = Andon(url)

    @app.task(name="lone", queue="lone")
    async def lone(number: int) -> int:
        return number

    found: list[Counter[Where]] = []
    async with app, app.working(queues=["lone"]):
        for number in range(skipped + tasks):
            PHASE.set("submit")
            handle = await lone.submit(number)
            PHASE.set("result")
            assert await handle.result(timeout=60) == number
            counts = counting.taken()
            if number >= skipped:
                found.append(counts)
        PHASE.set("claim, run, complete")
    return found


def as_json(found: list[Counter[Where]]) -> str:
    """The counts as columns of a table, one row a task."""
    places = list(set().union(*found))
    names = [
        (phase, code.co_filename.removeprefix(HOME).lstrip("/"), code.co_qualname)
        for phase, code in places
    ]
    return json.dumps({"names": names, "tasks": [[one[p] for p in places] for one in found]})


def main(url: str, tasks: int, skipped: int) -> None:
    """Count, and print."""
    counting = Counting()
    threading.setprofile(counting)
    sys.setprofile(counting)
    found = asyncio.run(lone_tasks(url, tasks, skipped, counting))
    sys.setprofile(None)
    print(as_json(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
