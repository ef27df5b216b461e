"""Calls of Python functions for one lone task: a figure that neighbours on the machine barely move.

    python benchmarks/calls_per_task.py KIND... [--rev REV] [--by-function N] [--tasks N] [--skip N]

For each kind of store (memory, sqlite, redis, postgres, nats) one process submits a task, a worker
in that process claims and runs it, and the process waits for the result; then comes the next task.
The profiler reports each call of a function of Andon, in all threads; a coroutine counts once.

The tables give medians a task over `--tasks` tasks, after the first `--skip`: by phase, by package
and, with `--by-function`, for the N functions that are called most. With `--rev` the figures of an
older commit stand beside those of this tree.

A call may be short or long, and calls of C code and work of servers do not count. So the figures do
not tell how long a task takes. They tell which steps it takes, and whether a change added some.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from beside_revision import HERE, places, source_of

PHASES = ("submit", "claim, run, complete", "result", "other threads")


class Place(NamedTuple):
    """A function, and the part of a task's life that it was called in."""

    phase: str
    module: str  #: its path within andon
    function: str

    @property
    def package(self) -> str:
        """The part of the house it lives in: `engine`, `stores/redis`."""
        parts = Path(self.module).parent.parts
        return "/".join(parts[:2]) or self.module


class Counts(NamedTuple):
    """What was called for each task."""

    places: list[Place]
    tasks: list[list[int]]

    def medians(self, name_of: Callable[[Place], str]) -> dict[str, float]:
        """Median calls a task, of the places of each name together."""
        columns: dict[str, list[int]] = {}
        for number, place in enumerate(self.places):
            columns.setdefault(name_of(place), []).append(number)
        return {
            name: statistics.median(sum(task[n] for n in numbers) for task in self.tasks)
            for name, numbers in columns.items()
        }


def counted(src: Path, url: str, tasks: int, skipped: int) -> Counts:
    """The calls of lone tasks with that source tree on that store."""
    command = [sys.executable, HERE / "calls_per_task_side.py", url, str(tasks), str(skipped)]
    env = {**os.environ, "PYTHONPATH": str(src)}
    said = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    told = json.loads(said)
    return Counts([Place(*name) for name in told["names"]], told["tasks"])


def report(kind: str, sides: Mapping[str, Counts], functions: int) -> None:
    """Print the tables of one kind of store."""
    header = " | ".join(sides)
    print(f"\n| {kind}, calls a task | {header} |\n|---|{'---|' * len(sides)}")
    _row("all", [counts.medians(lambda _: "all")["all"] for counts in sides.values()])
    by_phase = {side: counts.medians(lambda p: p.phase) for side, counts in sides.items()}
    for phase in PHASES:
        _row(phase, [medians.get(phase, 0) for medians in by_phase.values()])
    _gap(sides)
    _rows({side: c.medians(lambda p: p.package) for side, c in sides.items()})
    if functions:
        _gap(sides)
        named = {
            side: counts.medians(lambda p: f"{p.phase}: {p.module} {p.function}")
            for side, counts in sides.items()
        }
        _rows(named, functions)


def _rows(sides: Mapping[str, dict[str, float]], most: int | None = None) -> None:
    """A row for each name, those called most first."""
    names = set().union(*sides.values())
    calls = {name: [side.get(name, 0) for side in sides.values()] for name in names}
    ranked = sorted((name for name in names if any(calls[name])), key=lambda n: (-calls[n][0], n))
    for name in ranked[:most]:
        _row(name, calls[name])


def _gap(sides: Mapping[str, Counts]) -> None:
    print("| |" + " |" * len(sides))


def _row(name: str, calls: list[float]) -> None:
    print(f"| {name} |", " | ".join(f"{count:g}" for count in calls), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", metavar="KIND", nargs="+")
    parser.add_argument("--rev", help="an older commit to count beside this tree")
    parser.add_argument("--by-function", metavar="N", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--skip", type=int, default=200, help="tasks before them")
    given = parser.parse_args()
    with ExitStack() as stack:
        sources = {"new": HERE.parent / "src"}
        if given.rev:
            sources["old"] = stack.enter_context(source_of(given.rev))
        for kind in given.kinds:
            with places(kind) as (urls, _):
                sides = {
                    side: counted(src, urls[side], given.tasks, given.skip)
                    for side, src in sources.items()
                }
            report(kind, sides, given.by_function)


if __name__ == "__main__":
    main()
