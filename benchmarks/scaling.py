"""What 1,000 workers make of a billion tasks in P partitions: tables and a plot, by simulation.

    python benchmarks/scaling.py            print the tables
    python benchmarks/scaling.py --write    put them and the plot into docs/scaling.md

The same figures for the same seed. The hash that places tasks, the ids, and the policy by which a
worker walks the partitions are the real ones; the rest is modelled (`fleet_model.Model`).
"""

import argparse
import math
import random
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path

from fleet_model import Fleet, Former, Model, Partition, Policy

from andon.stores.kit.partitions import partition_of
from andon.worker.claiming.rotation import PartitionRotation

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
PLOT = PAGE.with_name("scaling.svg")
START, END = "<!-- generated: simulation -->", "<!-- end -->"
STORED = 1_000_000_000
SAMPLE = 400_000
SEED = 20_261_121
_CALM_S = 7.0  # by then every idle worker has looked everywhere once
POLICIES: dict[str, Callable[..., Policy]] = {"former": Former, "now": PartitionRotation}

Table = tuple[Sequence[str], list[Sequence[str]]]


# --- arithmetic ---


def jain(counts: Sequence[float]) -> float:
    """Jain's index of fairness: 1 when all have the same, 1/n when one has everything."""
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else 1.0


def spread(tasks: int, partitions: int) -> float:
    """Standard deviation of a partition's size over its mean, when ids fall by chance."""
    return math.sqrt((partitions - 1) / tasks)


def chi_square(counts: Sequence[int]) -> float:
    """Pearson's statistic against even counts; about its degrees of freedom if they are."""
    mean = sum(counts) / len(counts)
    return sum((count - mean) ** 2 / mean for count in counts)


