"""Bytecodes of Andon's functions for one task: a figure that is the same at any load.

    python benchmarks/bytecodes.py KIND... [--rev REV] [--only NAME,...] [--by-function N]
        [--by-change N]

For each kind of store (memory, sqlite, redis, postgres, nats) a process does the blocks of
`beside_revision.py` while Python reports each bytecode it executes, in all threads. A block is
repeated, and the one with the fewest counts. With `--rev` the figures of an older commit stand
beside those of this tree, with `--by-function` also those of the N functions that take most, and
with `--by-change` of the N whose figures differ most.

It takes a minute a store. A bytecode may be short or long, and C code and servers do not count: for
what a task costs see `instructions.py`. This says where steps were added or saved.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from beside_revision import HERE, places, source_of

BLOCKS = {"submit one": 40, "submit bulk": 400, "claim one": 40, "drain": 400, "e2e": 300}
"""What is counted, and tasks in a block of it."""

Found = Mapping[str, Mapping[str, float]]
"""Bytecodes a task, by operation and function."""


def counted(src: Path, url: str, names: list[str], blocks: int) -> Found:
    """The bytecodes of each operation with that source tree on that store."""
    asked = [f"{name}={BLOCKS[name]}" for name in names]
    command = [sys.executable, HERE / "bytecodes_side.py", url, str(blocks), *asked]
    env = {**os.environ, "PYTHONPATH": str(src)}
    said = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name: dict(counts) for name, counts in json.loads(said).items()}


class Shown(NamedTuple):
    """How many functions are shown of each operation."""

    taking_most: int
    changed_most: int

    def of(self, taken: Mapping[str, list[float]]) -> list[str]:
        """Their names; `taken` has the figure of each side."""
        most = sorted(taken, key=lambda one: (-max(taken[one]), one))[: self.taking_most]
        changed = sorted(taken, key=lambda one: (min(taken[one]) - max(taken[one]), one))
        return list(dict.fromkeys([*most, *changed[: self.changed_most]]))


def report(kind: str, sides: Mapping[str, Found], names: list[str], shown: Shown) -> None:
    """Print the tables of one kind of store."""
    print(f"\n| {kind}, bytecodes a task | {' | '.join(sides)} |\n|---|{'---|' * len(sides)}")
    for name in names:
        _row(name, [sum(found[name].values()) for found in sides.values()])
        called = set().union(*(found[name] for found in sides.values()))
        taken = {one: [found[name].get(one, 0) for found in sides.values()] for one in called}
        for one in shown.of(taken):
            _row(f"{name}: {one}", taken[one])


def _row(name: str, taken: list[float]) -> None:
    print(f"| {name} |", " | ".join(f"{count:.0f}" for count in taken), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", metavar="KIND", nargs="+")
    parser.add_argument("--rev", help="an older commit to count beside this tree")
    parser.add_argument("--only", default=",".join(BLOCKS), help="of: " + ", ".join(BLOCKS))
    parser.add_argument("--by-function", metavar="N", type=int, default=0)
    parser.add_argument("--by-change", metavar="N", type=int, default=0)
    parser.add_argument("--blocks", type=int, default=4, help="of each operation")
    given = parser.parse_args()
    names = given.only.split(",")
    if given.by_change and not given.rev:
        parser.error("--by-change needs --rev, the commit that it is a change from.")
    if unknown := set(names) - set(BLOCKS):
        parser.error(f"--only: not counted here: {', '.join(unknown)}")
    with ExitStack() as stack:
        sources = {"new": HERE.parent / "src"}
        if given.rev:
            sources["old"] = stack.enter_context(source_of(given.rev))
        for kind in given.kinds:
            with places(kind) as (urls, _):
                sides = {
                    side: counted(src, urls[side], names, given.blocks)
                    for side, src in sources.items()
                }
            report(kind, sides, names, Shown(given.by_function, given.by_change))


if __name__ == "__main__":
    main()
