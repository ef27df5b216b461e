"""The section on the service in docs/benchmarks.md: each figure beside the bar it is held to."""

import statistics
from typing import Any

from side_by_side_report import FEWEST

Told = dict[str, Any]


def plots(told: Told) -> dict[str, str]:
    """Name to SVG."""
    return {}


def section(told: Told) -> list[str]:
    """The section's lines."""
    where, sizes = told["machine"], told["sizes"]
    stores = "; ".join(f"{name}: {about}" for name, about in told["about"].items())
    lines = [
        "## The service",
        "",
        f"Measured {where['date']} on {where['cores']} cores ({where['cpu']}, {where['system']}), "
        f"load before the run {where['load_before'][0]:.1f}. {stores}.",
        "",
        "`andon serve` in one process, open on loopback, the load from processes of its own over "
        f"kept connections on the same cores: {sizes['rounds']} rounds of {sizes['singles']:,} "
        "single submits over 100 connections and as many over 32, in turn with as many requests "
        f"to the framework's empty JSON route on a server of its own; {sizes['bulk']:,} tasks, 500 "
        "a request over 4 connections; one task asked for 100 times a second while single submits "
        "over 32 come as fast as "
        f"they are answered; {sizes['streams']:,} event streams of a queue and {sizes['events']} "
        "submits to it one after the other, alone and while single submits to another queue come "
        "as fast as they are answered, from the submit until the last stream has the move; and "
        "everything stored drained by one `andon worker --url http://...`. Every answer's status "
        "was checked, the tasks were counted in the store after each row, every move in every "
        "stream. CPU is the server process's own, all threads. Run it with "
        '`make bench ARGS="--store service"`.',
        "",
    ]
    for store, outcomes in told["outcomes"].items():
        lines += [f"### On {store}", "", *_rows(outcomes), "", *_few(outcomes)]
    return lines


def _few(outcomes: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Which figures rest on fewer rounds than a median should."""
    few = {name: len(found) for name, found in outcomes.items() if len(found) < FEWEST}
    if not few:
        return []
    names = ", ".join(f"{name} ({count})" for name, count in few.items())
    return [f"Of fewer than {FEWEST} rounds, so read them as one run's: {names}.", ""]


def _rows(outcomes: dict[str, list[dict[str, Any]]]) -> list[str]:
    def of(name: str, figure: str) -> float:
        return statistics.median(one[figure] for one in outcomes[name])

    def share(how: str = "") -> float:
        pairs = zip(outcomes[f"single submits{how}"], outcomes[f"empty route{how}"], strict=True)
        return statistics.median(ours["rate"] / empty["rate"] for ours, empty in pairs)

    few = ", fewer connections"
    quiet, loaded = "streams", "streams under load"
    beside = of("GET under load", "submits_rate")
    return [
        "| | measured | wanted | CPU of the server |",
        "|---|---|---|---|",
        f"| the framework's empty route | {of('empty route', 'rate'):,.0f}/s | | "
        f"{of('empty route', 'cpu_us'):.0f} us |",
        f"| the same, taking a submit's body | {of('empty route, same body', 'rate'):,.0f}/s | | "
        f"{of('empty route, same body', 'cpu_us'):.0f} us |",
        f"| single submits | {of('single submits', 'rate'):,.0f}/s | 2,500/s | "
        f"{of('single submits', 'cpu_us'):.0f} us |",
        f"| of the empty route's rate | {share():.0%} | 60% | |",
        f"| single submits over 32 connections | {of('single submits' + few, 'rate'):,.0f}/s | | "
        f"{of('single submits' + few, 'cpu_us'):.0f} us |",
        f"| of the empty route's rate over as many | {share(few):.0%} | | |",
        f"| bulk submit | {of('bulk submit', 'rate'):,.0f} tasks/s | 15,000 tasks/s | "
        f"{of('bulk submit', 'cpu_us'):.0f} us a task |",
        f"| `GET` of one task beside {beside:,.0f} submits/s, p99 | "
        f"{of('GET under load', 'p99_ms'):.1f} ms (p50 {of('GET under load', 'p50_ms'):.1f}) | "
        "15 ms | |",
        f"| more memory with the streams | {of(quiet, 'memory_mb'):.1f} MB | 60 MB | |",
        f"| a move in the last stream, at worst | {of(quiet, 'last_max_ms'):.0f} ms "
        f"(median {of(quiet, 'last_ms'):.0f}) | 100 ms | |",
        f"| the same beside submits to another queue | {of(loaded, 'last_max_ms'):.0f} ms "
        f"(median {of(loaded, 'last_ms'):.0f}) | 100 ms | |",
        f"| drain by one remote worker process | {of('drain, remote worker', 'rate'):,.0f}/s | "
        f"5,000/s | {of('drain, remote worker', 'cpu_us'):.0f} us "
        f"(worker {of('drain, remote worker', 'worker_cpu_us'):.0f}) |",
    ]
