"""The section on SQLite: Andon beside SqliteHuey and beside the limit.

Each measurement is in fresh processes on a fresh file; a wrong count fails the run.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import processes
from limits import sqlite as limit

HERE = Path(__file__).resolve().parent


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


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Everything, as asked."""
    sizes = {"n": asked.n, "few": asked.few, "latency": 500, "threads": 1}
    count = asked.rounds or 5
    if asked.quick:
        sizes = {"n": 600, "few": 200, "latency": 30, "threads": 1}
        count = asked.rounds or 1
    bodies = limit.real_bodies()
    if not asked.quick:
        sizes["threads"] = best_threads(asked.few)
    rounds = Rounds()
    for number in range(count):
        print(f"round {number + 1} of {count}", flush=True)
        one_round(rounds, sizes, bodies)
    small = asked.quick
    tasks, idle_s = (500, 1) if small else (100_000, 20)
    workers: list[dict[str, float]] = []
    for _ in range(count):
        with tempfile.TemporaryDirectory(prefix="andon-bench-") as folder:
            url = f"sqlite:///{Path(folder) / 'bench.db'}"
            workers.append(processes.worker(url, tasks=tasks, idle_s=idle_s))
    return {
        "huey_default": huey("submit", 20, "default")["store"]["synchronous"],
        "sizes": sizes,
        "rounds": count,
        "outcomes": rounds.outcomes,
        "imports": processes.imports(runs=3 if small else 15),
        "workers": workers,
    }
