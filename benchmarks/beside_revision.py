"""Processor time per task, of this tree beside an older commit: what has a change cost?

    python benchmarks/beside_revision.py REV KIND... [--rounds N] [--only NAME,...] [--seed N]
    python benchmarks/beside_revision.py REV KIND... --clock --rounds 10

Each kind of store (memory, sqlite, redis, postgres, nats) is measured by two processes: one with
this tree's `src`, one with that of REV. They share one server, each in a namespace of its own, and
take turns in short blocks, new old old new and the other way round, so that both have the same
neighbours. Time of the clock would tell of the neighbours; what counts is the processor time of the
side's process and of the server's, for the block. All of them run on one processor, for a server on
another makes each wait dearer by half, and the scheduler would choose for as long as a process
lives. No wait for an answer spins. After a few rounds other processes take their place: where its
memory happens to lie may make one a few per cent slower for as long as it lives. That depends on
how long the paths of its files are, among others, so each process has them by a path of random
length. They do one thing only, for a store that has claimed is sent hints of submits from then on.

The ratios are medians over the rounds of new to old, with the interval that holds 95 % of the
medians of rounds drawn again (bootstrap). One above 1 says that this tree costs more.

With `--clock` it is the time of the clock, of larger blocks, on all processors, and the ratio says
how many times as fast this tree is. That wants a machine with nothing else to do.
"""

import argparse
import io
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import store_servers

HERE = Path(__file__).resolve().parent

BLOCKS = {"submit one": 100, "submit bulk": 1_000, "claim one": 100, "drain": 1_000, "e2e": 500}
"""What is measured, and tasks in a block of it."""

BY_THE_CLOCK = 4
"""How many times as large a block is whose time of the clock is measured."""

TURNS = (("new", "old", "old", "new"), ("old", "new", "new", "old"))

A_LIFE = 3
"""Rounds of two processes that count. Few: where the memory of a process lies stays for as long as
it lives, and moves the figures of lone tasks most."""

LONGEST_PATH = 100
"""Characters by which the paths of two processes may differ."""

DRAWS = 2_000
"""Times that rounds are drawn again for an interval."""


class Cost(NamedTuple):
    """Processor time and time of the clock, in µs a task."""

    client: float
    server: float
    clock: float

    @property
    def both(self) -> float:
        """What a task costs the machine."""
        return self.client + self.server


class Pair(NamedTuple):
    """What one round gave for one operation."""

    new: Cost
    old: Cost


