"""Instructions per task, of this tree beside an older commit: figures that no neighbour moves.

    python benchmarks/instructions.py REV KIND... [--only NAME,...] [--of client,server] [--no-old]

For each kind of store (memory, sqlite, redis, postgres, nats) a process with this tree's `src` and
one with that of REV do the blocks of `beside_revision.py` under `valgrind --tool=callgrind`, which
counts the instructions of user mode: those of the interpreter, the store's threads and the
libraries in C. With `--of server` it is Redis's server that runs under it; those of PostgreSQL (a
process for each session, of another user) and NATS (in Go) cannot. It counts only while a block is
measured, and slows down what it counts by fifty times; the blocks are small.

An old commit does the same every time: with `--no-old` only this tree is counted, after a change.

The ratios are of medians over the blocks of new to old, with the interval that holds 95 % of the
ratios of blocks drawn again (bootstrap). One above 1 says that this tree costs more. The kernel's
instructions are not among them, nor is what waiting for memory costs.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import store_servers
from beside_revision import HERE, source_of

BLOCKS = {"submit one": 25, "submit bulk": 200, "claim one": 25, "drain": 200, "e2e": 200}
"""What is counted, and tasks in a block of it: few, because counting is slow."""

WARMING = 2
"""Blocks before those that count."""

DRAWS = 2_000
"""Times that blocks are drawn again for an interval."""

CALLGRIND = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no"]


Figures = dict[str, dict[str, list[float]]]
"""By operation and side."""


class Asked(NamedTuple):
    """What is to be counted."""

    names: list[str]
    blocks: int


class Counted:
    """Processes under callgrind, which count while they are told to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def command(self) -> list[str]:
        """What to put before a command."""
        return [*CALLGRIND, f"--callgrind-out-file={self._folder}/%p"]

    def begin(self, pid: int) -> None:
        """Count from here."""
        _monitor(pid, "instrumentation on")
        _monitor(pid, "zero")

    def end(self, pid: int) -> int:
        """What it did since; it counts no longer."""
        _monitor(pid, "dump")
        _monitor(pid, "instrumentation off")
        dumps = list(self._folder.glob(f"{pid}.*"))
        found = sum(_total(dump) for dump in dumps)
        for dump in dumps:
            dump.unlink()
        return found


def _monitor(pid: int, command: str) -> None:
    """A command to the process under valgrind."""
    subprocess.run(["vgdb", f"--pid={pid}", *command.split()], check=True, capture_output=True)


def _total(dump: Path) -> int:
    for line in dump.read_text().splitlines():
        if line.startswith("totals:"):
            return int(line.split()[1])
    return 0


class Side:
    """A process with the source tree of one side."""

    def __init__(self, src: Path, url: str, before: Sequence[str]) -> None:
        command = [*before, sys.executable, HERE / "instructions_side.py", url]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(src), "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        where = Path(self.said()["andon"])
        if not where.is_relative_to(src):
            raise SystemExit(f"{where} was imported instead of what is in {src}.")

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def say(self, what: Any) -> None:
        """A line for it."""
        assert self._process.stdin is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)

    def said(self) -> dict[str, Any]:
        """A line of it."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("A side has ended; what it said is above.")
        return json.loads(line)

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def block(side: Side, what: str, n: int, counted: Counted, server: int | None) -> float:
    """Instructions a task."""
    side.say([what, n])
    found, pid = 0, side.pid if server is None else server
    while "done" not in (said := side.said()):
        if said["ask"] == "start":
            counted.begin(pid)
        else:
            found = counted.end(pid)
        side.say("go on")
    return found / n


def measure(kind: str, sources: dict[str, Path], asked: Asked, of: str) -> Figures:
    """Instructions a task, a figure a block."""
    found: Figures = {name: {} for name in asked.names}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="andon-counted-")))
        counted = Counted(folder)
        under = counted.command() if of == "server" else []
        urls, server = stack.enter_context(_places(kind, folder, under))
        before = counted.command() if of == "client" else []
        for name, src in sources.items():
            side = Side(src, urls[name], before)
            try:
                for what in asked.names:
                    costs = [
                        block(side, what, BLOCKS[what], counted, server if under else None)
                        for _ in range(WARMING + asked.blocks)
                    ]
                    found[what][name] = costs[WARMING:]
            finally:
                side.close()
    return found


@contextmanager
def _places(
    kind: str, folder: Path, under: Sequence[str]
) -> Iterator[tuple[dict[str, str], int | None]]:
    """A URL for each side, and the server's process."""
    if kind == "memory":
        yield dict.fromkeys(("new", "old"), "memory://"), None
    elif kind == "sqlite":
        yield (
            {side: f"sqlite:///{folder}/{side}.db?synchronous=normal" for side in ("new", "old")},
            None,
        )
    else:
        with store_servers.running(kind, under) as started:
            yield {side: started.namespace(side) for side in ("new", "old")}, started.pid


def report(kind: str, of: str, found: Figures, rng: random.Random) -> None:
    """Print the table of one kind of store."""
    print(f"\n| {kind}, thousands of instructions a task, {of} | old | new | new to old |")
    print("|---|---|---|---|", flush=True)
    for name, sides in found.items():
        now = f"{statistics.median(sides['new']) / 1_000:.1f}"
        was, ratio = "", ""
        if "old" in sides:
            was = f"{statistics.median(sides['old']) / 1_000:.1f}"
            ratio = _ratio(sides["new"], sides["old"], rng)
        print(f"| {name} | {was} | {now} | {ratio} |", flush=True)


def _ratio(new: list[float], old: list[float], rng: random.Random) -> str:
    def drawn(figures: list[float]) -> float:
        return statistics.median(rng.choices(figures, k=len(figures)))

    ratios = sorted(drawn(new) / drawn(old) for _ in range(DRAWS))
    low, high = ratios[DRAWS * 25 // 1_000], ratios[-DRAWS * 25 // 1_000]
    return f"{statistics.median(new) / statistics.median(old):.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", metavar="REV")
    parser.add_argument("kinds", metavar="KIND", nargs="+")
    parser.add_argument("--blocks", type=int, default=5, help="that count, of each operation")
    parser.add_argument("--only", default=",".join(BLOCKS), help="of: " + ", ".join(BLOCKS))
    parser.add_argument("--of", default="client,server", help="client, server or both")
    parser.add_argument("--no-old", action="store_true", help="count this tree alone")
    parser.add_argument("--seed", type=int, default=0, help="of the blocks drawn again")
    given = parser.parse_args()
    names = given.only.split(",")
    if unknown := set(names) - set(BLOCKS):
        parser.error(f"--only: not counted here: {', '.join(unknown)}")
    if not shutil.which("valgrind"):
        parser.error("valgrind is needed, it counts the instructions.")
    with source_of(given.revision) as old:
        sources = {"new": HERE.parent / "src"}
        if not given.no_old:
            sources["old"] = old
        for kind in given.kinds:
            for of in given.of.split(","):
                if of == "server" and kind != "redis":
                    continue
                found = measure(kind, sources, Asked(names, given.blocks), of)
                report(kind, of, found, random.Random(given.seed))


if __name__ == "__main__":
    main()
