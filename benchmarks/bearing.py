"""What schedules, follow-ups and flows reach, row by row, beside what they are to reach.

    python benchmarks/bearing.py                        every row on every store: about two hours
    python benchmarks/bearing.py --quick                tiny sizes, a few minutes: does it all work?
    python benchmarks/bearing.py --store redis --rows fired,lateness
    python benchmarks/bearing.py --since COMMIT         and plain tasks beside an older commit

Each row runs in a process of its own on an empty store, and counts in that store what came of it: a
count that is wrong ends the run. Times and rates are printed beside what is wanted and never
judged, because this machine may be busy. The table is Markdown; all that was measured is kept in
`.bench/bearing.json`. Rows are measured in turns (`--rounds`), and shown by their medians.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import store_servers
from run import machine

HERE = Path(__file__).resolve().parent
KEPT = HERE.parent / ".bench" / "bearing.json"
STORES = ("sqlite", "redis", "postgres", "nats")


class Row(NamedTuple):
    """One thing that is measured."""

    what: str
    size: int
    quick: int
    shown: Callable[[dict[str, Any]], str]
    wanted: Callable[[str], str]  #: by store
    command: Callable[[str, int, int | None], list[str]] | None = None
    once: bool = False  #: not on each store, and not in each round


def everywhere(text: str) -> Callable[[str], str]:
    return lambda store: text


def by_store(**texts: str) -> Callable[[str], str]:
    return lambda store: texts.get(store, texts["other"])


def killed(url: str, size: int, server: int | None) -> list[str]:
    return [str(HERE / "bearing_killed.py"), url, "--seconds", str(size)]


def zones(url: str, size: int, server: int | None) -> list[str]:
    return [
        str(HERE / "recurrence_reference.py"),
        *(() if size else ("--zones", "Europe/Br*", "--years", "1")),
    ]


def peers(url: str, size: int, server: int | None) -> list[str]:
    parts = ["--groups", str(size), "--seconds", str(size * 3)]
    return [str(HERE / "bearing_peers.py"), *parts]


ROWS = {
    "at_rest": Row(
        "100,000 schedules at rest: a core, a worker's memory more",
        100_000,
        500,
        lambda told: (
            f"{told['core_percent']:.2f} % ({told['core_percent_without']:.2f} % without any), "
            f"{told['worker_mb'] - told['worker_mb_without']:+.1f} MB"
        ),
        everywhere("under 1 %, none"),
    ),
    "fired": Row(
        "occurrences that one timekeeper fires, all due at once",
        5_000,
        200,
        lambda told: f"{told['per_s']:,}/s ({told['cpu_us']} us each)",
        by_store(postgres="1,500/s", nats="600/s", other="2,000/s"),
    ),
    "lateness": Row(
        "lateness at 200 occurrences a second, p99",
        30,
        2,
        lambda told: f"{told['p99_ms']} ms (p50 {told['p50_ms']})",
        by_store(nats="600 ms", other="250 ms"),
    ),
    "killed": Row(
        "ten minutes of 200 occurrences a second under kills",
        600,
        5,
        lambda told: (
            f"{told['occurrences']:,} occurrences, {told['killed']} kills: {told['lost']} lost, "
            f"{told['submitted_twice'] + told['ended_twice'] + told['made_up']} doubled"
        ),
        everywhere("each once"),
        killed,
    ),
    "chain": Row(
        "a chain of 1,000",
        1_000,
        30,
        lambda told: f"{told['links_per_s']:,}/s, hand-over p50 {told['hand_over_p50_ms']:g} ms",
        by_store(sqlite="300/s", redis="3 ms", other=""),
    ),
    "fan": Row(
        "fan-out of 9,999 and back; the closing task after the last member",
        9_999,
        100,
        lambda told: f"{told['seconds']:.2f} s, {told['after_the_last_ms']} ms",
        by_store(nats="12 s, 50 ms", redis="3 s, 50 ms", other="4 s, 50 ms"),
    ),
    "failed": Row(
        "9,999 children of a run that failed",
        9_999,
        100,
        lambda told: f"{told['seconds']:.2f} s",
        everywhere("5 s"),
    ),
    "superseded": Row(
        "9,999 children of a run that was tried again",
        9_999,
        100,
        lambda told: f"{told['seconds']:.2f} s",
        everywhere("5 s"),
    ),
    "bears_one": Row(
        "a task that bears one, beside a task that submits one",
        1_000,
        50,
        lambda told: f"{told['times']:.2f} x ({told['bears_us']} us, {told['submits_us']} us)",
        everywhere("1.3 x"),
    ),
    "zones": Row(
        "every zone, every minute of five years, against the reference",
        1,
        0,
        lambda told: told["said"],
        everywhere("no difference"),
        zones,
        once=True,
    ),
    "peers": Row(
        "closings and occurrences lost or doubled, beside other queues",
        20,
        2,
        lambda told: told["said"],
        everywhere("none of Andon's"),
        peers,
        once=True,
    ),
}


@contextmanager
def empty_store(kind: str) -> Iterator[tuple[Callable[[], str], int | None]]:
    """What gives the URL of an empty store each time, and the server's process."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="andon-bearing-") as folder:
            yield lambda: f"sqlite:///{tempfile.mkdtemp(dir=folder)}/tasks.db", None
        return
    with store_servers.running(kind) as server:

        def emptied() -> str:
            store_servers.empty(server.url)
            return server.namespace("bearing")

        yield emptied, server.pid