def percentile(values: Sequence[float], of: float) -> float:
    """The smallest value that at least the share `of` of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(of * len(ordered)) - 1, 0)]


# --- scenarios ---


def placement() -> Table:
    """Where ids fall, made by chance or by counting, and what that means for a billion."""
    rng = random.Random(SEED)
    made = {
        "by chance": [f"{rng.getrandbits(80):020x}" for _ in range(SAMPLE)],
        "by counting": [f"invoice-{number}" for number in range(SAMPLE)],
    }
    rows: list[Sequence[str]] = []
    for kind, partitions in product(made, (16, 64, 256)):
        counts = [0] * partitions
        for task_id in made[kind]:
            counts[partition_of(task_id, partitions)] += 1
        mean = SAMPLE / partitions
        rows.append((
            f"{kind}",
            f"{partitions}",
            f"{max(abs(c - mean) for c in counts) / mean:.1%}",
            f"{chi_square(counts) / (partitions - 1):.2f}",
            f"{STORED // partitions:,}",
            f"{4 * spread(STORED, partitions):.3%}",
        ))  # fmt: skip
    head = ("ids", "P", f"furthest from even, {SAMPLE:,} ids", "chi² per degree of freedom",
            "tasks a partition, of a billion", "within (4 sigma)")  # fmt: skip
    return head, rows


def backlog(model: Model, policy: str) -> list[Partition]:
    """A billion tasks wait everywhere."""
    fleet = Fleet(model, POLICIES[policy], seed=SEED)
    for partition in fleet.partitions:
        partition.stored = STORED // model.partitions
    return fleet.run()


def fairness() -> Table:
    """How evenly a backlog is worked off."""
    rows: list[Sequence[str]] = []
    for workers, partitions in ((1_000, 64), (1_000, 256), (16, 64)):
        for policy in POLICIES:
            seconds = 5.0 if workers == 1_000 else 20.0
            model = Model(workers=workers, partitions=partitions, seconds=seconds)
            seen = backlog(model, policy)
            started = [partition.started for partition in seen]
            mean = statistics.fmean(started)
            rows.append((
                f"{workers:,}", f"{partitions}", policy, f"{sum(started) / model.seconds:,.0f}",
                f"{min(started) / mean:.2f}", f"{max(started) / mean:.2f}",
                f"{jain(started):.2f}", f"{max(p.unasked for p in seen):.2f} s",
            ))  # fmt: skip
    head = ("workers", "P", "policy", "tasks/s", "least / mean", "most / mean", "Jain",
            "longest unasked")  # fmt: skip
    return head, rows


def stream(
    model: Model, policy: str, *, load: float, hot: float, slow: float = 1.0
) -> list[Partition]:
    """Tasks come by chance; partition 0 gets the share `hot`, or its server is so
    busy that a claim takes `slow` times as long."""
    fleet = Fleet(model, POLICIES[policy], seed=SEED)
    rate = load * model.workers * model.concurrency / model.task_s
    rng = fleet.rng

    def come() -> None:
        others = rng.randrange(1, model.partitions)
        fleet.arrive(0 if rng.random() < hot else others)
        fleet.at(fleet.now + rng.expovariate(rate), come)

    def drag() -> None:
        first = fleet.partitions[0]
        first.free_at = max(first.free_at, fleet.now + (slow - 1) * model.call_s)
        fleet.at(fleet.now + slow * model.call_s, drag)

    fleet.at(0.0, come)
    if slow > 1:
        fleet.at(0.0, drag)
    return fleet.run()


def hot_partitions() -> Table:
    """How long tasks wait to be claimed when one partition is unlike the others."""
    rows: list[Sequence[str]] = []
    cases = (("even", 64, 1 / 64, 1.0), ("half of all tasks in one", 64, 0.5, 1.0),
             ("one server busy: 5 ms a claim", 64, 1 / 64, 50.0),
             ("half of all tasks in one", 8, 0.5, 1.0))  # fmt: skip
    for (name, partitions, hot, slow), policy in product(cases, POLICIES):
        model = Model(partitions=partitions, concurrency=1, seconds=4.0)
        seen = stream(model, policy, load=0.7, hot=hot, slow=slow)
        rest = [wait for partition in seen[1:] for wait in partition.waits]
        waits = [percentile(of, q) * 1000 for of in (seen[0].waits, rest) for q in (0.5, 0.99)]
        claims = sum(p.claims for p in seen) / max(sum(p.started for p in seen), 1)
        told = (f"{wait:,.0f}" for wait in waits)
        rows.append((name, f"{partitions}", policy, *told, f"{claims:.0f}"))
    head = ("load 70 %", "P", "policy", "hot: p50 ms", "p99 ms", "others: p50 ms", "p99 ms",
            "claims a task")  # fmt: skip
    return head, rows


def idleness() -> Table:
    """What a fleet without work costs, and when a task is found whose hint was lost."""
    rows: list[Sequence[str]] = []
    for workers, policy in product((1, 10, 1_000), POLICIES):
        model = Model(workers=workers, seconds=60.0 if workers < 1_000 else 25.0)
        fleet = Fleet(model, POLICIES[policy], seed=SEED)
        for number in range(model.partitions):
            come = partial(fleet.arrive, number, hinted=False)
            fleet.at(8.0 + fleet.rng.random() * 4, come)
        before: list[int] = []
        fleet.at(_CALM_S, partial(_note_claims, fleet, before))
        seen = fleet.run()
        found = [wait for partition in seen for wait in partition.waits]
        claims = sum(partition.claims for partition in seen) - sum(before)
        rate = claims / (model.seconds - _CALM_S)
        rows.append((
            f"{workers:,}", policy, f"{rate:,.0f}", f"{len(found)} of {model.partitions}",
            f"{max(found, default=0):.1f} s",
        ))  # fmt: skip
    head = ("idle workers", "policy", "claims/s", "found", "the last after")
    return head, rows


def _note_claims(fleet: Fleet, claims: list[int]) -> None:
    claims.extend(partition.claims for partition in fleet.partitions)


def rebalancing(policy: str) -> dict[str, list[float]]:
    """Tasks started a second, a partition, in the half that always had work and in the half that
    gets it after 4 s."""
    model = Model(seconds=10.0)
    fleet = Fleet(model, POLICIES[policy], seed=SEED)
    half = model.partitions // 2
    for partition in fleet.partitions[:half]:
        partition.stored = STORED // model.partitions

    def fill() -> None:
        for partition in fleet.partitions[half:]:
            partition.stored = STORED // model.partitions

    fleet.at(4.0, fill)
    seen = fleet.run()
    groups = {"work from the start": seen[:half], "work from 4 s on": seen[half:]}
    seconds = range(int(model.seconds))
    return {
        name: [sum(p.by_second.get(s, 0) for p in group) / len(group) for s in seconds]
        for name, group in groups.items()
    }


# --- what is written ---


def markdown(table: Table) -> str:
    """A table for the page."""
    head, rows = table
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plot(series: dict[str, dict[str, list[float]]]) -> str:
    """One panel per policy, one line per group of partitions, as SVG."""
    width, height, left, top = 360, 200, 50, 30
    most = max(max(line) for lines in series.values() for line in lines.values()) or 1.0
    colours = ("#1f6f8b", "#d1495b")
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * (width + left)} 290" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for panel, (policy, lines) in enumerate(series.items()):
        x0 = left + panel * (width + left)
        out.append(f'<text x="{x0}" y="18" font-size="13">policy: {policy}</text>')
        for share in (0, 0.5, 1):
            y = top + height * (1 - share)
            out.append(
                f'<line x1="{x0}" x2="{x0 + width - 20}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>'
                f'<text x="{x0 - 6}" y="{y + 4:.0f}" text-anchor="end">{most * share:,.0f}</text>'
            )
        seconds = len(next(iter(lines.values())))
        step = (width - 20) / (seconds - 1)
        for (name, line), colour in zip(lines.items(), colours, strict=True):
            points = " ".join(
                f"{x0 + i * step:.1f},{top + height * (1 - value / most):.1f}"
                for i, value in enumerate(line)
            )
            out.append(
                f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
            )
            y = 262 + 15 * colours.index(colour)
            out.append(f'<text x="{x0}" y="{y}" fill="{colour}">{name}</text>')
        for second in range(0, seconds, 2):
            x = x0 + second * step
            out.append(f'<text x="{x:.0f}" y="{top + height + 15}" text-anchor="middle">'
                       f"{second}</text>")  # fmt: skip
    out.append(
        f'<text x="{left + width}" y="285" text-anchor="middle">seconds; tasks started a second, '
        "per partition</text></svg>"
    )
    return "\n".join(out) + "\n"


def report() -> str:
    """All tables."""
    model = Model()
    parts = [
        f"Seed {SEED}. {model.concurrency} slots a worker, handlers of {model.task_s:g} s on the "
        f"average, {model.trip_s * 1000:g} ms of network, {model.call_s * 1e6:.0f} us of a "
        f"partition's server per claim and {model.each_s * 1e6:.0f} us per task.",
        "### Where tasks fall",
        markdown(placement()),
        "### A billion tasks wait: 5 s with 1,000 workers, 20 s with 16",
        markdown(fairness()),
        "### Hot partitions: 1,000 workers with one slot each, 4 s",
        markdown(hot_partitions()),
        "### Nothing to do: 64 partitions",
        markdown(idleness()),
        "### Work comes to the other half",
        "![Tasks started per partition, before and after](scaling.svg)",
    ]
    return "\n\n".join(parts)


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/scaling.md, with the plot")
    tables = report()
    if not parser.parse_args().write:
        print(tables)
        return
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}\n\n{tables}\n\n{END}{after}", encoding="utf-8")
    PLOT.write_text(plot({policy: rebalancing(policy) for policy in POLICIES}), encoding="utf-8")


if __name__ == "__main__":
    main()
