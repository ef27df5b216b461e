"""Holds the times of cron expressions against a slow reference: every zone of the tz database,
every minute of five years.

    python benchmarks/recurrence_reference.py [--zones 'Europe/*'] [--first YEAR] [--years N]
                                              [--cronsim]

The reference (tests/lifecycle/recurrence/reference.py) asks every minute what the clocks of a zone
show. Zones whose clocks do the same in every minute share what it says of each expression; the code
is asked for each zone. Any difference is printed, and makes the exit code 1. That takes about
half an hour of processor time.

With --cronsim, cronsim by itself is compared too, with the clocks of the zone. Where it differs is
printed and is no failure: docs/decisions/recurrence.md explains each kind.
"""

import argparse
import fnmatch
import sys
import time
import zoneinfo
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import takewhile
from pathlib import Path
from zoneinfo import ZoneInfo

from cronsim import CronSim

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from lifecycle.recurrence.reference import EPOCH, EXPRESSIONS, MINUTE, WARM_UP, Runs, expected, walk

from andon.lifecycle.recurrence.times import Times
from andon.model.recurrence import Recurrence

SHOWN = 10
"""Differences that are printed one by one."""


def ours(text: str, name: str, first: int, last: int) -> Iterator[int]:
    """The minutes at which the code says that the expression fires."""
    times = Times(Recurrence(cron=(text,), tz=name)).after(first * 60 - 1)
    return (at // 60 for at in takewhile(lambda at: at < last * 60, times))


def theirs(text: str, name: str, first: int, last: int) -> Iterator[int]:
    """The minutes at which cronsim says so."""
    begin = EPOCH + first * MINUTE - timedelta(seconds=1)
    for at in CronSim(text, begin.astimezone(ZoneInfo(name))):
        minute = (at.astimezone(UTC) - EPOCH) // MINUTE
        if minute >= last:
            return
        yield minute


def file_of(name: str) -> bytes:
    """What the tz database has of a zone, as it is compiled."""
    for folder in zoneinfo.TZPATH:
        path = Path(folder, name)
        if path.is_file():
            return path.read_bytes()
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


class Comparison:
    """What was compared, and what differed."""

    def __init__(self) -> None:
        self.compared = 0
        self.differences: list[str] = []
        self.of_each: Counter[str] = Counter()

    def add(self, text: str, name: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        self.compared += len(wanted)
        if found == wanted:
            return
        lost, made = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
        doubled = len(found) - len(set(found))
        at = EPOCH + (lost + made + [wanted[0] if wanted else 0])[0] * MINUTE
        self.of_each[name] += 1
        self.differences.append(
            f"{text} in {name}: {len(lost)} lost, {len(made)} made up, {doubled} doubled, "
            f"the first at {at:%Y-%m-%dT%H:%MZ}"
        )

    def report(self, who: str) -> None:
        print(f"{who}: {self.compared:,} times, {len(self.differences):,} expressions differ")
        for line in self.differences[:SHOWN]:
            print("   ", line)
        if len(self.differences) > SHOWN:
            zones = ", ".join(f"{name} ({n})" for name, n in self.of_each.most_common(SHOWN))
            print("    and more; most in", zones)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zones", default="*", help="a pattern of names, such as 'Europe/*'")
    parser.add_argument("--first", type=int, default=2026, help="the first year")
    parser.add_argument("--years", type=int, default=5)
    parser.add_argument("--cronsim", action="store_true", help="compare cronsim by itself too")
    args = parser.parse_args()
    names = fnmatch.filter(sorted(zoneinfo.available_timezones()), args.zones)
    if not names:
        parser.error(f"no zone is called {args.zones!r}.")
    start, end = (
        datetime(year, 1, 1, tzinfo=UTC) for year in (args.first, args.first + args.years)
    )
    first, last = (start - EPOCH) // MINUTE, (end - EPOCH) // MINUTE
    andon, cronsim, alike = Comparison(), Comparison(), dict[Runs, list[str]]()
    walked: dict[bytes, Runs] = {}  # most names are links: other names of the same file
    for place, name in enumerate(names, 1):
        file = file_of(name)
        if file not in walked:
            walked[file] = walk(ZoneInfo(name), start - WARM_UP, end)
        alike.setdefault(walked[file], []).append(name)
        if sys.stderr.isatty():
            print(f"\r{place} of {len(names)} zones walked", end="", file=sys.stderr)
    for runs, zones in alike.items():
        for text in EXPRESSIONS:
            wanted = expected(text, runs, first, last)
            for name in zones:
                andon.add(text, name, tuple(ours(text, name, first, last)), wanted)
            if args.cronsim:
                cronsim.add(text, zones[0], tuple(theirs(text, zones[0], first, last)), wanted)
        expected.cache_clear()
    print(
        f"{len(names)} zones with {len(alike)} kinds of clocks, {len(EXPRESSIONS)} expressions, "
        f"{args.first} to {args.first + args.years - 1}, {time.process_time():.0f} s of processor"
    )
    andon.report("andon")
    if args.cronsim:
        cronsim.report("cronsim, one zone of each kind")
    return 1 if andon.differences else 0


if __name__ == "__main__":
    sys.exit(main())