class Side:
    """A process that runs the measurements on request, with the source tree of one side. `at`: a
    folder that has the tree as `src` and ours of benchmarks."""

    def __init__(self, at: Path, url: str, server: int | None) -> None:
        src = at / "src"
        script = at / HERE.name / "beside_revision_side.py"
        command = [sys.executable, script, url, str(server or "")]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(src)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        where = Path(self._said()["andon"])
        if not where.is_relative_to(src):
            raise SystemExit(f"{where} was imported instead of what is in {src}.")

    def measure(self, what: str, n: int) -> Cost:
        """The cost of one block."""
        assert self._process.stdin is not None
        print(json.dumps([what, n]), file=self._process.stdin, flush=True)
        told = self._said()
        return Cost(*(told[name] / n / 1_000 for name in ("client_ns", "server_ns", "clock_ns")))

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _said(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("A side has ended; what it said is above.")
        return json.loads(line)


@contextmanager
def source_of(revision: str) -> Iterator[Path]:
    """The folder `src` as it was in that commit."""
    command = ["git", "-C", HERE.parent, "archive", revision, "src"]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory(prefix="andon-old-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extraction_filter = lambda member, _: member  # our own; 3.11.4 has filters
            tar.extractall(folder)
        yield Path(folder) / "src"


@contextmanager
def at_some_path(src: Path, rng: random.Random) -> Iterator[Path]:
    """A folder with links to this `src` and to our benchmarks, by a path of random length."""
    with tempfile.TemporaryDirectory(prefix="andon-" + "x" * rng.randrange(LONGEST_PATH)) as made:
        folder = Path(made)
        (folder / "src").symlink_to(src)
        (folder / HERE.name).symlink_to(HERE)
        yield folder


@contextmanager
def places(kind: str) -> Iterator[tuple[dict[str, str], int | None]]:
    """A URL for each side, and the process that serves both."""
    if kind == "memory":
        yield {"new": "memory://", "old": "memory://"}, None
    elif kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="andon-beside-") as folder:
            urls = {
                side: f"sqlite:///{folder}/{side}.db?synchronous=normal" for side in ("new", "old")
            }
            yield urls, None
    else:
        with store_servers.running(kind) as started:
            urls = {side: started.namespace(side) for side in ("new", "old")}
            yield urls, started.pid


def measure(
    kind: str, old: Path, rounds: int, sizes: dict[str, int], rng: random.Random
) -> dict[str, list[Pair]]:
    """All rounds of one kind of store, of operations in blocks of so many tasks."""
    sources = {"new": HERE.parent / "src", "old": old}
    found: dict[str, list[Pair]] = {name: [] for name in sizes}
    with places(kind) as (urls, server):
        for name, first in itertools.product(sizes, range(0, rounds, A_LIFE)):
            with ExitStack() as stack:
                folders = {
                    name: stack.enter_context(at_some_path(sources[name], rng)) for name in urls
                }
                sides = {name: Side(folders[name], urls[name], server) for name in urls}
                for side in sides.values():
                    stack.callback(side.close)
                _in_turns(sides, name, sizes[name], TURNS[0])  # to warm up
                for number in range(first, min(first + A_LIFE, rounds)):
                    turns = TURNS[number % 2]
                    found[name].append(_in_turns(sides, name, sizes[name], turns))
    return found


def _in_turns(sides: dict[str, Side], name: str, size: int, turns: Sequence[str]) -> Pair:
    costs: dict[str, list[Cost]] = {side: [] for side in sides}
    for turn in turns:
        costs[turn].append(sides[turn].measure(name, size))
    mean = {side: Cost(*map(statistics.mean, zip(*costs[side], strict=True))) for side in sides}
    return Pair(**mean)


def report(kind: str, found: dict[str, list[Pair]], rng: random.Random) -> None:
    """Print the table of one kind of store."""
    print(f"\n| {kind} | client µs, old → new | ratio | server µs | ratio | both |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, pairs in found.items():
        cells = [name]
        for part in ("client", "server"):
            new, old = ([getattr(side, part) for side in column] for column in _columns(pairs))
            if not any(old):
                cells += ["", ""]
                continue
            cells.append(f"{statistics.median(old):.1f} → {statistics.median(new):.1f}")
            cells.append(_ratio([n / o for n, o in zip(new, old, strict=True)], rng))
        cells.append(_ratio([pair.new.both / pair.old.both for pair in pairs], rng))
        print("|", " | ".join(cells), "|", flush=True)


def report_clock(kind: str, found: dict[str, list[Pair]], rng: random.Random) -> None:
    """Print the table of one kind of store, of time of the clock."""
    print(f"\n| {kind} | µs of the clock, old → new | times as fast |\n|---|---|---|", flush=True)
    for name, pairs in found.items():
        old, new = ([side.clock for side in column] for column in reversed(_columns(pairs)))
        took = f"{statistics.median(old):.1f} → {statistics.median(new):.1f}"
        faster = _ratio([o / n for n, o in zip(new, old, strict=True)], rng)
        print(f"| {name} | {took} | {faster} |", flush=True)


def _columns(pairs: Sequence[Pair]) -> tuple[list[Cost], list[Cost]]:
    return [pair.new for pair in pairs], [pair.old for pair in pairs]


def _ratio(ratios: Sequence[float], rng: random.Random) -> str:
    drawn = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    low, high = drawn[DRAWS * 25 // 1_000], drawn[-DRAWS * 25 // 1_000]
    return f"{statistics.median(ratios):.3f} ({low:.2f} to {high:.2f})"


def stay_on_one_processor() -> None:
    """Let this process and all that it starts share a processor, where the system can."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", metavar="REV")
    parser.add_argument("kinds", metavar="KIND", nargs="+")
    parser.add_argument("--rounds", type=int, default=48)
    parser.add_argument("--only", default=",".join(BLOCKS), help="of: " + ", ".join(BLOCKS))
    parser.add_argument(
        "--seed", type=int, default=0, help="of paths and of the rounds drawn again"
    )
    parser.add_argument("--clock", action="store_true", help="measure the time of the clock")
    given = parser.parse_args()
    names = given.only.split(",")
    if unknown := set(names) - set(BLOCKS):
        parser.error(f"--only: not measured here: {', '.join(unknown)}")
    sizes = {name: BLOCKS[name] * (BY_THE_CLOCK if given.clock else 1) for name in names}
    if not given.clock:
        stay_on_one_processor()
    with source_of(given.revision) as old:
        for kind in given.kinds:
            rng = random.Random(given.seed)
            found = measure(kind, old, given.rounds, sizes, rng)
            (report_clock if given.clock else report)(kind, found, rng)
    print(f"\nLoad at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors.")


if __name__ == "__main__":
    main()
