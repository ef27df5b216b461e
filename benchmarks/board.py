"""The board over stores with a million tasks: its pages, who looks at it, and what that costs.

    python benchmarks/board.py [KIND …] [--keep FOLDER] [--only pages,paint,viewers,…]

Each store (SQLite, Redis and PostgreSQL, if none is named) is filled, then served by `andon serve`
in a process of its own. Filling takes some minutes: with `--keep` the store stays in that folder,
and the next run takes it as it is. What a run changes (a task that ran again, tasks that were
drained) it puts back.

pages    each page, and each way to ask for a list, over HTTP, in turn, so that what one read lately
         serves few others
paint    each page in Chromium: when something is seen of it first; and the one failure of its name
         is found, read and run again, counting the clicks
viewers  a worker drains tasks while nobody, one, and a hundred look at the first page, by turns of
         some seconds. Who looks is in the process of this script, which has its own share of the
         processors
costs    the same while tasks come at a steady rate, and what each process takes of the processors
streams  a thousand streams of that page are open at once, break off and come back
nobody   what a service costs that nobody looks at
rollup   what it costs to roll up one busy minute

At the end stands a table of what was measured beside what is wanted. On a busy machine times say
little (the load is in the table); processor time and counts say more.
"""

import argparse
import asyncio
import gzip
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import board_costs
import board_drains
import board_looking
import board_pages
import board_paint
import board_table
from board_served import Served
from board_stores import Filled, filled, spoil

from andon.dashboard.assets import assets

KINDS = ("sqlite", "redis", "postgres")
PARTS = ("pages", "paint", "viewers", "costs", "streams", "nobody", "rollup")


def measure(kind: str, asked: argparse.Namespace) -> dict[str, Any]:
    """What was asked for, over a store of that kind."""
    with filled(kind, asked.tasks, asked.keep) as store:
        if asked.leave and asked.keep is not None:
            spoil(kind, asked.keep)
        told: dict[str, Any] = {
            "store": kind,
            "about": store.about,
            "tasks": store.tasks,
            "filled_s": store.seconds,
            "assets_bytes": _bytes_of_assets(),
        }
        for part in asked.only:
            before = board_looking.load()
            told[part] = _part(part, store, asked)
            told[part]["load"] = [before, board_looking.load()]
            shown = {of: one for of, one in told[part].items() if of != board_drains.TURNS}
            print(json.dumps({kind: {part: shown}}, indent=1), flush=True)
        return told


def _part(part: str, store: Filled, asked: argparse.Namespace) -> dict[str, Any]:
    if part == "viewers":
        return asyncio.run(
            board_drains.viewers(store, asked.turn, asked.drains, delete=not asked.leave)
        )
    if part == "costs":
        return asyncio.run(board_costs.costs(store, asked.steady, asked.turns))
    if part == "rollup":
        return asyncio.run(board_looking.rolled_up(store, 3_000))
    with _served(store) as served:
        if part == "pages":
            return board_pages.measure(served, store, asked.rounds)
        if part == "paint":
            return board_paint.measure(served.url, board_pages.pages(store), asked.paints)
        if part == "nobody":
            return asyncio.run(board_looking.nobody(served, store, asked.idle))
        return asyncio.run(board_looking.streams(served, asked.streams))


@contextmanager
def _served(store: Filled) -> Iterator[Served]:
    served = Served(store.url)
    try:
        yield served
    finally:
        served.close()


def _bytes_of_assets() -> int:
    """What script and style take over the network."""
    files = assets()
    return sum(len(gzip.compress(files[name].body)) for name in ("board.css", "board.js"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="of: " + ", ".join(KINDS))
    parser.add_argument("--keep", type=Path, help="folder where filled stores stay")
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--only", default=",".join(PARTS), help="of: " + ", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=50, help="that each page is asked for")
    parser.add_argument("--paints", type=int, default=5, help="of each page in the browser")
    parser.add_argument("--drains", type=int, default=40, help="that are looked at by turns")
    parser.add_argument("--turn", type=float, default=1.0, help="seconds that each looks")
    parser.add_argument(
        "--leave",
        action="store_true",
        help="do not delete the drained tasks, which takes most of the time; a kept store then "
        "serves no other run",
    )
    parser.add_argument("--turns", type=int, default=12, help="of each, at a steady rate")
    parser.add_argument("--steady", type=float, default=6.0, help="seconds of each such turn")
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--idle", type=float, default=65.0, help="seconds that nobody looks")
    parser.add_argument("--into", type=Path, help="file for all that was measured, as JSON")
    asked = parser.parse_args()
    asked.only = asked.only.split(",")
    kinds = asked.kinds or KINDS
    if unknown := set(asked.only) - set(PARTS):
        parser.error(f"--only: not measured here: {', '.join(unknown)}")
    if unknown := set(kinds) - {*KINDS, "nats"}:
        parser.error(f"There is no store {', '.join(unknown)}; there are {', '.join(KINDS)}.")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # children have it too
    told = [measure(kind, asked) for kind in kinds]
    if asked.into is not None:
        asked.into.write_text(json.dumps(told, indent=1))
    print(board_table.table(told))


if __name__ == "__main__":
    main()
