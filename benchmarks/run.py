"""`make bench`: Andon beside SqliteHuey and beside the limit, on this machine, in one run.

Rounds are interleaved, each measurement in fresh processes on a fresh file; the table holds
medians over the rounds and ratios of medians. Every figure comes with its count of completions,
and a wrong count fails the run. No time is asserted: what a figure should be depends on the
machine, and this one may be busy.

    make bench ARGS="--rounds 7"        a steadier table
    make bench ARGS="--quick"           small, under a minute: are the counts right?
    make bench ARGS="--flat"            also 10 thousand against 1 million stored tasks
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import flatness
import limit
import processes
import report

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


class Counts(Exception):
    """A measurement whose completions do not add up."""


def andon(kind: str, n: int, sync: str, *options: str) -> dict[str, Any]:
    """One measurement of Andon in a fresh process, on a fresh file."""
    command = [sys.executable, str(HERE / "andon_side.py"), kind, str(n), sync, *options]
    return _said(command)


def huey(kind: str, n: int, sync: str, threads: int = 1) -> dict[str, Any]:
    """One measurement of SqliteHuey, the same way."""
    command = [sys.executable, str(HERE / "huey_side.py"), kind, str(n), sync, str(threads)]
    return _said(command)


def _said(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


class Rounds:
    """Gathers outcomes by name; refuses wrong counts."""

    def __init__(self) -> None:
        self.outcomes: dict[str, list[dict[str, Any]]] = {}

    def add(self, name: str, outcome: dict[str, Any], n: int) -> None:
        """Keep one outcome."""
        if outcome["verified"] != n:
            raise Counts(f"{name}: {outcome['verified']} of {n} counted: {outcome}")
        outcome["n"] = n
        self.outcomes.setdefault(name, []).append(outcome)
        figure = outcome.get("rate") or outcome.get("p50_ms")
        print(f"  {name:42s} {figure:12,.1f}   {n:,} counted", flush=True)


def one_round(rounds: Rounds, sizes: dict[str, int], bodies: list[limit.Bodies]) -> None:
    """Everything once, what is to be compared side by side."""
    n, few, waits = sizes["n"], sizes["few"], sizes["latency"]
    for sync in ("full", "normal"):
        other = {"full": "full", "normal": "off"}[sync]
        bare = limit.measure(sync, n, bodies)
        rounds.add(f"limit submit {sync}", bare["submit"], n)
        rounds.add(f"andon submit bulk {sync}", andon("submit", n, sync), n)
        rounds.add(f"huey submit {other}", huey("submit", few, other), few)
        hundred = andon("submit", n, sync, "concurrent", "100")
        rounds.add(f"andon submit 100 coroutines {sync}", hundred, n)
        rounds.add(f"andon submit single {sync}", andon("submit", few, sync, "single"), few)
        rounds.add(f"limit drain {sync}", bare["drain"], n)
        rounds.add(f"andon drain {sync}", andon("drain", n, sync), n)
        rounds.add(f"huey drain {other}, 1 thread", huey("drain", few, other), few)
        threads = sizes["threads"]
        if threads > 1:
            found = huey("drain", few, other, threads)
            rounds.add(f"huey drain {other}, {threads} threads", found, few)
        rounds.add(f"andon e2e {sync}", andon("e2e", n, sync), n)
        rounds.add(f"huey e2e {other}", huey("e2e", few, other), few)
        rounds.add(f"andon latency {sync}", andon("latency", waits, sync), waits)
        rounds.add(f"huey latency {other}", huey("latency", waits, other), waits)


def best_threads(few: int) -> int:
    """The number of threads above one with which SqliteHuey drains fastest here."""
    rates = {threads: huey("drain", few, "full", threads)["rate"] for threads in (2, 4, 8)}
    return max(rates, key=lambda threads: rates[threads])


def machine() -> dict[str, Any]:
    """Where this was measured."""
    model = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        pass
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": os.getloadavg(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--n", type=int, default=20_000, help="tasks in a measurement of Andon")
    parser.add_argument("--few", type=int, default=5_000, help="where each is a commit of its own")
    parser.add_argument("--quick", action="store_true", help="small: only the counts matter")
    parser.add_argument("--flat", action="store_true", help="also 10 thousand against 1 million")
    parser.add_argument("--keep-docs", action="store_true", help="leave docs/benchmarks.md alone")
    asked = parser.parse_args()
    begun = time.time()
    sizes = {"n": asked.n, "few": asked.few, "latency": 500, "threads": 1}
    if asked.quick:
        sizes = {"n": 600, "few": 200, "latency": 30, "threads": 1}
        asked.rounds = 1
    where = machine()
    bodies = limit.real_bodies()
    if not asked.quick:
        sizes["threads"] = best_threads(asked.few)
    rounds = Rounds()
    for number in range(asked.rounds):
        print(f"round {number + 1} of {asked.rounds}", flush=True)
        one_round(rounds, sizes, bodies)
    small = asked.quick
    told = {
        "machine": where,
        "huey_default": huey("submit", 20, "default")["store"]["synchronous"],
        "sizes": sizes,
        "rounds": asked.rounds,
        "outcomes": rounds.outcomes,
        "imports": processes.imports(runs=3 if small else 15),
        "worker": processes.worker(tasks=500 if small else 100_000, idle_s=1 if small else 20),
        "flat": flatness.measure(10_000, 1_000_000, bodies) if asked.flat else None,
        "took_s": round(time.time() - begun),
    }
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    name = time.strftime("%Y%m%d-%H%M%S", time.gmtime(begun))
    (results / f"{name}.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    page = report.page(told)
    print(page)
    if not (asked.quick or asked.keep_docs):
        (ROOT / "docs" / "benchmarks.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