def measured(name: str, url: str, server: int | None, *, quick: bool) -> dict[str, Any]:
    """One row, once. Ends the run if its count is wrong."""
    row = ROWS[name]
    size = row.quick if quick else row.size
    if row.command is None:
        arguments = [str(HERE / "bearing_rows.py"), name, url, str(size)]
        command = [*arguments, *(() if server is None else (str(server),))]
    else:
        command = row.command(url, size, server)
    patience = {"BEARING_IDLE_S": "2"} if quick else {}
    done = subprocess.run(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        cwd=HERE,
        env={**os.environ, **patience},
    )
    if done.returncode:
        sys.exit(f"{name} has failed, code {done.returncode}. {done.stdout}")
    try:
        told: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        told = {"said": " ".join(done.stdout.split("\n", 1)[1].split())}
    return told


def middle(told: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians of what several rounds have told."""
    newest = told[-1]
    numbers = [key for key, value in newest.items() if isinstance(value, int | float)]
    return newest | {key: statistics.median(one[key] for one in told) for key in numbers}


def table(store: str, rounds: dict[str, list[dict[str, Any]]]) -> list[str]:
    """The rows of one store."""
    lines = [f"### {store}", "", "| what | measured | wanted | counted |", "|---|---|---|---|"]
    for name, told in rounds.items():
        row, shown = ROWS[name], middle(told)
        counted = shown.get("verified", "")
        counted = f"{counted:,.0f}" if counted != "" else ""
        lines.append(f"| {row.what} | {row.shown(shown)} | {row.wanted(store)} | {counted} |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", default=",".join(STORES), help="some of these, by commas")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"some of: {', '.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=3, help="turns; ten minutes of kills are one")
    parser.add_argument("--quick", action="store_true", help="small: only the counts matter")
    parser.add_argument("--since", help="a commit: plain tasks are measured beside it, too")
    asked = parser.parse_args()
    names, stores = asked.rows.split(","), asked.store.split(",")
    for given, known in ((names, ROWS), (stores, STORES)):
        if unknown := set(given) - set(known):
            parser.error(f"no such row or store: {', '.join(sorted(unknown))}")
    begun, where, kept = time.time(), machine(), dict[str, Any]()
    lines: list[str] = []
    for store in stores:
        rounds: dict[str, list[dict[str, Any]]] = {}
        with empty_store(store) as (emptied, server):
            for turn in range(1 if asked.quick else asked.rounds):
                for name in names:
                    if ROWS[name].once or (turn and name == "killed"):
                        continue
                    print(f"{store}, round {turn + 1}: {name}", file=sys.stderr, flush=True)
                    told = measured(name, emptied(), server, quick=asked.quick)
                    rounds.setdefault(name, []).append(told)
        kept[store] = rounds
        lines += table(store, rounds) if rounds else []
    alone = [name for name in names if ROWS[name].once]
    if alone:
        kept["once"] = {}
        for name in alone:
            print(f"once: {name}", file=sys.stderr, flush=True)
            kept["once"][name] = [measured(name, "", None, quick=asked.quick)]
        lines += table("on its own", kept["once"])
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps({"machine": where, **kept}, indent=1), encoding="utf-8")
    load = f"load {where['load_before'][0]:.1f} before"
    print(f"{where['cpu']}, {where['cores']} cores, {where['date']}, {load}")
    print("\n".join(["", *lines]))
    if asked.since:
        beside = [str(HERE / "beside_revision.py"), asked.since, *stores]
        os.execv(sys.executable, [sys.executable, *beside])
    print(f"That took {time.time() - begun:.0f} s.")


if __name__ == "__main__":
    main()
