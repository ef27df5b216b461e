"""`make bench`: Andon beside its peers and beside the limit, on this machine, in one run.

    make bench                                   SQLite, beside SqliteHuey
    make bench ARGS="--store redis"              Redis, beside ten queues on Redis
    make bench ARGS="--store postgres"           PostgreSQL, beside six queues on PostgreSQL
    make bench ARGS="--store nats"               NATS
    make bench ARGS="--store service"            the HTTP service, on SQLite and on Redis
    make bench ARGS="--store redis --quick"      tiny counts: does everything work?
    make bench ARGS="--store redis --peers huey,taskiq"
    make bench ARGS="--store redis --flat"       only 10 thousand against 1 million stored tasks
    make bench ARGS="--store redis --limit"      only the limit, beside what is kept of the last run

Rounds are interleaved; the tables hold medians over the rounds and ratios of medians. Every figure
comes with its count of completions. No time is asserted: what a figure should be depends on the
machine, and this one may be busy. Each run rewrites its own section of docs/benchmarks.md only.
"""

import argparse
import os
import platform
import time
from pathlib import Path
from typing import Any

import flatness
import limits
import page
import peers
import summary


def machine() -> dict[str, Any]:
    """Where this is measured."""
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
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "load_before": os.getloadavg(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", choices=("sqlite", *peers.BY_STORE, "service"), default="sqlite")
    parser.add_argument("--peers", help="only these, by name, separated by commas")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="small: only the counts matter")
    parser.add_argument("--flat", action="store_true", help="only 10 thousand against 1 million")
    parser.add_argument("--limit", action="store_true", help="only the limit of a server store")
    parser.add_argument("--keep-docs", action="store_true", help="leave docs/benchmarks alone")
    parser.add_argument("--n", type=int, default=20_000, help="tasks in a measurement of Andon")
    parser.add_argument("--few", type=int, default=5_000, help="where each is a commit (SQLite)")
    asked = parser.parse_args()
    if asked.flat and asked.store == "service":
        parser.error("--flat is about a store: sqlite, redis, postgres or nats")
    if asked.limit and not (limits.has(asked.store) and asked.store in peers.BY_STORE):
        parser.error("--limit is about a server store: redis, postgres or nats")
    begun, where = time.time(), machine()
    kept = page.kept(asked.store)
    if asked.store == "sqlite":
        import embedded as section
        import embedded_report as report
    elif asked.store == "service":
        import service as section
        import service_report as report
    else:
        import side_by_side as section
        import side_by_side_report as report
    if (asked.flat or asked.limit) and kept is None:
        raise SystemExit(f"Measure the rest first: make bench ARGS='--store {asked.store}'")
    if asked.limit:
        told = section.limit_again(asked, kept)
    elif asked.flat:
        told = kept | {"flat": flatness.asked(asked.store, quick=asked.quick)}
    else:
        told = section.measure(asked)
        told |= {"store": asked.store, "machine": where, "took_s": round(time.time() - begun)}
        told["flat"] = (kept or {}).get("flat")
    page.keep(told, aside=asked.quick or asked.keep_docs)
    lines = report.section(told)
    print("\n".join(lines))
    print(f"\nThat took {time.time() - begun:.0f} s.")
    if not (asked.quick or asked.keep_docs):
        page.replace(asked.store, lines, report.plots(told))
        summary.write()


if __name__ == "__main__":
    main()
