"""The section on the service in docs/benchmarks.md: each figure beside the bar it is held to."""

import statistics
from typing import Any

from embedded_report import told_of
from side_by_side_report import FEWEST

Told = dict[str, Any]
Outcomes = dict[str, list[dict[str, Any]]]

PREPARED = "the task to get"
"""An outcome that is kept for its count alone."""


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
        f"kept connections on the same cores: {sizes['rounds']} rounds, each of "
        f"{sizes['singles']:,} single submits over 100 connections and as many over 32, in turn "
        "with as many requests to the framework's empty JSON route on a server of its own; "
        f"{sizes['bulk']:,} tasks, 500 a request over 4 connections; one task asked for 100 times "
        "a second while single submits over 32 come as fast as "
        f"they are answered; {sizes['streams']:,} event streams of a queue and {sizes['events']} "
        "submits to it one after the other, alone and while single submits to another queue come "
        "as fast as they are answered, from the submit until the last stream has the move; and "
        "everything stored drained by one `andon worker --url http://...`. Every answer's status "
        "was checked, the tasks were counted in the store after each row, every move in every "
        "stream. Figures are medians of the rounds, the smallest and the largest in brackets. CPU "
        "is the server process's own, all threads, the median. Run it with "
        '`make bench ARGS="--store service"`.',
        "",
    ]
    for store, outcomes in told["outcomes"].items():
        lines += [f"### On {store}", "", *_rows(outcomes), "", *_few(outcomes)]
    return lines


def _few(outcomes: Outcomes) -> list[str]:
    """Which rows are left out, since they rest on fewer rounds than a median should."""
    few = {name: len(found) for name, found in outcomes.items() if len(found) < FEWEST}
    few.pop(PREPARED, None)
    if not few:
        return []
    names = ", ".join(f"{name} ({count})" for name, count in few.items())
    return [f"Left out until they are measured in {FEWEST} rounds: {names}.", ""]


def _rows(outcomes: Outcomes) -> list[str]:
    few = ", fewer connections"
    rows = [
        _rate(outcomes, "the framework's empty route", "empty route"),
        _rate(outcomes, "the same, taking a submit's body", "empty route, same body"),
        _rate(outcomes, "single submits", "single submits", "2,500/s"),
        _share(outcomes, "of the empty route's rate", "", "60%"),
        _rate(outcomes, "single submits over 32 connections", f"single submits{few}"),
        _share(outcomes, "of the empty route's rate over as many", few),
        _rate(outcomes, "bulk submit", "bulk submit", "15,000/s", unit=" tasks/s", per=" a task"),
        _reads(outcomes),
        _streams(outcomes, "more memory with the streams", "memory_mb", " MB", "60 MB", digits=1),
        _streams(outcomes, "a move in the last stream, at worst", "last_max_ms", " ms", "100 ms"),
        _streams(
            outcomes,
            "the same beside submits to another queue",
            "last_max_ms",
            " ms",
            "100 ms",
            name="streams under load",
        ),
        _rate(outcomes, "drain by one remote worker process", "drain, remote worker", "5,000/s"),
    ]
    head = ["| | measured | wanted | CPU of the server |", "|---|---|---|---|"]
    return head + [row for row in rows if row]


def values(outcomes: Outcomes, name: str, figure: str) -> list[float]:
    """A figure in each round; none if there were too few rounds for a median."""
    found = outcomes.get(name, [])
    return [one[figure] for one in found] if len(found) >= FEWEST else []


def _rate(
    outcomes: Outcomes, label: str, name: str, wanted: str = "", *, unit: str = "/s", per: str = ""
) -> str:
    rates = values(outcomes, name, "rate")
    if not rates:
        return ""
    cpu = f"{_median(outcomes, name, 'cpu_us'):.0f} us{per}"
    if "worker_cpu_us" in outcomes[name][0]:
        cpu += f" (worker {_median(outcomes, name, 'worker_cpu_us'):.0f})"
    return f"| {label} | {_told(rates, 0, unit)} | {wanted} | {cpu} |"


def _share(outcomes: Outcomes, label: str, how: str, wanted: str = "") -> str:
    ours, empty = (
        values(outcomes, f"{name}{how}", "rate") for name in ("single submits", "empty route")
    )
    if not ours or not empty:
        return ""
    shares = [mine / bare * 100 for mine, bare in zip(ours, empty, strict=True)]
    return f"| {label} | {_told(shares, 0, '%')} | {wanted} | |"


def _reads(outcomes: Outcomes) -> str:
    name = "GET under load"
    waits = values(outcomes, name, "p99_ms")
    if not waits:
        return ""
    beside, p50 = _median(outcomes, name, "submits_rate"), _median(outcomes, name, "p50_ms")
    label = f"`GET` of one task beside {beside:,.0f} submits/s, p99"
    return f"| {label} | {_told(waits, 1, ' ms')}; p50 {p50:.1f} | 15 ms | |"


def _streams(
    outcomes: Outcomes,
    label: str,
    figure: str,
    unit: str,
    wanted: str,
    *,
    name: str = "streams",
    digits: int = 0,
) -> str:
    found = values(outcomes, name, figure)
    return f"| {label} | {_told(found, digits, unit)} | {wanted} | |" if found else ""


def _told(found: list[float], digits: int, unit: str) -> str:
    """The median with its unit, the smallest and the largest."""
    median, rest = told_of(found, digits).split(" ", 1)
    return f"{median}{unit} {rest}"


def _median(outcomes: Outcomes, name: str, figure: str) -> float:
    return statistics.median(one[figure] for one in outcomes[name])
