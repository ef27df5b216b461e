"""The sections on server stores: Andon, its peers and the limit in turn, on one server.

A round is one session of each side: submits in each way, a drain, an idle worker, latency, end to
end; the server is emptied in between. What hangs, fails or counts wrong is told as such in the
report, and the rest goes on; only a wrong count of Andon's own ends the run.
"""

import argparse
import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import environments
import limits
import peers
import store_servers
from peers.shape import Peer
from side_by_side_report import FEWEST

HERE = Path(__file__).resolve().parent

FULL = {
    "single": 10_000,
    "concurrent": 20_000,
    "bulk": 50_000,
    "seconds": 2.0,
    "trial": {"single": 300, "concurrent": 500, "bulk": 2_000},
    "latency": 200,
    "idle_s": 10.0,
    "imports": 1,
}
"""The most tasks of each way to submit, the seconds that each should take, and how many find out
how many that is; then the others."""

QUICK = {
    "single": 100,
    "concurrent": 200,
    "bulk": 1_000,
    "seconds": 0.1,
    "trial": {"single": 20, "concurrent": 100, "bulk": 500},
    "latency": 20,
    "idle_s": 1.0,
    "imports": 1,
}
QUICK_DRAIN = 200
SETTLE_S = {"postgres": 12.0}
"""How long what came before an idle worker may still come to the server's counters: a session of
PostgreSQL tells its own once a second at the most, and what it has left when it falls idle up to
ten seconds later."""

PATIENCE_S = 180.0
"""A session that takes longer is ended."""


class WrongCount(Exception):
    """Andon's own tasks do not add up."""


class Side:
    """One of those measured: Andon, the limit, or a peer in one variant."""

    def __init__(self, name: str, settings: str, drained: int) -> None:
        self.name = name
        self.settings = settings
        self.drained = drained
        self.versions: dict[str, str] = {}
        self.outcomes: dict[str, list[dict[str, Any]]] = {}
        self.problems: list[str] = []
        self.command: list[str] = []

    def told(self) -> dict[str, Any]:
        return {
            "settings": self.settings,
            "versions": self.versions,
            "outcomes": self.outcomes,
            "problems": self.problems,
        }


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Everything, as asked."""
    rounds = asked.rounds or (1 if asked.quick else FEWEST)
    missing: list[str] = []
    sides = list(_sides(asked, missing))
    with store_servers.running(asked.store) as server:
        print(server.about, flush=True)
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", flush=True)
            turn = number % len(sides)  # nobody is always first
            for side in sides[turn:] + sides[:turn]:
                _session(side, server, _plan(asked, side))
    return {
        "server": server.about,
        "rounds": rounds,
        "sides": {side.name: side.told() for side in sides},
        "missing": missing,
    }


def limit_again(asked: argparse.Namespace, kept: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run, with the limit measured anew by itself."""
    limit = _limit(asked)
    with store_servers.running(asked.store) as server:
        for _ in range(asked.rounds or FEWEST):
            _session(limit, server, _plan(asked, limit))
    sides = {**kept["sides"], "limit": limit.told()}
    return kept | {"sides": sides, "limit_at": time.strftime("%Y-%m-%d", time.gmtime())}


def _limit(asked: argparse.Namespace) -> Side:
    limit = Side("limit", "a bare client that does what the store does", asked.n)
    limit.command = [sys.executable, "-m", f"limits.{asked.store}"]
    return limit


def _sides(asked: argparse.Namespace, missing: list[str]) -> Iterator[Side]:
    andon = Side(
        "andon",
        "as it is by itself with the extra fast (uvloop); results, history and events kept",
        asked.n,
    )
    andon.command = [sys.executable, str(HERE / "andon_session.py")]
    yield andon
    if limits.has(asked.store):
        yield _limit(asked)
    names = asked.peers.split(",") if asked.peers is not None else peers.BY_STORE[asked.store]
    for name in filter(None, names):
        if name not in peers.BY_STORE[asked.store]:
            known = ", ".join(peers.BY_STORE[asked.store]) or "none"
            raise SystemExit(f"There is no peer {name!r} on {asked.store}; there are {known}.")
        driver = peers.driver(name)
        try:
            python = environments.python_for(name, driver)
        except environments.NotInstallable as why:
            print(f"  {why}", flush=True)
            missing.append(str(why))
            continue
        yield from _variants(name, driver, asked.store, python)


def _variants(name: str, driver: type[Peer], store: str, python: Path) -> Iterator[Side]:
    variants = driver.stores[store]
    for variant in variants:
        shown = f"{name}, {variant}" if len(variants) > 1 else name
        side = Side(shown, driver.variants[variant], driver.drained[variant])
        side.command = [str(python), "-m", "peers.session", name, variant]
        yield side


def _plan(asked: argparse.Namespace, side: Side) -> dict[str, Any]:
    plan = dict(QUICK if asked.quick else FULL)
    drained = QUICK_DRAIN if asked.quick else side.drained
    settle = 1.5 if asked.quick else SETTLE_S.get(asked.store, 1.5)
    plan |= {"drain": drained, "e2e": drained, "settle_s": settle}
    return plan


def _session(side: Side, server: store_servers.Started, plan: dict[str, Any]) -> None:
    begun, doing = time.monotonic(), "start"
    try:
        for line in _lines(side, server.url, plan):
            told = json.loads(line)
            if "begins" in told:
                doing = told["begins"]
            elif "versions" in told and "kind" not in told:
                side.versions = told["versions"]
            else:
                _add(side, told)
    except (TimeoutError, RuntimeError) as why:
        if side.name == "andon":
            raise
        side.problems.append(f"{doing}: {why}")
        print(f"  {side.name}: {doing}: {why}", flush=True)
    print(f"  {side.name}: {time.monotonic() - begun:.0f} s", flush=True)


def _add(side: Side, told: dict[str, Any]) -> None:
    kind = told.pop("kind")
    if told["verified"] != told["n"] or told.get("repeats"):
        again = f", {told['repeats']} ran again" if told.get("repeats") else ""
        why = f"{kind}: {told['verified']:,} of {told['n']:,} counted{again}"
        if side.name == "andon":
            raise WrongCount(f"{why}: {told}")
        side.problems.append(why)
        print(f"  {side.name}: {why}", flush=True)
        if told["verified"] != told["n"]:
            return
    side.outcomes.setdefault(kind, []).append(told)
    names = ("rate", "p50_ms", "server_per_s", "import_ms")
    figure = next(told[name] for name in names if name in told)
    print(f"  {side.name:24s} {kind:18s} {figure:12,.1f}   {told['n']:,} counted", flush=True)


def _lines(side: Side, url: str, plan: dict[str, Any]) -> Iterator[str]:
    """What the session prints, line by line; ends it, and all it started, at the latest then."""
    with tempfile.TemporaryDirectory(prefix="andon-bench-", ignore_cleanup_errors=True) as folder:
        yield from _lines_in(folder, side, url, plan)


def _lines_in(folder: str, side: Side, url: str, plan: dict[str, Any]) -> Iterator[str]:
    ours = [sys.executable, str(HERE / "store_servers.py")]
    process = subprocess.Popen(
        [*side.command, *([] if "peers.session" in side.command else [url]), json.dumps(plan)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH")))),
            "PYTHONWARNINGS": "ignore",
            "BENCH_FOLDER": folder,
            "BENCH_URL": url,
            "BENCH_RESET": shlex.join([*ours, "empty", url]),
            "BENCH_COUNTER": shlex.join([*ours, "work", url]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield from _read(process, time.monotonic() + PATIENCE_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _read(process: subprocess.Popen[bytes], until: float) -> Iterator[str]:
    assert process.stdout is not None
    assert process.stderr is not None
    said = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
    out, err = said
    is_open = set(said)
    while is_open:
        left = until - time.monotonic()
        ready, _, _ = select.select(list(is_open), [], [], max(left, 0))
        if not ready:
            raise TimeoutError(f"ended after {PATIENCE_S:.0f} s")
        for pipe in ready:
            part = os.read(pipe, 65_536)
            if not part:
                is_open.discard(pipe)
            said[pipe] += part
        *lines, said[out] = said[out].split(b"\n")
        yield from (line.decode() for line in lines if line.startswith(b"{"))
        said[err] = said[err][-4_000:]
        if process.poll() is not None and not ready:
            break
    if process.wait(10):
        lines = said[err].decode(errors="replace").strip().splitlines()
        why = next((line for line in reversed(lines) if line.strip(" |+-^~")), "")
        raise RuntimeError(why.strip(" |")[-400:] or f"ended with code {process.returncode}")
